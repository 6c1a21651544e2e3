"""A comparison as people and programs see it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from rich.console import Console

from benchharness.metrics import METRICS
from benchharness.report import compare_view
from benchharness.report.compare_view import Apart
from benchharness.stats.compare import Cell, compare
from benchharness.stats.twolevel import components


def cells(first: list[float], second: list[float]) -> tuple[Cell, ...]:
    sides = [
        pd.DataFrame({"launch": range(len(v)), "block": range(len(v)), "context_tokens": 128, "cycle_ms": v})
        for v in (first, second)
    ]
    return compare(sides[0], sides[1], [METRICS["cycle_ms"]], stack="b", same_run=True)


def shown(found: tuple[Cell, ...]) -> str:
    console = Console(width=120, record=True)
    compare_view.show(console, "r:a", "r:b", Apart({}, {}), found)
    return console.export_text()


def test_a_change_stands_in_percent_and_in_the_unit() -> None:
    text = shown(cells([20.0, 20.1, 19.9, 20.0], [21.0, 21.2, 20.9, 21.1]))
    assert "regressed" in text and "+5.2%" in text
    assert "+1.050" in text and " ms " in text
    assert "paired by block" in text


def test_an_undecided_cell_says_how_many_launches_would_decide() -> None:
    found = cells([100, 130, 90, 115], [104, 125, 99, 121])
    number = found[0].further_launches
    assert f"about {number} more launches a side would decide" in shown(found)
    (row,) = compare_view.document("r:a", "r:b", Apart({}, {}), found)["cells"]
    assert row["further_launches"] == number
    assert row["low_abs"] < row["change_abs"] < row["high_abs"]


def test_a_bimodal_cell_says_so() -> None:
    found = cells([2.55, 4.12, 2.56, 4.1, 2.54], [4.13, 4.11, 2.55, 4.12, 2.56])
    text = " ".join(shown(found).split())
    assert "(modes)" in text and "change within a mode" in text
    assert "slow mode was drawn in 2 of 5 baseline and 3 of 5 candidate launches" in text
    (row,) = compare_view.document("r:a", "r:b", Apart({}, {}), found)["cells"]
    assert row["bimodal"] is True and row["verdict"] == "undecided"


def test_where_the_spread_lies_is_told() -> None:
    parts = components([np.array([1.0, 1.01, 1.02]), np.array([2.0, 2.01, 2.02])])
    assert parts is not None
    console = Console(width=120, record=True)
    compare_view.show_spread(console, {("cycle_ms", 128): parts})
    assert "cycle_ms at context 128" in console.export_text()
    (row,) = compare_view.spread_document({("cycle_ms", 128): parts})
    assert row["share_between"] > 0.9 and row["launches"] == 2


def test_cells_that_more_launches_would_decide_share_one_line() -> None:
    found = [
        *cells([100, 130, 90, 115], [104, 125, 99, 121]),
        *cells([100, 130, 90, 115], [70, 125, 80, 100]),
    ]
    numbers = sorted(cell.further_launches or 0 for cell in found)
    assert 0 < numbers[0] < numbers[1]
    (line,) = compare_view.reasons(found)
    assert line == (
        f"undecided (2 of 2): about {numbers[0]} to {numbers[1]} more launches a side would decide"
    )
    one = compare_view.reasons(cells([100], [104]))
    assert one == [f"undecided (1 of 1): {cells([100], [104])[0].reason}"]

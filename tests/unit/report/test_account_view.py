"""Accounts as they are shown: the published runs on an H200, and what is said of their floors."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchharness.attribution import account
from benchharness.report import account_view, waterfall_view
from benchharness.stats.launch_means import all_metrics, launch_means
from benchharness.stats.positions import by_position
from benchharness.store import open_run

PUBLISHED = Path(__file__).parents[3] / "results" / "published" / "sglang-one-gpu"


def test_the_published_runs_account_for_themselves() -> None:
    stored = open_run(PUBLISHED / "20261129-190721-3061")
    means = launch_means(stored.connect(), all_metrics())
    cells = {(one["stack"], one["context_tokens"]): one for one in account_view.document(stored, means)}
    eagle = cells["eagle3", 128]
    # By CUDA events; the host's clock said 1 ms.
    assert eagle["phases_ms"]["verify"] == pytest.approx(5.73, abs=0.01)
    assert eagle["overhead"] == pytest.approx(0.03, abs=0.005)
    assert eagle["floor_ms"] == pytest.approx(3.37, abs=0.01)
    assert eagle["graph_share"] == 1.0
    assert [one["position"] for one in eagle["acceptance_by_position"]] == [1, 2]
    assert cells["none", 8192]["cycle_ms_per_1k_context"] == pytest.approx(0.386, abs=0.01)


def test_a_verify_without_graphs_is_called_launch_bound_with_its_figures() -> None:
    one = account({"decode_tok_s": 72.0, "accept_length": 1.97, "cycle_ms": 25.7, "verify_ms": 20.7})
    assert one is not None
    said = account_view.launch_bound(one, 3.37, 0.0)
    assert said.startswith("verify takes 20.7 ms, 6.1 times what reading its bytes takes (3.37 ms)")
    for floor, share in ((3.37, 1.0), (3.37, None), (None, 0.0), (15.0, 0.0)):
        assert account_view.launch_bound(one, floor, share) == ""


def test_the_waterfall_between_the_published_stacks_adds_up() -> None:
    stored = open_run(PUBLISHED / "20261129-190721-3061")
    means = launch_means(stored.connect(), all_metrics())
    sides = [means[means["stack"] == name] for name in ("none", "eagle3")]
    steps = waterfall_view.waterfall(*sides)
    assert set(steps) == {128, 2048, 8192}
    for context, found in steps.items():
        speeds = [float(side[side["context_tokens"] == context]["decode_tok_s"].iloc[0]) for side in sides]
        assert sum(step.tok_s for step in found) == pytest.approx(speeds[1] - speeds[0])


def test_by_position_the_steps_add_up_to_what_cycles_allow() -> None:
    stored = open_run(PUBLISHED / "20261129-190721-3061")
    sides = stored.connect("none"), stored.connect("eagle3")
    ceilings = [
        by_position(side).set_index(["context_tokens", "from_token"])["ceiling_tok_s"] for side in sides
    ]
    rows = waterfall_view.by_position(*sides)
    assert {row["from_token"] for row in rows} == {0, 16, 64}
    for row in rows:
        key = row["context_tokens"], row["from_token"]
        whole = ceilings[1][key] - ceilings[0][key]
        assert sum(step["tok_s"] for step in row["steps"]) == pytest.approx(whole)
        assert [step["cause"] for step in row["steps"]] == ["accept length", "cycle"]

"""Cases T11 and T12: slow modes drawn at start, small changes at little and at much noise."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commandline import Ended, bench, run_folder
from storedruns import called, stored

from benchharness.cli.stack_name import Side
from benchharness.metrics import METRICS
from benchharness.stats import compare

CYCLE = METRICS["cycle_ms"]
NORMAL_MS, SLOW_MS = 2.55, 4.12
SLOW_SHARE = 0.6

FILE = f"""\
name: modes
engine: standin
base:
  args:
    dialect: llamacpp
    timings_from: schedule  # cycles as they were drawn, however busy this machine is
    speculation: false
    prefill_ms: 0
    prefill_ms_per_1k: 0
    step_ms: {NORMAL_MS}
    noise_seed: 1
    launch_count_file: starts
matrix:
  case:
    quiet: {{args.launch_cv: 0.005}}
    slower: {{args.launch_cv: 0.005, args.cycle_factor: 1.032}}
    same: {{args.launch_cv: 0.005, args.cycle_factor: 1.0}}
    noisy: {{args.launch_cv: 0.13}}
    noisy-slower: {{args.launch_cv: 0.13, args.cycle_factor: 1.032}}
    modes: {{args.slow_mode_probability: {SLOW_SHARE}, args.slow_mode_factor: {SLOW_MS / NORMAL_MS}}}
    modes-too:
      args.slow_mode_probability: {SLOW_SHARE}
      args.slow_mode_factor: {SLOW_MS / NORMAL_MS}
      args.cycle_factor: 1.0
workload: {{context_tokens: 16, output_tokens: 12, requests: 2}}
measure: {{launches: 5, warmup: 0}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven stacks of five launches, for real."""
    folder = tmp_path_factory.mktemp("modes")
    (folder / "e.yaml").write_text(FILE.replace("starts", str(folder / "starts")))
    ended = bench("run", "e.yaml", cwd=folder)
    assert ended.status in (0, 4), ended.err
    return folder


def compared(place: Path, baseline: str, candidate: str) -> Ended:
    run = run_folder(place / "results")
    arguments = ("--metric", "cycle_ms", "--json")
    return called("compare", f"{run}:{baseline}", f"{run}:{candidate}", *arguments)


@pytest.mark.parametrize(
    ("baseline", "candidate", "verdict", "status"),
    [
        ("quiet", "slower", "regressed", 1),
        ("quiet", "same", "equivalent", 0),
        ("noisy", "noisy-slower", "undecided", 3),
    ],
)
def test_a_small_change_is_told_as_far_as_the_noise_allows(
    place: Path, baseline: str, candidate: str, verdict: str, status: int
) -> None:
    ended = compared(place, baseline, candidate)
    (cell,) = ended.document["cells"]
    assert (cell["verdict"], ended.status) == (verdict, status), ended.err
    if verdict == "regressed":
        assert cell["low"] < 0.032 < cell["high"]
    if verdict == "equivalent":
        assert -0.01 < cell["low"] < cell["high"] < 0.01


def test_a_slow_mode_at_start_is_called_bimodal_and_no_regression(place: Path) -> None:
    ended = compared(place, "modes", "modes-too")
    (cell,) = ended.document["cells"]
    assert (cell["bimodal"], cell["verdict"], ended.status) == (True, "undecided", 3)
    assert f"bimodal: launches start at {NORMAL_MS:.3f} or at {SLOW_MS:.3f} ms" in ended.err


def test_over_200_seeds_at_most_5_percent_are_wrong_and_bimodal_is_said(tmp_path: Path) -> None:
    """Every seed by the values that a stored run gives; every twentieth by the whole command as well."""
    random = np.random.default_rng(11)
    told: Counter[str] = Counter()
    bimodal = 0
    run = stored(tmp_path, "r", {"a": [1.0] * 5, "b": [1.0] * 5})
    tables = [next(run.glob(f"launches/{launch:03d}/trials/*/cycles.parquet")) for launch in range(10)]
    cycles = pq.read_table(tables[0])
    place = cycles.column_names.index("total_ms")
    sides = [Side.of(tmp_path, f"{run}:{stack}").means([CYCLE]) for stack in "ab"]
    for seed in range(200):
        slow = random.random(10) < SLOW_SHARE
        drawn = np.where(slow, SLOW_MS, NORMAL_MS) * np.exp(random.normal(0, 0.005, 10))
        first, second = (side.assign(cycle_ms=drawn[at::2]) for at, side in enumerate(sides))
        (cell,) = compare.compare(first, second, [CYCLE], stack="b", same_run=True)
        told[cell.verdict] += 1
        bimodal += cell.bimodal
        if seed % 20:
            continue
        for table, value in zip(tables, drawn, strict=True):
            pq.write_table(cycles.set_column(place, "total_ms", pa.array([value] * len(cycles))), table)
        ended = called("compare", f"{run}:a", f"{run}:b", "--metric", "cycle_ms", "--json")
        (printed,) = ended.document["cells"]
        assert printed["baseline"] == pytest.approx(drawn[::2].mean())
        assert (printed["verdict"], printed["bimodal"]) == (cell.verdict, cell.bimodal)
        assert ended.status == {"regressed": 1, "undecided": 3}.get(cell.verdict, 0)
    assert told["regressed"] + told["improved"] <= 10, told
    assert told["equivalent"] <= 2, told
    assert bimodal >= 180

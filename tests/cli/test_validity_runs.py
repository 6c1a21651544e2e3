"""Measurements that must not be judged, through the command line and with the stand-in engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from commandline import bench

from benchharness.store import open_run

FILE = """\
name: judged
engine: standin
base: {args: {step_ms: 2, prefill_ms: 1, prefill_ms_per_1k: 0, jit_s: 0.3}}
workload: {context_tokens: [16, 64], output_tokens: 12, requests: 3}
measure: {launches: 1, warmup: WARMUP}
"""


def test_t7_a_compilation_in_the_first_request_of_a_shape_is_left_out_or_invalid(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(FILE.replace("WARMUP", "0"))
    cold = bench("run", "e.yaml", "--json", cwd=tmp_path)
    assert cold.status == 4, cold.err
    found = [one for one in cold.document["findings"] if one["check"] == "no-compilation"]
    assert {one["context_tokens"] for one in found} == {16, 64}
    assert all(one["grave"] and "compiled 1 times" in one["sentence"] for one in found)
    file.write_text(FILE.replace("WARMUP", "1"))
    warm = bench("run", "e.yaml", "--json", cwd=tmp_path)
    assert not [one for one in warm.document["findings"] if one["check"] == "no-compilation"], warm.err
    ttfts = [cell["metrics"]["ttft_ms"] for cell in warm.document["cells"]]
    assert len(ttfts) == 2 and max(ttfts) < 200


LOG_ONLY = """\
name: windows
engine: standin
base:
  args: {speculation: true, accept_length: 2.0, draft_ms: 0.5, verify_ms: 2.5, draft_extend_ms: 0.5,
    rest_ms: 0.5, prefill_ms: 1, prefill_ms_per_1k: 0, log_interval: 40, stream: token}
workload: {context_tokens: 16, output_tokens: 600, requests: 2}
measure: {launches: 1, warmup: 1}
"""


def test_where_nothing_else_tells_of_cycles_the_logs_windows_do(tmp_path: Path) -> None:
    """Chunks hold several cycles; the engine's log tells windows of 40 cycles of 4 ms and 2.0 tokens."""
    (tmp_path / "e.yaml").write_text(LOG_ONLY)
    done = bench("run", "e.yaml", "--json", cwd=tmp_path)
    stored = open_run(tmp_path / done.document["path"])
    rows = stored.connect().execute(
        "SELECT source, clock, window_cycles, counted, mark FROM cycles ORDER BY cycle"
    )
    found = rows.fetchall()
    assert {row[:3] for row in found} == {("log", "host", 40)}
    # The window that holds a prefill is kept in the record and counts for nothing.
    assert any(not counted and "prefill" in (mark or "") for *_, counted, mark in found)
    (cell,) = done.document["cells"]
    assert cell["metrics"]["accept_length"] == pytest.approx(2.0, abs=0.02)
    assert 3.9 < cell["metrics"]["cycle_ms"] < 5.5


@pytest.mark.parametrize("on_cpu", [False, True])
def test_t18_a_model_on_the_cpu_by_accident_is_invalid_and_not_slower(tmp_path: Path, on_cpu: bool) -> None:
    text = FILE.replace("WARMUP", "1").replace(
        "jit_s: 0.3", f"log_dialect: llamacpp, on_cpu: {str(on_cpu).lower()}"
    )
    (tmp_path / "e.yaml").write_text(text)
    done = bench("run", "e.yaml", "--json", cwd=tmp_path)
    found = [one for one in done.document["findings"] if one["check"] == "device-used"]
    assert bool(found) == on_cpu
    if on_cpu:
        assert done.status == 4
        assert found[0]["sentence"] == "device not used: only 0 of 33 layers are on the GPU"
        assert done.document["cells"] == []


def test_t14_lost_acceptance_is_told_from_a_longer_cycle_with_its_position(tmp_path: Path) -> None:
    """B: the second draft token is no longer accepted. A: the verify takes longer."""
    (tmp_path / "e.yaml").write_text(
        """\
name: lost
engine: standin
base:
  args: {speculation: true, draft_ms: 0.5, verify_ms: 3, draft_extend_ms: 0.5, rest_ms: 0, prefill_ms: 1,
    prefill_ms_per_1k: 0, accept_probabilities: [0.85, 0.8, 0.7]}
matrix:
  what:
    good: {}
    lost: {args.accept_probabilities: [0.85, 0.1, 0.1]}
    longer: {args.verify_ms: 7}
workload: {context_tokens: 16, output_tokens: 400, requests: 3}
measure: {launches: 2, warmup: 1}
"""
    )
    run = bench("run", "e.yaml", "--json", cwd=tmp_path).document["path"]
    lost = bench("compare", f"{run}:good", f"{run}:lost", "--metric", "cycle_ms", "--json", cwd=tmp_path)
    assert lost.document["acceptance_falls_from"] == {"16": 2}
    longer = bench("compare", f"{run}:good", f"{run}:longer", "--metric", "cycle_ms", "--json", cwd=tmp_path)
    assert longer.document["acceptance_falls_from"] == {}
    for done, cause in ((lost, "accept length"), (longer, "cycle")):
        (cell,) = done.document["waterfall"]
        worst = min(cell["steps"], key=lambda step: step["tok_s"])
        assert worst["cause"] == cause

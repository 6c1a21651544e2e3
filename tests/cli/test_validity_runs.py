"""Measurements that must not be judged, through the command line and with the stand-in engine."""

from __future__ import annotations

from pathlib import Path

from commandline import bench

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

"""Hunts over the differences of two stacks through the command line, on the stand-in engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from commandline import Ended, bench, run_folder

NOISE = {"launch_cv": 0.01, "prefill_ms": 0, "prefill_ms_per_1k": 0, "phases": True, "accept_length": 2}
KERNELS = ["0.3.16", "0.3.17", "0.3.18", "0.3.19", "0.3.20"]
BEFORE = {
    "source.commit": "a1",
    "packages.sgl-kernel": "0.3.16",
    "packages.flashinfer-python": "0.5.2",
    "packages.nvidia-nccl-cu12": "2.27",
}
AFTER = {
    "source.commit": "a9",
    "packages.sgl-kernel": "0.3.20",
    "packages.flashinfer-python": "0.5.3",
    "packages.nvidia-nccl-cu12": "2.28",
}


def hunt(place: Path, speed_by: dict[str, Any], contexts: list[int]) -> None:
    document = {
        "name": "small",
        "engine": "standin",
        "base": {"source": {"repo": "synthetic"}, "args": {**NOISE, "speed_by": speed_by}},
        "matrix": {"when": {"before": BEFORE, "after": AFTER}},
        "axes": {"packages.sgl-kernel": KERNELS, "source.commit": ["a1", "a5", "a9"]},
        "workload": {"context_tokens": contexts, "output_tokens": 16, "requests": 2},
        "measure": {"warmup": 0},
    }
    (place / "hunt.yaml").write_text(json.dumps(document))


def bisect(place: Path, *more: str) -> Ended:
    ends = ("--good", "before", "--bad", "after", "--json")
    return bench("bisect", "run", "hunt.yaml", "--factors", *ends, *more, cwd=place)


def test_t10_the_culprit_is_a_dependency(tmp_path: Path) -> None:
    """A kernel library that costs nothing at short contexts and acts with the new commit only."""
    slow = {"verify_ms_per_1k_context": 0.5}
    newer = ("0.3.18", "0.3.19", "0.3.20")
    hunt(
        tmp_path,
        {
            # The kernel library is slow in long contexts, from 0.3.18 on, and only with the new commit.
            "packages.sgl-kernel & source.commit": {f"{version} & a9": slow for version in newer},
            # The attention library's old version can't be had with NCCL's new one.
            "packages.flashinfer-python & packages.nvidia-nccl-cu12": {
                "0.5.2 & 2.28": {"unbuildable": "flashinfer 0.5.2 needs nccl < 2.28"}
            },
        },
        contexts=[16, 1024, 2048],
    )
    ended = bisect(tmp_path, "--metric", "verify_ms")
    found = ended.document
    assert (ended.status, found["culprit"]) == (
        0,
        "a9 & packages.sgl-kernel 0.3.18",
    ), ended.err
    assert found["range"] == ["a5 & 0.3.17", "a9 & 0.3.18"]
    assert found["phase"] == "verify"
    # The profile by context: nothing at 16 tokens, more and more beyond.
    assert found["contexts"] == [1024, 2048]
    assert any("only together with source" in note for note in found["notes"])
    swaps = {one["direction"]: one for one in found["swaps"]}
    assert swaps["culprit into good"]["proven"] and swaps["culprit into good"]["change"] > 0
    assert swaps["fix into bad"]["proven"] and swaps["fix into bad"]["change"] < 0
    labels = [(one["before"], one["after"]) for one in found["swaps"]]
    assert labels == [
        ("before + commit a5 + sgl-kernel 0.3.17", "before + commit a9 + sgl-kernel 0.3.18"),
        ("after + commit a9 + sgl-kernel 0.3.18", "after + commit a5 + sgl-kernel 0.3.17"),
    ]
    assert found["launches"] <= 60  # one factor at a time, five times each way, is 60
    assert run_folder(tmp_path / "results").joinpath("verdict.md").is_file()


def test_a_difference_without_versions_in_between_is_swapped_both_ways(tmp_path: Path) -> None:
    hunt(tmp_path, {"packages.nvidia-nccl-cu12": {"2.28": {"rest_ms": 2.5}}}, contexts=[16])
    ended = bisect(tmp_path, "--metric", "cycle_ms")
    found = ended.document
    assert (ended.status, found["culprit"]) == (0, "packages.nvidia-nccl-cu12"), ended.err
    assert found["phase"] == "rest"
    assert {one["direction"]: one["proven"] for one in found["swaps"]} == {
        "culprit into good": True,
        "fix into bad": True,
    }
    assert {one["what"] for one in found["eliminated"]} == {
        "source",
        "packages.sgl-kernel",
        "packages.flashinfer-python",
    }

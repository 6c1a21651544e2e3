"""Hunts with more than one culprit through the command line, on the stand-in engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commandline import Ended, bench, run_folder

CYCLE = {"draft_ms": 1.0, "verify_ms": 6.0, "draft_extend_ms": 1.0, "rest_ms": 2.0}
"""Ten milliseconds, so that a tenth of a millisecond is one percent."""

BASE = {
    **CYCLE,
    "launch_cv": 0.004,
    "noise_seed": None,
    "prefill_ms": 0,
    "prefill_ms_per_1k": 0,
    "speculation": True,
    "phases": True,
    "accept_length": 2.0,
}
VERSIONS = [f"0.3.{number}" for number in range(1, 13)]
WORK = {"context_tokens": [16], "output_tokens": 16, "requests": 2}


def write(place: Path, speed_by: dict[str, Any], **parts: Any) -> None:
    document = {
        "name": "small",
        "engine": "standin",
        "base": {"source": {"repo": "synthetic"}, "args": {**BASE, "speed_by": speed_by}},
        "axes": {"packages.sgl-kernel": VERSIONS},
        "workload": WORK,
        "measure": {"warmup": 0},
        **parts,
    }
    (place / "hunt.yaml").write_text(json.dumps(document))


def on_axis(place: Path, *more: str) -> Ended:
    ends = ("--axis", "sgl-kernel", "--good", VERSIONS[0], "--bad", VERSIONS[-1], "--metric", "cycle_ms")
    return bench("bisect", "run", "hunt.yaml", *ends, "--json", *more, cwd=place)


def two_steps(place: Path) -> None:
    """Verify is 6 % slower from 0.3.4 on, and draft 4 % more from 0.3.9 on."""
    slow = {name: {"verify_ms": 6.6} for name in VERSIONS[3:]}
    slow |= {name: {"verify_ms": 6.6, "draft_ms": 1.4} for name in VERSIONS[8:]}
    write(place, {"packages.sgl-kernel": slow})


def test_two_changes_on_an_axis_are_both_named_and_what_each_explains(tmp_path: Path) -> None:
    two_steps(tmp_path)
    ended = on_axis(tmp_path, "--every")
    found = ended.document
    assert ended.status == 0, ended.err
    assert found["culprit"] == found["culprits"][0]["culprit"] == "sgl-kernel 0.3.4"
    assert [one["culprit"] for one in found["culprits"]] == ["sgl-kernel 0.3.4", "sgl-kernel 0.3.9"]
    assert [one["phase"] for one in found["culprits"]] == ["verify", "draft"]
    assert [one["range"] for one in found["culprits"]] == [["0.3.3", "0.3.4"], ["0.3.8", "0.3.9"]]
    for one, share in zip(found["culprits"], (0.6, 0.4), strict=True):
        assert one["explains"]["low"] < one["explains"]["share"] < one["explains"]["high"]
        assert one["explains"]["share"] == pytest.approx(share, abs=0.15)
        assert one["confidence"] > 0.95
    assert found["rest"] is None
    page = run_folder(tmp_path / "results").joinpath("verdict.md").read_text()
    assert "## All that was found" in page and "| `sgl-kernel 0.3.9` | `0.3.8` |" in page
    status = bench("bisect", "status", "latest", cwd=tmp_path)
    assert "1. sgl-kernel 0.3.4" in status.err + status.out
    assert "2. sgl-kernel 0.3.9" in status.err + status.out


def test_the_rest_is_told_and_a_campaign_that_is_over_goes_on_with_every(tmp_path: Path) -> None:
    two_steps(tmp_path)
    first = on_axis(tmp_path)
    found = first.document
    assert (first.status, found["culprit"]) == (0, "sgl-kernel 0.3.4"), first.err
    assert found["rest"]["where"] == "between 0.3.4 and 0.3.12"
    assert found["rest"]["low"] > 0 and found["rest"]["share"] == pytest.approx(0.4, abs=0.15)
    words = " ".join(first.err.split())
    assert "of the difference between the ends; the rest," in words
    assert "bisect run hunt.yaml --axis sgl-kernel" in words and "--every --resume" in words

    more = bench(*found["rest"]["command"][1:], "--json", cwd=tmp_path)
    assert more.status == 0, more.err
    assert [one["culprit"] for one in more.document["culprits"]] == ["sgl-kernel 0.3.4", "sgl-kernel 0.3.9"]
    assert more.document["launches"] > found["launches"]
    assert len(list(tmp_path.glob("results/small-bisect/*"))) == 1
    again = on_axis(tmp_path, "--resume")
    assert again.document["launches"] == more.document["launches"]
    assert len(again.document["culprits"]) == 2


def test_where_one_change_is_all_every_takes_few_launches_more(tmp_path: Path) -> None:
    write(tmp_path, {"packages.sgl-kernel": {name: {"verify_ms": 7.0} for name in VERSIONS[5:]}})
    plain = on_axis(tmp_path)
    every = on_axis(tmp_path, "--every", "--resume")
    assert (plain.status, every.status) == (0, 0), plain.err + every.err
    assert plain.document["rest"] is None
    assert [one["culprit"] for one in every.document["culprits"]] == ["sgl-kernel 0.3.6"]
    assert every.document["launches"] - plain.document["launches"] <= 8
    assert "nothing else is left" in " ".join(every.err.split())
    # The change fills the axis, and nothing is said of a rest.
    assert "the rest" not in " ".join(plain.err.split())


def test_a_budget_that_ends_before_all_is_found_is_no_success(tmp_path: Path) -> None:
    two_steps(tmp_path)
    first = on_axis(tmp_path)
    launches = first.document["launches"]
    short = on_axis(tmp_path, "--every", "--resume", "--most-launches", str(launches))
    found = short.document
    assert (short.status, found["outcome"], found["culprit"]) == (3, "budget spent", "sgl-kernel 0.3.4")
    assert found["rest"] is not None


FACTORS = {
    "source.commit": ("a1", "a9"),
    "packages.flashinfer-python": ("0.5.2", "0.5.3"),
    "packages.nvidia-nccl-cu12": ("2.27", "2.28"),
    "env.ATTENTION_MODE": ("prefill", "decode"),
    "env.NCCL_PROTO": ("Simple", "LL"),
}


def of_factors(place: Path, speed_by: dict[str, Any], *more: str) -> Ended:
    sides = {
        side: {name: pair[at] for name, pair in FACTORS.items()}
        for at, side in enumerate(("before", "after"))
    }
    write(place, speed_by, axes={}, matrix={"when": sides})
    ends = ("--factors", "--good", "before", "--bad", "after", "--metric", "cycle_ms")
    return bench("bisect", "run", "hunt.yaml", *ends, "--json", *more, cwd=place)


ADDED = {
    "packages.nvidia-nccl-cu12": {"2.28": {"verify_ms": 6.6}},
    "env.NCCL_PROTO": {"LL": {"rest_ms": 2.4}},
}
EITHER = {
    "packages.nvidia-nccl-cu12": {"2.28": {"verify_ms": 7.0}},
    "env.NCCL_PROTO": {"LL": {"verify_ms": 7.0}},
}


def test_of_two_factors_that_add_both_are_named_with_every(tmp_path: Path) -> None:
    first = of_factors(tmp_path, ADDED)
    found = first.document
    one, other = "packages.nvidia-nccl-cu12", "env.NCCL_PROTO"
    assert first.status == 0 and found["culprit"] in (one, other), first.err
    left = other if found["culprit"] == one else one
    assert left in found["rest"]["where"]
    assert "--every --resume" in " ".join(first.err.split())

    ended = of_factors(tmp_path, ADDED, "--every", "--resume")
    found = ended.document
    assert ended.status == 0, ended.err
    shares = {one["culprit"]: one["explains"]["share"] for one in found["culprits"]}
    assert shares == {one: pytest.approx(0.6, abs=0.15), other: pytest.approx(0.4, abs=0.15)}
    phases = {one["culprit"]: one["phase"] for one in found["culprits"]}
    assert phases == {one: "verify", other: "rest"}
    assert found["rest"] is None
    assert not {one, other} & {row["what"] for row in found["eliminated"]}


def test_of_two_factors_of_which_either_is_enough_both_are_named_with_every(tmp_path: Path) -> None:
    ended = of_factors(tmp_path, EITHER, "--every")
    found = ended.document
    assert ended.status == 0, ended.err
    assert {one["culprit"] for one in found["culprits"]} == {"packages.nvidia-nccl-cu12", "env.NCCL_PROTO"}
    assert [one["masked"] for one in found["culprits"]] == [True, False]
    for one in found["culprits"]:
        assert one["explains"]["share"] == pytest.approx(1, abs=0.2)
        assert one["change"] == pytest.approx(0.1, abs=0.03)
    assert found["rest"] is None
    assert "is enough by itself, but the bad stack is as slow without it" in " ".join(ended.err.split())

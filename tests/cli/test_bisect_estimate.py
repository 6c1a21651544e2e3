"""What a bisection is expected to take, before it begins and while it goes on."""

from __future__ import annotations

from pathlib import Path

from commandline import Ended, bench, experiment

ASKED = ("--axis", "sgl-kernel", "--good", "0.3.1", "--bad", "0.3.10", "--metric", "cycle_ms")
VERSIONS = [f"0.3.{number}" for number in range(1, 11)]


def hunt(place: Path) -> Path:
    """Ten releases of a kernel library, slower from the seventh on."""
    slow = {version: {"draft_ms": 3} for version in VERSIONS[6:]}
    args = {"launch_cv": 0.01, "noise_seed": None, "speculation": True, "phases": True, "accept_length": 2.0}
    return experiment(
        place / "hunt.yaml",
        args={**args, "speed_by": {"packages.sgl-kernel": slow}},
        axes={"packages.sgl-kernel": VERSIONS},
        workload={"context_tokens": [16], "output_tokens": 12, "requests": 2},
    )


def estimate(place: Path, *more: str) -> Ended:
    return bench("bisect", "run", "hunt.yaml", *ASKED, "--estimate", *more, cwd=place)


def test_an_estimate_launches_nothing_and_says_what_it_stands_on(tmp_path: Path) -> None:
    hunt(tmp_path)
    done = estimate(tmp_path, "--json")
    assert done.status == 0, done.err
    document = done.document
    assert document["places"] == VERSIONS
    told = document["forecast"]
    assert 8 <= told["launches"]["low"] <= told["launches"]["middle"] <= told["launches"]["high"]
    assert "nothing is known of the noise here yet" in told["assumed"]
    assert "sgl-kernel: 10 points; about " in done.err
    assert not (tmp_path / "results").exists()


def test_what_launches_took_is_learnt_and_what_is_to_go_is_told(tmp_path: Path) -> None:
    hunt(tmp_path)
    before = estimate(tmp_path, "--json").document["forecast"]["hours"]["middle"]
    ran = bench("bisect", "run", "hunt.yaml", *ASKED, "--most-launches", "6", "--json", cwd=tmp_path)
    assert ran.document["outcome"] == "budget spent"
    assert "sgl-kernel: 10 points" in ran.err
    # A build is guessed at minutes, and the stand-in's takes none of them.
    assert estimate(tmp_path, "--json").document["forecast"]["hours"]["middle"] < before / 10
    status = bench("bisect", "status", "latest", "--json", cwd=tmp_path)
    to_go = status.document["to_go"]
    assert to_go["assumed"] == "with a larger budget"
    assert 1 <= to_go["launches"]["low"] <= to_go["launches"]["high"] <= 60
    assert "to go: about " in status.err
    resumed = bench("bisect", "run", "hunt.yaml", *ASKED, "--resume", "--json", cwd=tmp_path)
    assert resumed.document["culprit"] == "sgl-kernel 0.3.7", resumed.err
    assert bench("bisect", "status", "latest", "--json", cwd=tmp_path).document["to_go"] is None


def test_of_two_stacks_it_says_how_many_combinations_there_are_at_least(tmp_path: Path) -> None:
    before, after = (
        {"args.draft_ms": ms, "env.A": value, "env.B": value} for ms, value in ((1, "1"), (3, "2"))
    )
    experiment(tmp_path / "hunt.yaml", matrix={"when": {"before": before, "after": after}})
    ends = ("--good", "before", "--bad", "after")
    done = bench("bisect", "run", "hunt.yaml", "--factors", *ends, "--estimate", cwd=tmp_path)
    assert done.status == 0, done.err
    assert "3 differences, one or two of which act: 3 combinations or more" in done.out


def test_an_estimate_begins_nothing_that_could_be_resumed_or_written(tmp_path: Path) -> None:
    hunt(tmp_path)
    estimate(tmp_path, "--resume").refused(2, "--estimate")
    estimate(tmp_path, "-o", "page.md").refused(2, "-o")

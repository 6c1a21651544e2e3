"""Bisections along an axis through the command line, on the stand-in engine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from commandline import Command, Ended, bench, experiment

VERSIONS = [f"0.3.{number}" for number in range(1, 11)]
"""Ends with 0.3.10, which is the last one in version order and the second by letters."""

NOISE = {"launch_cv": 0.01, "noise_seed": None, "speculation": True, "phases": True, "accept_length": 2.0}


def hunt(
    place: Path, slow_from: int, slow: dict[str, Any], unbuildable: tuple[int, ...] = (), **parts: Any
) -> Path:
    """An experiment whose kernel library is slow from one version on."""
    by_version: dict[str, dict[str, Any]] = {VERSIONS[at]: slow for at in range(slow_from, len(VERSIONS))}
    by_version |= {VERSIONS[at]: {"unbuildable": "no wheel"} for at in unbuildable}
    args = {**NOISE, "speed_by": {"packages.sgl-kernel": by_version}, **parts.pop("args", {})}
    return experiment(
        place / "hunt.yaml",
        args=args,
        axes={"packages.sgl-kernel": VERSIONS},
        workload={"context_tokens": [16], "output_tokens": 12, "requests": 2},
        **parts,
    )


def bisect(place: Path, *more: str | Path, good: str = "0.3.1", bad: str = "0.3.10") -> Ended:
    ends = ("--good", good, "--bad", bad)
    return bench("bisect", "run", "hunt.yaml", "--axis", "sgl-kernel", *ends, *more, "--json", cwd=place)


def test_a_culprit_is_found_in_few_launches_and_the_page_says_so(tmp_path: Path) -> None:
    hunt(tmp_path, 6, {"draft_ms": 3})
    ended = bisect(tmp_path, "--metric", "cycle_ms", "-o", "page.md")
    found = ended.document
    assert (ended.status, found["culprit"], found["phase"]) == (0, "sgl-kernel 0.3.7", "draft"), ended.err
    assert found["range"] == ["0.3.6", "0.3.7"]
    assert found["contexts"] == [16]
    assert found["confidence"] >= 0.95
    # Two for the pre-flight, two or four for the ends, four points, four or six for the confirmation.
    assert found["launches"] <= 18
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("# cycle_ms worse by +")
    assert "synthetic" in page
    assert "benchharness bisect run" in page and "--good 0.3.1 --bad 0.3.10" in page
    assert {one["what"] for one in found["eliminated"]} == {
        "a point up to 0.3.6",
        "a point after 0.3.7, up to 0.3.10",
    }


def test_the_version_order_never_decides_the_direction(tmp_path: Path) -> None:
    hunt(tmp_path, 3, {"verify_ms": 6})
    backwards = bisect(tmp_path, "--metric", "verify_ms", good="0.3.10", bad="0.3.1")
    found = backwards.document
    assert (backwards.status, found["culprit"], found["improved"]) == (0, "sgl-kernel 0.3.3", True)
    assert found["change"] < 0
    assert "is what made it faster" in backwards.err


def test_an_end_that_cannot_be_launched_ends_as_infrastructure(tmp_path: Path) -> None:
    hunt(tmp_path, 6, {"verify_ms": 6}, unbuildable=(0,))
    ended = bisect(tmp_path, "--metric", "verify_ms")
    assert (ended.status, ended.document["culprit"]) == (5, None), ended.err
    assert "no wheel" in ended.document["reason"]


def test_a_start_that_fails_can_itself_be_hunted(tmp_path: Path) -> None:
    hunt(tmp_path, 4, {"fault": "die-at-start"})
    ended = bisect(tmp_path, "--metric", "failed")
    assert (ended.status, ended.document["culprit"]) == (0, "sgl-kernel 0.3.5"), ended.err
    assert ended.document["phase"] == "start"


def test_a_campaign_that_was_killed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    hunt(tmp_path, 6, {"verify_ms": 6})
    arguments = ("bisect", "run", "hunt.yaml", "--axis", "sgl-kernel", "--good", "0.3.1", "--bad", "0.3.10")
    first = Command(*arguments, "--metric", "verify_ms", cwd=tmp_path)
    first.wait_for_line("search: ")
    first.kill()
    first.end()
    first.assert_nobody_left()
    (state,) = tmp_path.glob("results/small-bisect/*/campaign.json")
    before = json.loads(state.read_text())["steps"]

    looked = bench("bisect", "status", "latest", "--json", cwd=tmp_path)
    assert looked.status == 0, looked.err
    assert looked.document["legs"][0]["places"] == VERSIONS

    ended = bench(*arguments, "--metric", "verify_ms", "--resume", "--json", cwd=tmp_path)
    assert (ended.status, ended.document["culprit"]) == (0, "sgl-kernel 0.3.7"), ended.err
    after = json.loads(state.read_text())["steps"]
    assert [one["place"] for one in after[: len(before)]] == [one["place"] for one in before]
    assert len(list(tmp_path.glob("results/small-bisect/*"))) == 1


def test_steps_skips_and_values_by_hand(tmp_path: Path) -> None:
    hunt(tmp_path, 6, {"verify_ms": 6})
    short = bisect(tmp_path, "--metric", "verify_ms", "--most-launches", "4")
    assert (short.status, short.document["outcome"]) == (3, "budget spent"), short.err
    assert "more were allowed" in short.document["reason"]

    skipped = bench("bisect", "skip", "latest", "0.3.6", "--reason", "hangs", cwd=tmp_path)
    assert skipped.status == 0, skipped.err
    entered = bench("bisect", "step", "latest", "--at", "0.3.8", "--value", "6.0", "--json", cwd=tmp_path)
    assert entered.status == 0, entered.err
    assert entered.document["legs"][0]["unusable"] == {"0.3.6": "hangs"}

    log = bench("bisect", "log", "latest", "--json", cwd=tmp_path).document["steps"]
    assert [one["role"] for one in log] == ["pre-flight", "pre-flight", "ends", "ends", "by hand"]
    assert (log[-1]["place"], log[-1]["value"]) == ("0.3.8", pytest.approx(6.0))

    more = bisect(tmp_path, "--metric", "verify_ms", "--resume")
    assert (more.status, more.document["range"]) == (3, ["0.3.5", "0.3.7"]), more.err

    for wrong, words in (
        (("skip", "latest", "0.3.1"), "is an end"),
        (("skip", "latest", "0.9"), "no place '0.9'"),
        (("step", "latest", "--at", "0.3.8", "--value", "-1"), "is no verify_ms"),
        (("step", "latest", "--at", "0.3.8"), "--at and --value go together"),
    ):
        bench("bisect", *wrong, cwd=tmp_path).refused(2, words)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--axis", "sgl-kernel", "--good", "0.3.1", "--bad", "0.3.1"), "both 0.3.1"),
        (("--axis", "sgl-kernel", "--good", "0.3.0", "--bad", "0.3.2"), "is not on the axis"),
        (("--axis", "args.step_ms", "--good", "1", "--bad", "2"), "nothing is known of the values"),
        (("--axis", "commit", "--good", "a", "--bad", "b"), "has no repository"),
        (("--good", "a", "--bad", "b"), "give either --axis or --factors"),
        (("--axis", "sgl-kernel", "--factors", "--good", "a", "--bad", "b"), "either --axis or --factors"),
        (("--factors", "--good", "a", "--bad", "b"), "no stack 'a'"),
        (("--axis", "sgl-kernel", "--good", "0.3.1", "--bad", "0.3.2", "--metric", "x"), "unknown metric"),
        (("--axis", "sgl-kernel", "--good", "0.3.1", "--bad", "0.3.2", "--context", "99"), "no context 99"),
        (("--axis", "sgl-kernel", "--good", "0.3.1", "--bad", "0.3.2", "--stack", "x"), "no stack 'x'"),
        (("--axis", "sgl-kernel", "--good", "0.3.1", "--bad", "0.3.2", "--resume"), "holds no campaign"),
    ],
)
def test_a_wrong_question_is_refused_in_one_line(tmp_path: Path, more: tuple[str, ...], words: str) -> None:
    hunt(tmp_path, 6, {"verify_ms": 6})
    bench("bisect", "run", "hunt.yaml", *more, cwd=tmp_path).refused(2, words)
    assert not (tmp_path / "results").exists()


def test_a_state_of_another_version_or_experiment_is_refused(tmp_path: Path) -> None:
    hunt(tmp_path, 6, {"verify_ms": 6})
    assert bisect(tmp_path, "--metric", "verify_ms", "--most-launches", "4").status == 3
    (state,) = tmp_path.glob("results/small-bisect/*/campaign.json")
    whole = state.read_text()
    for change, words in (
        ({"state_version": 99}, "state version 99"),
        ({"question": {**json.loads(whole)["question"], "experiment": "other"}}, "is a campaign of other"),
        ({"legs": 3}, "is damaged"),
    ):
        state.write_text(json.dumps({**json.loads(whole), **change}))
        bench("bisect", "status", "latest", cwd=tmp_path).refused(2, words)
    state.write_text(whole[:100])
    bench("bisect", "status", "latest", cwd=tmp_path).refused(2, "cannot be read")
    state.unlink()
    bench("bisect", "status", "latest", cwd=tmp_path).refused(2, "is no campaign")
    shutil.rmtree(tmp_path / "results")
    bench("bisect", "status", "latest", cwd=tmp_path).refused(2, "holds no runs")

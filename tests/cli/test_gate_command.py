"""The gate through the command line: every exit status, and every file that it leaves (stand-in engine)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from commandline import Ended, bench

FILE = """\
name: gated
engine: standin
base: {args: {prefill_ms: 1, prefill_ms_per_1k: 0, speculation: false, step_ms: STEP}}
workload: {context_tokens: 16, output_tokens: 40, requests: 3}
measure: {launches: 3, warmup: 1}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of a stack with steps of 4 ms (`fast`) and of 6 ms (`slow`)."""
    folder = tmp_path_factory.mktemp("gated")
    for name, step in (("fast", "4"), ("slow", "6")):
        (folder / "e.yaml").write_text(FILE.replace("STEP", step))
        done = bench("run", "e.yaml", "--json", cwd=folder)
        assert done.status == 0, done.err
        assert bench("baseline", "set", name, done.document["path"], cwd=folder).status == 0
    return folder


def gate(place: Path, run: str, bounds: str, *more: object, env: dict[str, str] | None = None) -> Ended:
    (place / "gate.yaml").write_text(bounds)
    return bench("gate", run, "--thresholds", "gate.yaml", "--json", *more, cwd=place, env=env)


@pytest.mark.parametrize(
    ("bounds", "status", "verdict"),
    [
        ('bounds: {itl_ms: "<= 40", output_tok_s: ">= 10"}', 0, "passed"),
        # CPU time is counted in ticks of 10 ms: launches as short as these may agree by chance.
        ('undecided: warn\nbounds: {cpu_ms_per_token: "<= 1000"}', 0, "passed"),
        ('bounds: {itl_ms: "<= 40", output_tok_s: ">= 10000"}', 1, "failed"),
        ('bounds: {itl_ms: "<= VALUE"}', 3, "undecided"),
        ('undecided: warn\nbounds: {itl_ms: "<= VALUE"}', 0, "passed"),
        ('bounds: {verify_ms: "<= 21"}', 4, "invalid"),
    ],
)
def test_absolute_bounds_end_as_they_must(place: Path, bounds: str, status: int, verdict: str) -> None:
    shown = bench("show", "fast", "--json", cwd=place)
    value = shown.document["cells"][0]["metrics"]["itl_ms"]
    ended = gate(place, "fast", bounds.replace("VALUE", f"{value:.6f}"))
    assert (ended.status, ended.document["verdict"]) == (status, verdict), ended.err


def test_an_invalid_run_is_not_judged(place: Path) -> None:
    run = next(path for path in (place / "results" / "gated").iterdir() if path.is_dir())
    copy = run.with_name("broken")
    shutil.copytree(run, copy)
    trial = next(copy.glob("launches/000/trials/*/trial.json"))
    document = json.loads(trial.read_text())
    document["findings"] = [{"check": "x", "grave": True, "sentence": "it broke"}]
    trial.write_text(json.dumps(document))
    ended = gate(place, str(copy), 'bounds: {itl_ms: "<= 40"}')
    assert (ended.status, ended.document["verdict"]) == (4, "invalid")
    assert ended.document["invalid"] == ["launch 0, context 16: it broke"]
    assert gate(place, str(copy), 'require: any\nbounds: {itl_ms: "<= 40"}').status == 0
    shutil.rmtree(copy)


def test_a_stored_baseline_alone_can_not_tell_drift(place: Path) -> None:
    ended = gate(place, "slow", "bounds: {itl_ms: +10 %}", "--baseline", "fast")
    assert (ended.status, ended.document["verdict"]) == (3, "undecided")
    (finding,) = ended.document["findings"]
    assert finding["value"] == pytest.approx(0.5, abs=0.12)
    assert "--relaunch" in finding["reason"]


def test_relaunched_side_by_side_a_slowdown_ends_1_and_no_change_ends_0(place: Path) -> None:
    slow = gate(place, "slow", "bounds: {itl_ms: +10 %}", "--baseline", "fast", "--relaunch")
    assert (slow.status, slow.document["verdict"]) == (1, "failed"), slow.err
    same = gate(place, "fast", "bounds: {itl_ms: +25 %}", "--baseline", "fast", "--relaunch")
    assert same.status == 0, same.err
    (finding,) = same.document["findings"]
    assert finding["stack"] == "base"


def test_all_files_are_written_whatever_the_verdict(place: Path) -> None:
    bounds = 'bounds: {output_tok_s: ">= 10000", itl_ms: "<= 40"}'
    more = ("--junit", "out/gate.xml", "--summary", "out/summary.md")
    ended = gate(place, "fast", bounds, *more, env={"GITHUB_ACTIONS": "true"})
    assert ended.status == 1
    suite = ElementTree.parse(place / "out" / "gate.xml").getroot()  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    text = (place / "out" / "summary.md").read_text()
    assert "## benchharness gate: failed" in text
    assert "| `output_tok_s` | &gt;= 10000 |" in text
    assert "::error title=benchharness gate::output_tok_s of base at context 16" in ended.err


@pytest.mark.parametrize(
    ("bounds", "more", "said"),
    [
        ('bounds: {verify_mz: "<= 1"}', (), "unknown metric 'verify_mz'"),
        ("bounds: {itl_ms: {max: 1, stack: other}}", (), "the run has no stack 'other'"),
        ("bounds: {itl_ms: {max: 1, context_tokens: 17}}", (), "the run has no context 17 (it has 16)"),
        ("bounds: {itl_ms: +3 %}", (), "none is given; add --baseline RUN"),
        ("bounds: {itl_ms: +3 %}", ("--baseline", "nothing"), "no run 'nothing'"),
        ('bounds: {itl_ms: "<= 1"}', ("--relaunch",), "--relaunch needs relative bounds"),
    ],
)
def test_wrong_words_end_2(place: Path, bounds: str, more: tuple[str, ...], said: str) -> None:
    gate(place, "fast", bounds, *more).refused(2, said)


def test_another_machine_is_refused_unless_it_is_allowed_by_name(place: Path) -> None:
    run = next(path for path in (place / "results" / "gated").iterdir() if path.is_dir())
    copy = run.with_name("elsewhere")
    shutil.copytree(run, copy)
    document = json.loads((copy / "run.json").read_text())
    document["machine"]["cpu"] = "another"
    (copy / "run.json").write_text(json.dumps(document))
    asked = ("bounds: {itl_ms: +3 %}", "--baseline", str(copy))
    gate(place, "fast", *asked).refused(2, "machine.cpu is another", "--allow machine.cpu")
    assert gate(place, "fast", *asked, "--allow", "machine.cpu").status in (0, 1, 3)
    shutil.rmtree(copy)


def test_baselines_are_listed_and_moved(place: Path) -> None:
    listed = bench("baseline", "list", "--json", cwd=place)
    assert [one["name"] for one in listed.document["baselines"]] == ["fast", "slow"]
    bench("baseline", "set", "no/name", "latest", cwd=place).refused(2, "is no name for a baseline")
    bench("baseline", "set", "x", "nothing", cwd=place).refused(2, "no run 'nothing'")

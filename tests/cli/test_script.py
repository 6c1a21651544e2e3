"""A program of the user's that is run against each launch's engine, and what can be judged of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from commandline import Command, bench, experiment, run_folder

ASKS = """\
import json, os, urllib.request
with urllib.request.urlopen(os.environ["BENCHHARNESS_URL"] + "/server_info") as answer:
    settings = json.load(answer)["settings"]
print("stack", os.environ["BENCHHARNESS_STACK"])
print("a step takes", settings["step_ms"], "ms")
raise SystemExit(int(settings["step_ms"] > 15))
"""


def hunt(place: Path, script: str) -> None:
    (place / "asks.py").write_text(script)
    experiment(
        place / "e.yaml",
        args={"speed_by": {"source.release": {"3": {"step_ms": 20}, "4": {"step_ms": 20}}}},
        base_release=None,
        axes={"source.release": ["1", "2", "3", "4"]},
        measure={"launches": 1, "warmup": 0, "script": [sys.executable, "asks.py"]},
    )
    document = json.loads((place / "e.yaml").read_text())
    del document["base_release"]
    document["base"]["source"] = {"release": "1"}
    (place / "e.yaml").write_text(json.dumps(document))


def test_a_scripts_status_and_figure_are_stored_and_judged(tmp_path: Path) -> None:
    hunt(tmp_path, ASKS)
    assert bench("run", "e.yaml", "--set", "measure.launches=3", cwd=tmp_path).status == 0
    launch = json.loads((run_folder(tmp_path / "results") / "launches/000/launch.json").read_text())
    assert launch["script"]["exit_code"] == 0
    assert launch["script"]["value"] == 10.0
    assert launch["script"]["output"].splitlines()[0].startswith("stack ")
    bounds = tmp_path / "bounds.yaml"
    for bound, status in (("<= 11", 0), ("<= 9", 1)):
        bounds.write_text(f'bounds: {{script_value: "{bound}"}}\n')
        ended = bench("gate", "latest", "--thresholds", bounds, "--json", cwd=tmp_path)
        assert ended.status == status, ended.err


def test_the_exit_status_of_a_script_can_be_hunted(tmp_path: Path) -> None:
    hunt(tmp_path, ASKS)
    ends = ("--axis", "release", "--good", "1", "--bad", "4")
    ended = bench("bisect", "run", "e.yaml", *ends, "--metric", "script_fails", "--json", cwd=tmp_path)
    assert (ended.status, ended.document["range"]) == (0, ["2", "3"]), ended.err


def test_a_script_that_cannot_be_started_is_refused(tmp_path: Path) -> None:
    hunt(tmp_path, ASKS)
    for wrong in ("[nothing-of-that-name]", "python3 asks.py"):
        ended = bench("run", "e.yaml", "--set", f"measure.script={wrong}", cwd=tmp_path)
        ended.refused(2, "measure.script can't be started", "as a list")


def test_a_script_is_ended_with_whatever_it_started(tmp_path: Path) -> None:
    hunt(tmp_path, "import subprocess, sys\nsubprocess.Popen(['sleep', '300'])\nprint(4)\n")
    command = Command("run", "e.yaml", cwd=tmp_path)
    assert command.end().status == 0
    command.assert_nobody_left()
    launch = json.loads((run_folder(tmp_path / "results") / "launches/000/launch.json").read_text())
    assert (launch["script"]["exit_code"], launch["script"]["value"]) == (0, 4.0)


def test_a_script_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    hunt(tmp_path, "import time\nprint(7, flush=True)\ntime.sleep(300)\n")
    command = Command("run", "e.yaml", "--set", "measure.start_timeout_s=3", cwd=tmp_path)
    assert command.end().status == 0
    command.assert_nobody_left()
    launch = json.loads((run_folder(tmp_path / "results") / "launches/000/launch.json").read_text())
    assert launch["script"]["exit_code"] is None


def test_a_hunt_by_script_needs_one(tmp_path: Path) -> None:
    hunt(tmp_path, ASKS)
    ends = ("--axis", "release", "--good", "1", "--bad", "4", "--metric", "script_value")
    bench("bisect", "run", "e.yaml", *ends, "--set", "measure.script=[]", cwd=tmp_path).refused(
        2, "needs a program to run"
    )


def test_a_duet_has_no_script(tmp_path: Path) -> None:
    hunt(tmp_path, ASKS)
    bench("run", "e.yaml", "--set", "measure.pairing=duet", cwd=tmp_path).refused(2, "a duet has two")

"""The composite action's own steps, carried out by bash with the harness of this checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
EXPERIMENT = """\
name: acted
engine: standin
base: {args: {speculation: false, step_ms: 3, prefill_ms: 1, prefill_ms_per_1k: 0}}
matrix: {speed: {fast: {args.step_ms: 3}, slow: {args.step_ms: 9}}}
workload: {context_tokens: 16, output_tokens: 20, requests: 2}
measure: {launches: 1, warmup: 0}
"""


def step(name: str) -> dict[str, Any]:
    action = yaml.safe_load((ROOT / ".github" / "actions" / "gate" / "action.yml").read_text())
    found: dict[str, Any] = next(one for one in action["runs"]["steps"] if one["name"] == name)
    return found


@pytest.mark.parametrize(
    ("bound", "baseline", "status"),
    [("<= 100", "", 0), ("<= 0.01", "", 1), ("+400 %", "latest:fast", 0), ("+20 %", "latest:fast", 1)],
)
def test_the_steps_run_and_end_as_the_gate_does(
    tmp_path: Path, bound: str, baseline: str, status: int
) -> None:
    program = tmp_path / "it's here" / "benchharness" / "bin"
    program.mkdir(parents=True)
    (program / "benchharness").symlink_to(Path(sys.executable).with_name("benchharness"))
    (tmp_path / "e f.yaml").write_text(EXPERIMENT)
    stack = ", stack: slow" if baseline else ""
    kind = "change" if baseline else "bound"
    text = f'undecided: warn\nbounds: {{itl_ms: {{{kind}: "{bound}"{stack}}}}}'
    (tmp_path / "gate.yaml").write_text(text)
    env = {
        **os.environ,
        "RUNNER_TEMP": str(tmp_path / "it's here"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "EXPERIMENT": "e f.yaml",
        "SET": "measure.launches=2\nworkload.output_tokens=21\n",
        "THRESHOLDS": "gate.yaml",
        "BASELINE": baseline,
        "RELAUNCH": "false" if baseline else "true",
    }
    ended = [
        subprocess.run(["bash", "-e", "-c", step(name)["run"]], cwd=tmp_path, env=env, capture_output=True)
        for name in ("Run", "Gate")
    ]
    assert [one.returncode for one in ended] == [0, status], ended[-1].stderr
    run = next(tmp_path.glob("results/acted/*/run.json"))
    plan = json.loads(run.read_text())["plan"]
    assert (len(plan["launches"]), plan["workloads"][0]["output_tokens"]) == (4, 21)
    assert (tmp_path / "gate.xml").read_text().startswith("<?xml")
    assert "## benchharness gate" in (tmp_path / "summary.md").read_text()


def test_inputs_reach_the_shell_as_variables_only() -> None:
    """A pull request may choose file names: in the text of a script they would be executed."""
    for name in ("Install", "Run", "Gate"):
        assert "${{" not in step(name)["run"]


@pytest.mark.parametrize("status", [0, 2, 4, 5, 130])
def test_a_run_that_did_not_come_about_is_not_gated_as_the_one_before(tmp_path: Path, status: int) -> None:
    program = tmp_path / "benchharness" / "bin" / "benchharness"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nexit {status}\n")
    program.chmod(0o755)
    env = {**os.environ, "RUNNER_TEMP": str(tmp_path), "EXPERIMENT": "e.yaml", "SET": ""}
    ended = subprocess.run(["bash", "-e", "-c", step("Run")["run"]], cwd=tmp_path, env=env)
    assert ended.returncode == (0 if status in (0, 4, 5) else status)

"""A whole run on the real SGLang: the probe switched by request, and a launch that isn't as declared (T9)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchharness.records import LaunchStatus, Stack
from benchharness.store import StoredRun, open_run

# A wrapper of the user's that loses a variable on the way to the workers, and only there.
LOSES = """
import os, sys
if any("spawn_main" in argument for argument in sys.orig_argv):
    os.environ.pop("NCCL_ALGO", None)
"""


@pytest.fixture(scope="module")
def ran(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, stack: Callable[..., Stack]
) -> tuple[int, dict[str, Any], StoredRun]:
    declared = stack()
    place = tmp_path_factory.mktemp("attested")
    (place / "user").mkdir()
    (place / "user" / "sitecustomize.py").write_text(LOSES)
    document = {
        "name": "attested",
        "engine": "sglang",
        "base": {
            "source": {"release": declared.source.release},
            "packages": dict(declared.packages),
            "model": {"recipe": declared.model.recipe},
            "env": {"NCCL_ALGO": "Ring"},
            "args": {
                "device": "cpu",
                "speculative-algorithm": "STANDALONE",
                "speculative-num-steps": 3,
                "speculative-eagle-topk": 1,
                "speculative-num-draft-tokens": 4,
            },
        },
        "matrix": {"way": {"whole": {}, "loses": {"env.PYTHONPATH": str(place / "user")}}},
        "workload": {"context_tokens": [128], "output_tokens": 48, "requests": 4},
        "measure": {"launches": 1, "warmup": 1, "probe": "alternate"},
    }
    (place / "e.yaml").write_text(json.dumps(document))
    arguments = ("run", "e.yaml", "--results", "results", "--cache", str(cache), "--json")
    done = subprocess.run(
        [sys.executable, "-m", "benchharness", *arguments], capture_output=True, text=True, cwd=place
    )
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    return done.returncode, said, open_run(place / said["path"])


def test_a_worker_that_lost_a_variable_makes_its_launch_invalid_and_is_named(ran: Any) -> None:
    status, document, stored = ran
    assert status == 4
    (failure,) = document["failures"]
    assert (failure["stack"], failure["status"]) == ("loses", "invalid")
    assert "rank 0 (pid " in failure["reason"]
    assert "env.NCCL_ALGO is not set, declared 'Ring'" in failure["reason"]
    lost = next(launch for launch in stored.launches if launch.stack == "loses")
    assert lost.status == LaunchStatus.INVALID
    assert {trial.launch for _, trial in stored.trials} == {1 - lost.index}


def test_requests_are_marked_and_cycles_come_from_those_with_the_probe_on(ran: Any) -> None:
    rows = (
        ran[2]
        .connect()
        .execute(
            "SELECT request, any_value(r.probed), any_value(verify_cycles), count(c.cycle)"
            " FROM requests r LEFT JOIN cycles c USING (launch, request) GROUP BY request ORDER BY request"
        )
    )
    told = rows.fetchall()
    assert [probed for _, probed, _, _ in told].count(True) == 3
    for _, probed, verified, cycles in told:
        assert cycles == (verified if probed else 0)


def test_what_the_probe_costs_is_told_with_its_interval(ran: Any) -> None:
    costs = {cost["metric"]: cost for cost in ran[1]["probe_cost"]}
    assert set(costs) == {"cycle_us", "tpot_ms", "e2e_ms"}
    for cost in costs.values():
        assert (cost["stack"], cost["pairs"], cost["over"]) == ("whole", 2, "pairs of one launch")
        assert cost["difference"]["low"] <= cost["difference"]["mean"] <= cost["difference"]["high"]


def test_the_record_says_how_the_probe_came_in_and_on_what_machine(ran: Any) -> None:
    attested = next(one for one in ran[1]["attestations"] if one["stack"] == "whole")
    (worker,) = [process for process in attested["processes"] if process["rank"] == 0]
    assert worker["probe_came_by"] == "sitecustomize"
    assert worker["env"]["NCCL_ALGO"] == "Ring"
    assert attested["notes"] == attested["mismatches"] == []
    assert isinstance(attested["machine"]["hypervisor"], bool)
    assert attested["machine"]["gpus"] == [] == ran[1]["gpus"]

"""The main job on a real engine: experiment file in, valid measurements with real speculation out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchharness.store import StoredRun, open_run

ROOT = Path(__file__).parents[2]
STACKS = ("off", "draft-2", "draft-4")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], StoredRun]:
    results = tmp_path_factory.mktemp("results")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchharness", "run", str(ROOT / "experiments" / "quickstart.yaml")),
            *("--results", str(results), "--json"),
            *("--set", "measure.launches=1", "--set", "workload.context_tokens=[128, 512]"),
            *("--set", "workload.requests=2"),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    return document, open_run(ROOT / document["path"])


def test_a_real_engine_is_measured_and_the_measurement_is_valid(
    ran: tuple[dict[str, Any], StoredRun],
) -> None:
    document, stored = ran
    assert document["valid"] is True
    assert document["launches"] == 3
    assert document["synthetic"] is False
    assert {cell["stack"] for cell in document["cells"]} == set(STACKS)
    assert {cell["context_tokens"] for cell in document["cells"]} == {128, 512}
    versions = {launch.environment.packages["xllamacpp"] for launch in stored.launches if launch.environment}
    assert versions == {"2026.10.11549"}


def test_speculation_is_real(ran: tuple[dict[str, Any], StoredRun]) -> None:
    for cell in ran[0]["cells"]:
        accepted = cell["metrics"]["accept_length"]
        most = {"off": 1.0, "draft-2": 3.0, "draft-4": 5.0}[cell["stack"]]
        assert accepted == 1.0 if cell["stack"] == "off" else 1.2 < accepted <= most
        assert cell["metrics"]["cycle_ms"] > 0
        assert cell["metrics"]["output_tok_s"] > 0


def test_accept_length_is_what_the_engines_own_counters_say(ran: tuple[dict[str, Any], StoredRun]) -> None:
    """Three ways to the same number: rebuilt cycles, counts in the answers, counters of the server."""
    connection = ran[1].connect()
    rebuilt = connection.execute(
        "SELECT launch, position, sum(tokens - 1) FROM cycles GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    told = connection.execute(
        "SELECT launch, position, sum(coalesce(accepted_tokens, 0)) FROM requests GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    counted = [
        (trial.launch, trial.position, trial.counters.accepted_tokens or 0) for _, trial in ran[1].trials
    ]
    assert rebuilt == told == sorted(counted)
    assert sum(row[2] for row in rebuilt) > 0


def test_every_prompt_had_its_exact_length_and_no_cache_helped(ran: tuple[dict[str, Any], StoredRun]) -> None:
    rows = (
        ran[1]
        .connect()
        .execute(
            "SELECT DISTINCT context_tokens, prompt_tokens, server_prompt_tokens, cached_tokens FROM requests"
        )
    )
    assert sorted(rows.fetchall()) == [(128, 128, 128, 0), (512, 512, 512, 0)]


def test_stamps_come_from_the_kernel(ran: tuple[dict[str, Any], StoredRun]) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("kernel receive stamps are Linux's")
    transports = (
        ran[1].connect().execute("SELECT DISTINCT transport, sum(unstamped_reads) FROM requests GROUP BY 1")
    )
    assert transports.fetchall() == [("kernel-stamps", 0)]

"""The main job on the real SGLang: experiment file in, valid measurements with four ways to decode out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchharness.store import StoredRun, open_run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> tuple[dict[str, Any], StoredRun]:
    results = tmp_path_factory.mktemp("results")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchharness", "run", str(ROOT / "experiments" / "sglang-cpu.yaml")),
            *("--results", str(results), "--cache", str(cache), "--json"),
            *("--set", "measure.launches=1", "--set", "workload.context_tokens=[128, 512]"),
            *("--set", "workload.requests=2", "--set", "workload.output_tokens=64"),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    return document, open_run(ROOT / document["path"])


def test_the_real_sglang_is_measured_and_the_measurement_is_valid(ran: Any) -> None:
    document, stored = ran
    assert document["valid"] is True
    assert document["launches"] == 4
    assert {cell["stack"] for cell in document["cells"]} == {"none", "ngram", "standalone", "eagle3"}
    for launch in stored.launches:
        assert launch.environment.packages["sglang"] == launch.attestation.engine_version == "0.5.23"
        assert launch.attestation.settings["overridden_pins"] == {"torch": "2.14.1 -> 2.13.0"}


def test_each_way_to_decode_accepts_as_it_should(ran: Any) -> None:
    lengths: dict[str, list[float]] = {}
    for cell in ran[0]["cells"]:
        lengths.setdefault(cell["stack"], []).append(cell["metrics"]["accept_length"])
        assert cell["metrics"]["cycle_ms"] > 0
    # On a busy machine SGLang now and then sends two tokens in one chunk.
    assert all(1.0 <= length < 1.3 for length in lengths["none"])
    assert all(1.0 <= length < 2.0 for length in lengths["ngram"])
    assert all(2.0 < length <= 4.0 for length in lengths["standalone"])
    # 2 requests of about 26 cycles each: the simulated mean of 2.5 within a wide band.
    assert all(2.1 < length < 2.9 for length in lengths["eagle3"])


def test_cycles_are_counted_by_the_server(ran: Any) -> None:
    """Drafted answers come with the number of verify calls, and the server's own counter agrees."""
    rows = dict(
        ran[1].connect().execute("SELECT launch, sum(verify_cycles) FROM requests GROUP BY 1").fetchall()
    )
    moved: dict[int, int] = {}
    for _, trial in ran[1].trials:
        moved[trial.launch] = moved.get(trial.launch, 0) + (trial.counters.cycles or 0)
    drafting = {launch.index for launch in ran[1].launches if launch.stack != "none"}
    assert len(drafting) == 3
    for launch in drafting:
        assert rows[launch] == moved[launch] > 0


def test_every_prompt_had_its_exact_length_and_no_cache_helped(ran: Any) -> None:
    rows = (
        ran[1]
        .connect()
        .execute(
            "SELECT DISTINCT context_tokens, prompt_tokens, server_prompt_tokens, cached_tokens FROM requests"
        )
    )
    assert sorted(rows.fetchall()) == [(128, 128, 128, 0), (512, 512, 512, 0)]

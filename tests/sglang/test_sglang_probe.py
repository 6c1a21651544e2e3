"""The probe in the real SGLang: come in as its plugin, and switched by request and in mid-answer."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import requests

from benchharness.records import Environment, RequestTrace, Stack, Workload
from benchharness.stack import models, probing, server
from benchharness.stack.engines.sglang import ENGINE
from benchharness.stack.engines.sglang_environment import CPU_KERNELS
from benchharness.timings import probe_cycles, probe_file
from benchharness.timings.probe_file import ProbeFile, Row
from benchharness.workload.load import alternation

DRAFTED = {
    "speculative_algorithm": "STANDALONE",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}
WORK = (Workload(context_tokens=128, output_tokens=1024, requests=8),)
# Runs the kernels' own customisation and no other, as a user's file would that doesn't look for ours.
HIDING = """
import importlib.util, sys
sys.path.remove({probe!r})
spec = importlib.util.spec_from_file_location("kernels", {kernels!r} + "/sitecustomize.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.path.insert(1, {probe!r})
"""


@dataclass
class Seen:
    """What one server left: its probe files, the requests with their verify calls, and the switches made."""

    files: tuple[ProbeFile, ...]
    traces: list[RequestTrace]
    switches: list[tuple[int, bool]]


def generate(url: str, prompt: list[int], tokens: int) -> dict[str, Any]:
    sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
    body = {"input_ids": prompt, "sampling_params": sampling}
    answer = requests.post(f"{url}/generate", json=body, timeout=300)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()["meta_info"]
    return found


@pytest.fixture(scope="module")
def seen(
    stack: Callable[..., Stack],
    environment: Callable[[Stack], Environment],
    cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Seen:
    place = tmp_path_factory.mktemp("probe")
    declared = stack(**DRAFTED)
    model = models.ensure(ENGINE, declared, cache, on_progress=lambda _: None)
    port = server.free_port()
    url = f"http://127.0.0.1:{port}"
    command = ENGINE.command(declared, model, environment(declared), port, WORK)
    command = probing.with_probe(command, place / "probe")
    hiding = place / "hiding"
    hiding.mkdir()
    script = HIDING.format(probe=str(probing.PROBE), kernels=str(CPU_KERNELS))
    (hiding / "sitecustomize.py").write_text(script)
    path = os.pathsep.join([str(hiding), str(command.env["PYTHONPATH"])])
    command = replace(command, env={**command.env, "PYTHONPATH": path})
    with server.running(command, ENGINE.readiness(declared), base_url=url, log_path=place / "log") as running:
        pool = ENGINE.connect(declared, running.base_url)[0].token_pool
        return drive(url, place / "probe", pool)


def drive(url: str, folder: Path, pool: tuple[int, ...]) -> Seen:
    rng = random.Random(3)

    def prompt() -> list[int]:
        return [rng.choice(pool) for _ in range(128)]

    order = (True, *alternation(8, seed=1))
    traces, switches = [], []
    with probing.alternating(folder, order) as before_send:
        for index in range(len(order)):
            probed = before_send(index)
            sent = time.monotonic_ns()
            told = generate(url, prompt(), 32)
            ended = time.monotonic_ns()
            counts = {"output_tokens": told["completion_tokens"], "verify_cycles": told["spec_verify_ct"]}
            traces.append(RequestTrace(index, False, 128, sent, sent, ended, probed=probed, **counts))
        long = threading.Thread(target=generate, args=(url, prompt(), 900))
        with probing.alternating(folder, (False, True)) as switch:
            long.start()
            on = True
            while long.is_alive() and len(switches) < 20:
                long.join(rng.uniform(0.05, 0.15))
                on = not on
                switch(int(on))
                switches.append((time.monotonic_ns(), on))
            ended = time.monotonic_ns()
        long.join()
    return Seen(probing.files(folder, traces[0].sent_ns, ended), traces, switches)


def test_a_scheduler_that_ran_no_sitecustomize_of_ours_is_timed_as_a_plugin(seen: Seen) -> None:
    assert {file.report.came_by for file in seen.files} == {"plugin"}
    worker = seen.files[0]
    assert worker.report.rank == 0 and worker.report.faults == {}
    assert worker.report.workers == ("StandaloneWorkerV2",)
    assert len(set(worker.report.hooks)) == len(worker.report.hooks)
    assert worker.report.process.came_by == "plugin"


def test_requests_with_it_on_have_all_their_cycles_and_the_others_none(seen: Seen) -> None:
    on = [trace for trace in seen.traces if trace.probed is not False]
    cycles = probe_cycles.cycles(seen.files, on)
    counts = {trace.index: sum(cycle.request == trace.index for cycle in cycles) for trace in seen.traces}
    for trace in seen.traces:
        assert counts[trace.index] == (trace.verify_cycles if trace.probed else 0), trace
    off = [trace for trace in seen.traces if trace.probed is False]
    assert len(off) == 4
    rows = [row for file in seen.files for row in file.rows]
    assert not [row for row in rows for trace in off if trace.sent_ns < row.start_ns < trace.finished_ns]


def whole(row: Row) -> bool:
    phases = (row.host.draft, row.host.verify, row.host.forward, row.host.draft_extend)
    return all(phases) and row.tokens is not None and len(row.accepted) == row.batch_size == 1


def test_switched_in_mid_answer_it_holds_from_the_next_cycle_and_leaves_no_half_cycle(seen: Seen) -> None:
    decode = [row for row in seen.files[0].rows if row.mode == "decode"]
    assert [row for row in decode if not whole(row)] == []
    late = 0
    for (at, on), (after, _) in zip(seen.switches, seen.switches[1:], strict=False):
        began = [row.start_ns for row in decode if at < row.start_ns < after]
        if on:
            assert began
            # A cycle takes some 8 ms here: the first recorded one is the next one.
            late += began[0] - at > 50_000_000
        else:
            assert len(began) <= 1
            late += len(began)
    assert len(seen.switches) >= 10
    assert late <= len(seen.switches) / 4


def test_switches_leave_whole_files(seen: Seen) -> None:
    assert all(file.whole for file in seen.files)
    assert probe_file.MODES[1] == "decode"

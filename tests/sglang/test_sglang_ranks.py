"""Two ranks on the CPU: what reached each of them, by its own word and the system's.

The ranks are spawned by multiprocessing, meet over torch's gloo, and have the real probe inside; torch is
that of a real SGLang environment. The package named sglang is a small one, since no model is needed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from benchharness.records import (
    Attestation,
    Command,
    EngineFacts,
    Environment,
    ProcessReport,
    Readiness,
    Stack,
)
from benchharness.stack import absence, attestation, probing, server
from benchharness.stack.engines.sglang import ENGINE
from benchharness.timings import probe_cycles, probe_file

DECLARED = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL", "NCCL_NVLS_ENABLE": "0"}
RUNNER = """
class ModelRunner:
    # As some releases do, it doesn't tell its own place; torch knows it.
    def __init__(self, gpu_id, device="cpu"):
        self.gpu_id, self.device = gpu_id, device
"""
WORKER = """
import torch.distributed as distributed

class TpModelWorker:
    def __init__(self, runner, tensor):
        self.model_runner, self.tensor = runner, tensor

    def forward_batch_generation(self, batch):
        # As a step of the model does: no rank is done before the other one is there.
        distributed.all_reduce(self.tensor)
"""
GROUP = """
from types import SimpleNamespace
import torch.distributed as distributed

_TP = SimpleNamespace(world_size=2, device_group=distributed.group.WORLD, ca_comm=None, pynccl_comm=None)
"""
CYCLES = 7
ENGINE_SCRIPT = """
import os, signal, sys
from multiprocessing import get_context
from types import SimpleNamespace

def work(rank, place, arrived):
    import torch
    import torch.distributed as distributed
    distributed.init_process_group("gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=2)
    import sglang.srt.distributed.parallel_state
    from sglang.srt.managers.tp_worker import TpModelWorker
    from sglang.srt.model_executor.model_runner import ModelRunner
    runner = ModelRunner(gpu_id=rank)
    total = torch.tensor([rank + 1.0])
    distributed.all_reduce(total)
    worker = TpModelWorker(runner, torch.ones(64))
    for mode in ("EXTEND", *("DECODE",) * CYCLES):
        batch = SimpleNamespace(forward_mode=SimpleNamespace(name=mode), reqs=[None], seq_lens_sum=16)
        worker.forward_batch_generation(batch)
    arrived.put(total.item())
    signal.pause()

if __name__ == "__main__":
    import sglang
    context = get_context("spawn")
    arrived = context.Queue()
    for rank, change in enumerate(CHANGES):
        kept = dict(os.environ)
        for name, value in change.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        context.Process(target=work, args=(rank, sys.argv[1], arrived), daemon=True).start()
        os.environ.clear()
        os.environ.update(kept)
    print("sums", sorted(arrived.get(timeout=120) for _ in range(2)), flush=True)
    signal.pause()
"""


@pytest.fixture(scope="module")
def torch(stack: Callable[..., Stack], environment: Callable[[Stack], Environment]) -> Environment:
    return environment(stack())


@contextmanager
def attested(
    place: Path, torch: Environment, *changes: dict[str, str | None]
) -> Iterator[tuple[Attestation, tuple[str, ...]]]:
    """What the harness attests of two ranks, each with its changes, and what it could not see."""
    whole = place / "sglang" / "srt"
    modules = {"model_executor/model_runner": RUNNER, "managers/tp_worker": WORKER}
    for name, text in {**modules, "distributed/parallel_state": GROUP}.items():
        module = whole / f"{name}.py"
        module.parent.mkdir(parents=True)
        module.write_text(text)
        for package in (whole.parent, whole, module.parent):
            (package / "__init__.py").write_text("")
    script = place / "engine.py"
    script.write_text(f"CHANGES = {list(changes)!r}\nCYCLES = {CYCLES}\n{ENGINE_SCRIPT}")
    declared = Stack("two", "sglang", env=DECLARED)
    command = Command((torch.python_path, str(script), str(place)), {**DECLARED, "GLOO_SOCKET_IFNAME": "lo"})
    folder = place / "probe"
    command = probing.with_probe(command, folder)
    ready = Readiness(r"sums \[3.0, 3.0\]", None, timeout_s=180)
    url = f"http://127.0.0.1:{server.free_port()}"
    with server.running(command, ready, base_url=url, log_path=place / "log", stop_grace_s=1) as running:
        reports = attestation.processes(running.pid, running.process_ids(), command.env)
        reports += probing.reports(probe_file.read_folder(folder))
        unseen = absence.sentences(
            probe_file.read_folder(folder), running.pid, running.process_ids(), ranks=2
        )
        explain = partial(ENGINE.who_changes, declared)
        yield attestation.take(declared, command.env, EngineFacts(), torch, reports, explain), unseen


def of_ranks(taken: Attestation) -> dict[int | None, ProcessReport]:
    return {report.rank: report for report in taken.processes if report.source == "probe"}


def test_each_rank_tells_its_own_environment_and_torch_tells_its_rank(
    torch: Environment, tmp_path: Path
) -> None:
    with attested(tmp_path, torch, {}, {}) as (taken, unseen):
        assert taken.mismatches == ()
        assert unseen == ()
        ranks = of_ranks(taken)
    assert sorted(ranks) == [0, 1]
    for report in ranks.values():
        assert {name: report.env[name] for name in DECLARED} == DECLARED
        assert report.came_by == "sitecustomize"
        assert report.versions["torch"].startswith("2.13.0")


def test_each_rank_times_its_own_cycles_and_tells_how_it_reduces(torch: Environment, tmp_path: Path) -> None:
    with attested(tmp_path, torch, {}, {}) as (taken, _):
        told = probe_cycles.cycles(probe_file.read_folder(tmp_path / "probe"), ())
        ranks = of_ranks(taken)
    assert Counter(cycle.rank for cycle in told) == {0: CYCLES, 1: CYCLES}
    assert all(cycle.total_ms > 0 for cycle in told)
    assert {rank: report.all_reduce for rank, report in ranks.items()} == dict.fromkeys(
        range(2), ("torch.distributed gloo",)
    )


def test_a_rank_without_a_variable_and_one_with_another_value_are_named(
    torch: Environment, tmp_path: Path
) -> None:
    with attested(tmp_path, torch, {"NCCL_PROTO": "Simple"}, {"NCCL_ALGO": None}) as (taken, unseen):
        ranks = of_ranks(taken)
        assert unseen == ()
    told = {(found.where, found.name, found.declared, found.effective) for found in taken.mismatches}
    assert told == {
        (ranks[0].name, "env.NCCL_PROTO", "LL", "Simple"),
        (ranks[1].name, "env.NCCL_ALGO", "Ring", None),
    }
    sentences = sorted(found.sentence for found in taken.mismatches)
    assert sentences[0] == f"rank 0 (pid {ranks[0].pid}): env.NCCL_PROTO is 'Simple', declared 'LL'"
    assert sentences[1] == f"rank 1 (pid {ranks[1].pid}): env.NCCL_ALGO is not set, declared 'Ring'"


def test_a_rank_that_the_probe_does_not_reach_is_named_too(torch: Environment, tmp_path: Path) -> None:
    with attested(tmp_path, torch, {}, {probing.FOLDER: None}) as (taken, unseen):
        (sentence,) = unseen
        assert sorted(of_ranks(taken)) == [0]
    assert sentence.startswith("the probe was wanted, but rank 1 left no file: process ")
    assert sentence.endswith(f"{probing.FOLDER} is not in its environment")
    assert taken.mismatches == ()

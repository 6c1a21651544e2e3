"""Did what was declared reach the processes that do the work? Real processes, real environments."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchharness.records import Attestation, EngineFacts, Environment, ProcessReport, Stack
from benchharness.stack import attestation

DECLARED = {"NCCL_ALGO": "Ring", "NCCL_NVLS_ENABLE": "1", "HF_TOKEN": "hush", "PLAIN": "x y'$z"}
STACK = Stack("s", "any", env=DECLARED, packages={"sgl-kernel": "0.3.20"})


@contextmanager
def process(env: dict[str, str], program: str = sys.executable) -> Iterator[int]:
    arguments = ["-c", "input()"] if program == sys.executable else ["60"]
    clean = {name: value for name, value in os.environ.items() if name not in DECLARED}
    started = subprocess.Popen([program, *arguments], env={**clean, **env}, stdin=subprocess.PIPE)
    try:
        # Popen may return in the middle of exec, when the system doesn't show the new environment yet.
        place = Path(f"/proc/{started.pid}")
        deadline = time.monotonic() + 10
        while not (place / "environ").read_bytes() and time.monotonic() < deadline:
            time.sleep(0.01)
        yield started.pid
    finally:
        started.kill()
        started.communicate()


def attested(*envs: dict[str, str]) -> list[str]:
    with ExitStack() as stack:
        pids = [stack.enter_context(process(env)) for env in envs]
        reports = attestation.processes(pids[0], pids, DECLARED)
        ranked = [ProcessReport(r.pid, rank, env=r.env) for rank, r in enumerate(reports)]
    assert len(ranked) == len(envs)
    taken = attestation.take(Stack("s", "any", env=DECLARED), {}, EngineFacts(), None, ranked, explain)
    return [mismatch.sentence for mismatch in taken.mismatches]


def explain(name: str) -> str:
    return "the engine forces it" if name == "NCCL_NVLS_ENABLE" else ""


def test_what_arrived_everywhere_is_no_mismatch() -> None:
    assert attested(DECLARED, DECLARED) == []


def test_a_variable_dropped_on_one_rank_is_named_with_rank_and_both_values() -> None:
    dropped = {name: value for name, value in DECLARED.items() if name != "NCCL_ALGO"}
    (sentence,) = attested(DECLARED, DECLARED, dropped)
    assert sentence.startswith("rank 2 (pid ")
    assert "env.NCCL_ALGO is not set, declared 'Ring'" in sentence


def test_a_variable_forced_on_all_ranks_is_named_on_each_with_who_does_it() -> None:
    forced = {**DECLARED, "NCCL_NVLS_ENABLE": "0"}
    sentences = attested(forced, forced)
    assert [sentence.partition(" (pid")[0] for sentence in sentences] == ["rank 0", "rank 1"]
    for sentence in sentences:
        assert "NCCL_NVLS_ENABLE is '0', declared '1' (the engine forces it)" in sentence


def test_a_secret_is_compared_but_never_shown() -> None:
    (sentence,) = attested({**DECLARED, "HF_TOKEN": "other"})
    assert "HF_TOKEN" in sentence
    assert "hush" not in sentence and "other" not in sentence


def test_variables_that_nobody_declared_are_kept_only_by_the_allow_list() -> None:
    with process({"NCCL_DEBUG": "INFO", "AWS_SECRET": "hush", "NCCL_API_KEY": "hush"}) as pid:
        reports = attestation.processes(pid, [pid], {})
        taken = attestation.take(Stack("s", "any"), {}, EngineFacts(), None, reports, explain)
    assert taken.processes[0].env == {"NCCL_API_KEY": "***", "NCCL_DEBUG": "INFO"} | {
        name: value
        for name, value in taken.processes[0].env.items()
        if name.startswith(attestation.KEPT_PREFIXES) and name not in ("NCCL_DEBUG", "NCCL_API_KEY")
    }
    assert "AWS_SECRET" not in taken.processes[0].env


def test_another_program_in_the_tree_is_not_asked() -> None:
    with process(DECLARED) as main, process({}, "/bin/sleep") as other:
        assert [report.pid for report in attestation.processes(main, [main, other], DECLARED)] == [main]


def test_a_process_that_is_gone_is_left_out() -> None:
    with process(DECLARED) as main, process(DECLARED) as other:
        pass
    assert attestation.processes(main, [main, other], DECLARED) == ()


def test_a_package_must_be_the_declared_one_where_it_is_installed_and_where_it_is_imported() -> None:
    def sentences(installed: str, imported: str) -> list[str]:
        environment = Environment("k", "p", "p", "3.11", {"sgl_kernel": installed})
        report = ProcessReport(7, 0, versions={"sgl_kernel": imported}, env=DECLARED)
        taken = attestation.take(STACK, {}, EngineFacts(), environment, [report], explain)
        return [mismatch.sentence for mismatch in taken.mismatches]

    assert sentences("0.3.20", "0.3.20+cu130") == []
    (wrong,) = sentences("0.3.19", "0.3.20")
    assert "environment: packages.sgl-kernel is '0.3.19', declared '0.3.20'" in wrong
    (wrong,) = sentences("0.3.20", "0.3.19")
    assert "rank 0 (pid 7)" in wrong and "another copy is imported" in wrong


def test_two_attestations_can_be_diffed() -> None:
    def taken(algo: str, kernel: str) -> attestation.Attestation:
        reports = [
            ProcessReport(1, 0, env={"NCCL_ALGO": algo}),
            ProcessReport(2, 1, env={"NCCL_ALGO": "Ring"}),
        ]
        environment = Environment("k", "p", "p", "3.11", {"sgl-kernel": kernel})
        facts = EngineFacts("1.0", {"attention_backend": "triton"})
        return attestation.take(Stack("s", "any"), {}, facts, environment, reports, explain)

    assert attestation.difference(taken("Ring", "0.4.2"), taken("Ring", "0.4.2")) == {}
    assert attestation.difference(taken("Ring", "0.4.2"), taken("Tree", "0.4.4")) == {
        "env.NCCL_ALGO": ("Ring", "Ring | Tree"),
        "packages.sgl-kernel": ("0.4.2", "0.4.4"),
    }


def test_what_nccl_said_of_its_ranks_is_compared_fact_by_fact() -> None:
    def taken(pid: int, *paths: str) -> Attestation:
        ranks = {
            str(rank): {"version": "2.28.9", "paths": [path], "channels": 24, "env": {"NCCL_ALGO": "Ring"}}
            for rank, path in enumerate(paths)
        }
        notes = [f"node:{pid}:{pid} [0] NCCL INFO NCCL_ALGO set by environment", "AllReduce |   1      0"]
        return Attestation(settings={"nccl_ranks": ranks, "all_reduce_notes": notes})

    one = taken(7, "P2P/IPC", "P2P/IPC")
    assert attestation.difference(one, taken(8, "P2P/IPC", "P2P/IPC")) == {}
    assert attestation.difference(one, taken(7, "P2P/IPC", "SHM/direct/direct")) == {
        "settings.nccl_ranks.paths": ("P2P/IPC", "P2P/IPC | SHM/direct/direct")
    }


def test_a_long_value_of_which_the_probe_tells_the_beginning_is_no_difference() -> None:
    stack = Stack("s", "sglang", env={"NCCL_BIG": "x" * 9000})
    told = ProcessReport(1, 0, env={"NCCL_BIG": "x" * 4096}, source="probe")
    whole = ProcessReport(1, env={"NCCL_BIG": "x" * 9000}, source="proc")
    assert attestation.take(stack, {}, EngineFacts(), None, (told, whole), lambda _: "").mismatches == ()
    cut = ProcessReport(2, 1, env={"NCCL_BIG": "x" * 100}, source="probe")
    (mismatch,) = attestation.take(stack, {}, EngineFacts(), None, (cut,), lambda _: "").mismatches
    assert len(mismatch.sentence) < 500

"""Declared against effective: did what the experiment says reach the processes that do the work?

Two sources are compared with the declaration: each process's own word, where a probe runs inside it,
and the system's (`/proc/PID/environ`), which shows what a process was started with. A variable that
was taken away or overwritten on the way is named with the process, both values and, where the engine
is known to do it, the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchharness.probe.masking import MASK, MAX_VALUE, is_secret, masked
from benchharness.records import (
    Attestation,
    EngineFacts,
    Environment,
    Mismatch,
    ProcessReport,
    Stack,
)
from benchharness.stack import procfs
from benchharness.stack.packages import HOST

KEPT_PREFIXES = ("NCCL_", "CUDA_", "SGLANG_", "VLLM_", "TORCH_", "OMP_", "GGML_", "LD_LIBRARY_PATH")
OF_THE_PROBE = "BENCHHARNESS_PROBE_"
"""Variables of the probe's own: a process without them runs what was declared, and is only not timed."""
PER_START = re.compile(r"^BENCHHARNESS_|_RUN_ID$")
"""Variables that differ at every start, and say nothing of a stack."""
GPU_IDENTITY = ("index", "uuid", "pci_bus_id")
"""What tells one board from another and is no condition of a measurement."""
RANKS, NOTES = "nccl_ranks", "all_reduce_notes"
"""Settings that come from NCCL's own log."""
OF_NCCL = re.compile(r"^\S+:\d+:\d+ \[\d+\] NCCL \w+ ")
"""What such a line begins with: host, process and rank, which say nothing of a stack."""

Explain = Callable[[str], str]
"""Name of a variable -> who is known to change it; empty where nobody is."""


def processes(
    main_pid: int, pids: Sequence[int], declared: Mapping[str, str | None]
) -> tuple[ProcessReport, ...]:
    """What the system says of an engine's processes; those that are gone or can't be read are left out.

    Only the engine's own processes count (see `procfs.engine_processes`).

    Args:
        main_pid: the engine's own process.
        pids: all processes of its tree.
        declared: names that are kept beside the allow-list.
    """
    reports = []
    for pid in procfs.engine_processes(main_pid, pids):
        env = procfs.environ(pid)
        if env:
            kept = {
                name: env[name] for name in sorted(env) if name in declared or name.startswith(KEPT_PREFIXES)
            }
            reports.append(ProcessReport(pid, env=kept, libraries=procfs.libraries(pid)))
    return tuple(reports)


def take(
    stack: Stack,
    set_by_harness: Mapping[str, str | None],
    facts: EngineFacts,
    environment: Environment | None,
    reports: Sequence[ProcessReport],
    explain: Explain,
) -> Attestation:
    """Compare what was declared with what the processes report.

    Args:
        stack: the declaration.
        set_by_harness: variables that the engine was started with; they hold the stack's own.
        facts: what the engine said of itself.
        environment: its packages.
        reports: of each process; where both sources tell of one, both are compared.
        explain: who is known to change a variable of this engine's release.
    """
    wanted: dict[str, str | None] = {**stack.env, **set_by_harness}
    mismatches = [
        *_env_mismatches(wanted, reports, explain),
        *_package_mismatches(stack, environment, reports),
        *_source_mismatches(stack, reports),
        *_argument_mismatches(stack, facts),
    ]
    return Attestation(
        engine_version=facts.version,
        settings={**_about(environment), **facts.settings},
        packages=environment.packages if environment else {},
        processes=tuple(_masked(report) for report in reports),
        mismatches=tuple(_masked_mismatch(mismatch) for mismatch in mismatches),
    )


def _about(environment: Environment | None) -> dict[str, Any]:
    """What makes an environment another one than its requirements say, as settings."""
    if environment is None:
        return {}
    settings = {
        "overridden_pins": dict(environment.broken_pins),
        "packages_from_host": list(environment.from_host),
        "omitted_from_environment": list(environment.omitted),
    }
    return {name: value for name, value in settings.items() if value}


def _env_mismatches(
    wanted: Mapping[str, str | None], reports: Sequence[ProcessReport], explain: Explain
) -> Iterator[Mismatch]:
    """Each process's differences; where both sources tell the same of one process, the one with its rank."""
    told: set[tuple[int, str, str | None]] = set()
    for report in sorted(reports, key=lambda report: report.source != "probe"):
        for name, value in wanted.items():
            effective = report.env.get(name)
            same = (report.pid, name, effective)
            # The probe tells no more of a long value than its beginning.
            seen = value[:MAX_VALUE] if value is not None and report.source == "probe" else value
            if effective not in (seen, MASK) and same not in told and not name.startswith(OF_THE_PROBE):
                told.add(same)
                yield Mismatch(report.name, f"env.{name}", value, effective, explain(name))


def _package_mismatches(
    stack: Stack, environment: Environment | None, reports: Sequence[ProcessReport]
) -> Iterator[Mismatch]:
    """A declared version must be the one that is installed and, where a probe tells, imported."""
    installed = {
        _plain(name): version for name, version in (environment.packages if environment else {}).items()
    }
    for name, version in stack.packages.items():
        if environment is not None and not _as_declared(installed.get(_plain(name)), version):
            yield Mismatch("environment", f"packages.{name}", version, installed.get(_plain(name)))
    for report in reports:
        imported = {_plain(name): found for name, found in report.versions.items()}
        for name, version in stack.packages.items():
            found = imported.get(_plain(name))
            if found is not None and not _as_declared(found, version):
                yield Mismatch(report.name, f"packages.{name}", version, found, "another copy is imported")


def _argument_mismatches(stack: Stack, facts: EngineFacts) -> Iterator[Mismatch]:
    """A declared argument must be what the engine runs with, where the engine tells."""
    for name, effective in facts.arguments.items():
        declared = stack.args.get(name)
        if declared not in (None, "auto") and not _same_value(declared, effective):
            yield Mismatch("engine", f"args.{name}", str(declared), str(effective), "the engine changed it")


def _same_value(declared: Any, effective: Any) -> bool:
    """Equal as an engine's command line would read both."""
    if isinstance(declared, list | tuple) and isinstance(effective, list | tuple):
        return len(declared) == len(effective) and all(map(_same_value, declared, effective))
    if isinstance(declared, bool) or isinstance(effective, bool):
        return str(declared).lower() == str(effective).lower()
    try:
        return float(declared) == float(effective)
    except (TypeError, ValueError):
        return str(declared).casefold() in {part.casefold() for part in str(effective).split(" or ")}


def _source_mismatches(stack: Stack, reports: Sequence[ProcessReport]) -> Iterator[Mismatch]:
    """A stack from a repository must run the code of its checkout, and no installed copy."""
    folder = stack.source.folder
    for report in reports if folder is not None else ():
        found = report.files.get(stack.engine)
        if found is not None and Path(str(folder)).resolve() not in Path(found).resolve().parents:
            commit = str(stack.source.commit)[:12]
            yield Mismatch(report.name, "source.commit", commit, found, "another copy is imported")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _as_declared(found: str | None, wanted: str | None) -> bool:
    """Equal, or equal up to a local part that the declaration leaves open (2.13.0 and 2.13.0+cpu).

    Any version will do where the host's own is wanted, and none where the package is left out.
    """
    if found is None or wanted is None:
        return found is wanted
    return wanted in (HOST, found, found.partition("+")[0])


def _masked(report: ProcessReport) -> ProcessReport:
    return replace(report, env={name: masked(name, value) for name, value in report.env.items()})


def _masked_mismatch(mismatch: Mismatch) -> Mismatch:
    name = mismatch.name.removeprefix("env.")
    values = [value for value in (mismatch.declared, mismatch.effective) if value is not None]
    if name == mismatch.name or not any(is_secret(name, value) for value in values):
        return mismatch
    declared, effective = (
        None if value is None else MASK for value in (mismatch.declared, mismatch.effective)
    )
    return replace(mismatch, declared=declared, effective=effective)


def difference(first: Attestation, second: Attestation) -> dict[str, tuple[str, str]]:
    """What two launches really ran differently: path -> value there, value here."""
    one, other = _flat(first), _flat(second)
    paths = sorted(one.keys() | other.keys())
    rows = {path: (one.get(path, "-"), other.get(path, "-")) for path in paths}
    return {path: values for path, values in rows.items() if values[0] != values[1]}


def _flat(attestation: Attestation) -> dict[str, str]:
    flat = {"engine": str(attestation.engine_version)}
    for name, value in attestation.settings.items():
        flat |= _flat_setting(name, value)
    flat |= {f"packages.{name}": version for name, version in attestation.packages.items()}
    names = {name for report in attestation.processes for name in report.env}
    for name in sorted(name for name in names if not PER_START.search(name)):
        values = sorted({report.env.get(name, "not set") for report in attestation.processes})
        flat[f"env.{name}"] = " | ".join(values)
    return flat | _flat_machine(attestation.machine) | _flat_processes(attestation.processes)


def _flat_setting(name: str, value: Any) -> dict[str, str]:
    """One line, but of what NCCL told of its ranks a line each; their variables are compared as `env`."""
    if name == RANKS and isinstance(value, Mapping):
        told = [rank for rank in value.values() if isinstance(rank, Mapping)]
        facts = sorted({fact for rank in told for fact in rank} - {"env"})
        return {f"settings.{name}.{fact}": _over_ranks(told, fact) for fact in facts}
    if name == NOTES and isinstance(value, Sequence) and not isinstance(value, str):
        notes = dict.fromkeys(" ".join(OF_NCCL.sub("", str(note)).split()) for note in value)
        return {f"settings.{name}": "; ".join(notes)}
    return {f"settings.{name}": str(value)}


def _over_ranks(ranks: Sequence[Mapping[str, Any]], fact: str) -> str:
    values = [rank.get(fact, "-") for rank in ranks]
    told = [", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value) for value in values]
    return " | ".join(dict.fromkeys(told))


def _flat_machine(machine: Mapping[str, Any]) -> dict[str, str]:
    """Each fact; of GPUs one value where all have it, else each one's in their order."""
    flat = {f"machine.{name}": str(value) for name, value in machine.items() if name != "gpus"}
    gpus = machine.get("gpus", ())
    for name in sorted({name for gpu in gpus for name in gpu} - set(GPU_IDENTITY)):
        values = [str(gpu.get(name, "-")) for gpu in gpus]
        flat[f"machine.gpus.{name}"] = values[0] if len(set(values)) == 1 else " | ".join(values)
    return flat


def _flat_processes(reports: Sequence[ProcessReport]) -> dict[str, str]:
    """What only the processes tell: the NCCL that they run, where it lies, and how the probe came in."""
    told = {
        "nccl": {report.versions["nccl"] for report in reports if "nccl" in report.versions},
        "probe.came_by": {report.came_by for report in reports if report.came_by},
    }
    for report in reports:
        for name, paths in report.libraries.items():
            told.setdefault(f"libraries.{name}", set()).update(map(_within_environment, paths))
    return {name: " | ".join(sorted(values)) for name, values in told.items() if values}


def _within_environment(path: str) -> str:
    """A library's path without the environment that it lies in, whose name differs for every stack."""
    return path.partition("/site-packages/")[2] or path

"""Declared against effective: did what the experiment says reach the processes that do the work?

Two sources are compared with the declaration: each process's own word, where a probe runs inside it,
and the system's (`/proc/PID/environ`), which shows what a process was started with. A variable that
was taken away or overwritten on the way is named with the process, both values and, where the engine
is known to do it, the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchharness.records import (
    Attestation,
    EngineFacts,
    Environment,
    Mismatch,
    ProcessReport,
    Stack,
)

KEPT_PREFIXES = ("NCCL_", "CUDA_", "SGLANG_", "VLLM_", "TORCH_", "OMP_", "GGML_", "LD_LIBRARY_PATH")
SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|AUTH|PRIVATE", re.IGNORECASE)
MASK = "***"

Explain = Callable[[str], str]
"""Name of a variable -> who is known to change it; empty where nobody is."""


def processes(
    main_pid: int, pids: Sequence[int], declared: Mapping[str, str | None]
) -> tuple[ProcessReport, ...]:
    """What the system says of an engine's processes; those that are gone or can't be read are left out.

    Only processes of the engine's own program count: compilers and other short-lived helpers may well be
    started with another environment.

    Args:
        main_pid: the engine's own process.
        pids: all processes of its tree.
        declared: names that are kept beside the allow-list.
    """
    reports = []
    program = _program(main_pid)
    for pid in pids:
        env = _environ(pid) if program is not None and _program(pid) == program else {}
        if env:
            kept = {
                name: env[name] for name in sorted(env) if name in declared or name.startswith(KEPT_PREFIXES)
            }
            reports.append(ProcessReport(pid, env=kept))
    return tuple(reports)


def _program(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return None


def _environ(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if b"=" in entry)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


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
    ]
    return Attestation(
        engine_version=facts.version,
        settings=facts.settings,
        packages=environment.packages if environment else {},
        processes=tuple(_masked(report) for report in reports),
        mismatches=tuple(_masked_mismatch(mismatch) for mismatch in mismatches),
    )


def _env_mismatches(
    wanted: Mapping[str, str | None], reports: Sequence[ProcessReport], explain: Explain
) -> Iterator[Mismatch]:
    for report in reports:
        for name, value in wanted.items():
            effective = report.env.get(name)
            if effective not in (value, MASK):
                yield Mismatch(report.name, f"env.{name}", value, effective, explain(name))


def _package_mismatches(
    stack: Stack, environment: Environment | None, reports: Sequence[ProcessReport]
) -> Iterator[Mismatch]:
    """A declared version must be the one that is installed and, where a probe tells, imported."""
    installed = {
        _plain(name): version for name, version in (environment.packages if environment else {}).items()
    }
    for name, version in stack.packages.items():
        if environment is not None and not _same_version(installed.get(_plain(name)), version):
            yield Mismatch("environment", f"packages.{name}", version, installed.get(_plain(name)))
    for report in reports:
        imported = {_plain(name): found for name, found in report.versions.items()}
        for name, version in stack.packages.items():
            found = imported.get(_plain(name))
            if found is not None and not _same_version(found, version):
                yield Mismatch(report.name, f"packages.{name}", version, found, "another copy is imported")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _same_version(found: str | None, wanted: str) -> bool:
    """Equal, or equal up to a local part that the declaration leaves open (2.13.0 and 2.13.0+cpu)."""
    return found is not None and (found == wanted or found.partition("+")[0] == wanted)


def _secret(name: str) -> bool:
    return bool(SECRET.search(name))


def _masked(report: ProcessReport) -> ProcessReport:
    env = {name: MASK if _secret(name) else value for name, value in report.env.items()}
    return ProcessReport(report.pid, report.rank, report.gpu, env, report.versions, report.source)


def _masked_mismatch(mismatch: Mismatch) -> Mismatch:
    if not mismatch.name.startswith("env.") or not _secret(mismatch.name):
        return mismatch
    declared = MASK if mismatch.declared is not None else None
    effective = MASK if mismatch.effective is not None else None
    return Mismatch(mismatch.where, mismatch.name, declared, effective, mismatch.cause)


def difference(first: Attestation, second: Attestation) -> dict[str, tuple[str, str]]:
    """What two launches really ran differently: path -> value there, value here."""
    one, other = _flat(first), _flat(second)
    paths = sorted(one.keys() | other.keys())
    rows = {path: (one.get(path, "-"), other.get(path, "-")) for path in paths}
    return {path: values for path, values in rows.items() if values[0] != values[1]}


def _flat(attestation: Attestation) -> dict[str, str]:
    flat = {"engine": str(attestation.engine_version)}
    flat |= {f"settings.{name}": str(value) for name, value in attestation.settings.items()}
    flat |= {f"packages.{name}": version for name, version in attestation.packages.items()}
    for name in sorted({name for report in attestation.processes for name in report.env}):
        values = sorted({report.env.get(name, "not set") for report in attestation.processes})
        flat[f"env.{name}"] = " | ".join(values)
    return flat

"""Rank by rank: what each process of a parallel engine runs, and how long its cycles take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape

from benchharness.records import Launch, ProcessReport
from benchharness.report.console import number, sentence, table
from benchharness.store import StoredRun

VARIABLES = "NCCL_"
NOT_READ = ("NCCL_VERSION",)
"""Variables of that prefix that NCCL doesn't read: what an image says of its own packages."""

# Means over launches count one rank's cycles; here all ranks' are wanted.
_RANKED = (
    "WITH ranked AS (SELECT c.stack, c.context_tokens, c.launch, c.position, c.request, c.cycle, c.rank,"
    " c.total_ms, c.verify_ms FROM cycles c JOIN requests r"
    " ON r.launch = c.launch AND r.position = c.position AND r.request = c.request"
    " WHERE r.counted AND coalesce(c.mark, '') = '' AND c.rank IS NOT NULL)"
)


@dataclass(frozen=True)
class RankTimes:
    """Cycles of one stack and context, rank by rank.

    Attributes:
        stack, context_tokens: of the cell.
        cycle_ms, verify_ms: rank -> mean over its cycles; verify is NaN without speculation.
        cycles: of the rank that has fewest.
        apart_ms: longest less shortest duration of one and the same cycle over ranks, mean over cycles.
    """

    stack: str
    context_tokens: int
    cycle_ms: Mapping[int, float]
    verify_ms: Mapping[int, float]
    cycles: int
    apart_ms: float

    @property
    def spread_ms(self) -> float:
        """Slowest rank's mean cycle less the fastest one's."""
        return max(self.cycle_ms.values()) - min(self.cycle_ms.values())

    @property
    def slowest(self) -> int:
        """The rank with the longest mean cycle."""
        return max(self.cycle_ms, key=lambda rank: self.cycle_ms[rank])


def times(stored: StoredRun) -> tuple[RankTimes, ...]:
    """Each cell in which cycles of several ranks were recorded, in the order of the plan."""
    connection = stored.connect()
    means = connection.execute(
        f"{_RANKED} SELECT stack, context_tokens, rank, avg(total_ms), avg(verify_ms), count(*)"  # noqa: S608
        " FROM ranked GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    apart = {
        (stack, context): value
        for stack, context, value in connection.execute(
            f"{_RANKED}, single AS (SELECT stack, context_tokens, launch, position, request, cycle,"  # noqa: S608
            " max(total_ms) - min(total_ms) AS apart FROM ranked GROUP BY ALL"
            " HAVING count(DISTINCT rank) > 1)"
            " SELECT stack, context_tokens, avg(apart) FROM single GROUP BY ALL"
        ).fetchall()
    }
    cells: dict[tuple[str, int], list[Any]] = {}
    for stack, context, *row in means:
        cells.setdefault((stack, context), []).append(row)
    order = [stack.name for stack in stored.run.plan.stacks]
    return tuple(
        RankTimes(
            stack,
            int(context),
            {int(rank): float(cycle) for rank, cycle, _, _ in rows},
            {int(rank): math.nan if verify is None else float(verify) for rank, _, verify, _ in rows},
            min(int(count) for *_, count in rows),
            float(apart.get((stack, context), math.nan)),
        )
        for (stack, context), rows in sorted(
            cells.items(), key=lambda cell: (cell[0][1], order.index(cell[0][0]))
        )
        if len(rows) > 1
    )


def show(console: Console, stored: StoredRun) -> None:
    """Print what each rank runs and its times; nothing where no launch has two ranks."""
    _show_attested(console, stored)
    found = times(stored)
    if not found:
        return
    lines = table("Rank by rank: ms a cycle, by each rank's own clock")
    for heading in ("context", "stack", "cycle", "verify", "spread", "slowest", "apart"):
        justify = "left" if heading == "stack" else "right"
        lines.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for one in found:
        lines.add_row(
            str(one.context_tokens),
            escape(one.stack),
            _joined(one.cycle_ms),
            _joined(one.verify_ms) if any(map(math.isfinite, one.verify_ms.values())) else "-",
            f"{number(one.spread_ms, 3)} ({one.spread_ms / min(one.cycle_ms.values()):.1%})",
            f"rank {one.slowest}",
            number(one.apart_ms, 3),
        )
    console.print(lines)
    console.print(
        "cycle, verify: mean of rank 0 / 1 ...; spread: slowest mean less fastest; apart: the same of single"
        " cycles, on average."
    )


def _joined(values: Mapping[int, float]) -> str:
    return " / ".join(number(values[rank], 3) for rank in sorted(values))


def _show_attested(console: Console, stored: StoredRun) -> None:
    """A line a launch where its ranks agree, one a rank where they don't."""
    launches = [launch for launch in stored.launches if len(of_ranks(launch)) > 1]
    if not launches:
        return
    common = _common(launches)
    if common:
        told = (f"{name}={value} ({origin(launches[0], name)})" for name, value in common.items())
        sentence(console, f"In every rank: {escape(', '.join(told))}")
    lines = table("What each rank runs")
    for heading in ("launch", "stack", "rank", "NCCL", "all-reduce", "via", "variables"):
        lines.add_column(heading, overflow="fold")
    for launch in launches:
        for ranks, cells in _rows(launch, common):
            lines.add_row(str(launch.index), escape(launch.stack), ranks, *map(escape, cells))
    console.print(lines)


def _rows(launch: Launch, common: Mapping[str, str]) -> list[tuple[str, tuple[str, ...]]]:
    """Ranks that run the same, with what they run."""
    rows: dict[tuple[str, ...], list[int]] = {}
    for rank, report in of_ranks(launch).items():
        told = rank_facts(launch, report)
        env = {name: value for name, value in told["env"].items() if name not in common}
        missing = sorted(set(_variables(launch)) - set(told["env"]))
        words = [f"{name}={value}" for name, value in env.items()] + [f"{name} not set" for name in missing]
        cells = (
            str(told["nccl"] or "-"),
            ", ".join(told["all_reduce"]) or "-",
            ", ".join(told["paths"]) or "-",
            ", ".join(words) or "-",
        )
        rows.setdefault(cells, []).append(rank)
    return [(", ".join(map(str, ranks)), cells) for cells, ranks in rows.items()]


def of_ranks(launch: Launch) -> dict[int, ProcessReport]:
    """Each rank by its process's own word."""
    told = {
        report.rank: report
        for report in launch.attestation.processes
        if report.source == "probe" and report.rank is not None
    }
    return dict(sorted(told.items()))


def rank_facts(launch: Launch, report: ProcessReport) -> dict[str, Any]:
    """What is attested of one rank: NCCL and where it lies, ways to reduce, paths to others, variables."""
    said = launch.attestation.settings.get("nccl_ranks", {}).get(str(report.rank), {})
    mapped = [
        path
        for other in launch.attestation.processes
        if other.pid == report.pid
        for path in other.libraries.get("nccl", ())
    ]
    return {
        "rank": report.rank,
        "nccl": report.versions.get("nccl") or said.get("version"),
        "nccl_library": sorted(set(mapped)),
        "all_reduce": list(report.all_reduce),
        "paths": list(said.get("paths", ())),
        "channels": said.get("channels"),
        "env": {name: value for name, value in report.env.items() if _read_by_nccl(name)},
        "env_read_by_nccl": dict(said.get("env", {})),
    }


def _read_by_nccl(name: str) -> bool:
    return name.startswith(VARIABLES) and name not in NOT_READ


def _variables(launch: Launch) -> list[str]:
    """Every such variable that some rank of a launch has."""
    return sorted(
        {name for report in of_ranks(launch).values() for name in report.env if _read_by_nccl(name)}
    )


def _common(launches: Sequence[Launch]) -> dict[str, str]:
    """Variables that all ranks of all launches have with one value."""
    reports = [report for launch in launches for report in of_ranks(launch).values()]
    first = reports[0].env
    return {
        name: value
        for name, value in first.items()
        if _read_by_nccl(name) and all(report.env.get(name) == value for report in reports)
    }


def origin(launch: Launch, name: str) -> str:
    """Where a rank's variable comes from: `declared`, `host`, or `engine`, which set it after its start."""
    if name in launch.env:
        return "declared"
    started = next((one for one in launch.attestation.processes if one.source == "proc"), None)
    return "host" if started is not None and name in started.env else "engine"


def document(stored: StoredRun) -> list[dict[str, Any]]:
    """The times for programs."""
    return [
        {
            "stack": one.stack,
            "context_tokens": one.context_tokens,
            "cycle_ms": {str(rank): value for rank, value in one.cycle_ms.items()},
            "verify_ms": {str(rank): v for rank, v in one.verify_ms.items() if math.isfinite(v)},
            "spread_ms": one.spread_ms,
            "slowest": one.slowest,
            "apart_ms": one.apart_ms if math.isfinite(one.apart_ms) else None,
            "cycles": one.cycles,
        }
        for one in times(stored)
    ]

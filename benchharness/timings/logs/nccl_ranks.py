"""What NCCL itself says of each rank: variables that it read, how it reaches the others, what it refused.

From the lines of NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH: they come while communicators are
set up and cost no time later. A line for every collective, with algorithm and protocol, comes with TUNING:
without graphs that is a line for each of thousands of all-reduces a second, so it belongs in no timed launch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchharness.timings.logs import nccl
from benchharness.timings.logs.fields import DamagedError

_COMM = re.compile(r"\brank (\d+) nranks (\d+)\b.*Init (?:START|COMPLETE)")
_CHANNEL = re.compile(r"Channel \d+(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\] (?:\[\w+\] )?via (\S+)")
_COLLECTIVE = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)")
_REFUSED = re.compile(r"NCCL WARN.*?(no algorithm/protocol available for function .*)")
_ALGORITHMS = {"0": "TREE", "1": "RING"}
_PROTOCOLS = {"0": "LL", "1": "LL128", "2": "SIMPLE"}


@dataclass(frozen=True)
class Rank:
    """One rank, in NCCL's own words.

    Attributes:
        pid: its process, which a container may count otherwise than the host.
        version: of the library that runs, as 2.28.9; empty where no line of this process told it.
        env: variables that NCCL read in this process.
        paths: how it sends to other ranks: `P2P/IPC`, `SHM/direct/direct`, `NET/IB/0`; sorted.
        channels: connections of such a path that were set up, over all of the process's communicators.
    """

    pid: int
    version: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    channels: int = 0


def ranks(lines: Iterable[str]) -> dict[int, Rank]:
    """Each rank by its number in the largest communicator that its process joined.

    Where no line tells of a communicator of several ranks, the result is empty.
    """
    found: dict[int, Rank] = {}
    place: dict[int, tuple[int, int]] = {}
    told: dict[int, dict[str, str]] = {}
    sent: dict[int, Counter[str]] = {}
    versions: dict[int, str] = {}
    for pid, message, fields in _messages(lines):
        if "var" in fields:
            told.setdefault(pid, {})[str(fields["var"])] = str(fields["value"])
        elif "nccl" in fields:
            versions[pid] = str(fields["nccl"])
        elif comm := _COMM.search(message):
            size, number = int(comm[2]), int(comm[1])
            place[pid] = max(place.get(pid, (0, 0)), (size, number))
        elif channel := _CHANNEL.search(message):
            sent.setdefault(pid, Counter())[channel[3]] += 1
    for pid, (size, number) in place.items():
        if size > 1:
            paths = sent.get(pid, Counter())
            found[number] = Rank(
                pid, versions.get(pid, ""), told.get(pid, {}), tuple(sorted(paths)), sum(paths.values())
            )
    return dict(sorted(found.items()))


def _messages(lines: Iterable[str]) -> Iterator[tuple[int, str, Mapping[str, object]]]:
    for line in lines:
        if "NCCL" not in line:
            continue
        try:
            parsed = nccl.parse(line)
        except DamagedError:
            continue
        if parsed is not None and parsed[1].get("pid"):
            yield int(str(parsed[1]["pid"])), line, parsed[1]


def collectives(lines: Iterable[str]) -> Counter[tuple[str, int, str, str]]:
    """How often each (function, bytes, algorithm, protocol) was chosen, as rank 0 says with TUNING."""
    found: Counter[tuple[str, int, str, str]] = Counter()
    for line in lines:
        chosen = _COLLECTIVE.search(line) if "Algo" in line else None
        if chosen is not None:
            algorithm = _ALGORITHMS.get(chosen[3], chosen[3].upper())
            found[chosen[1], int(chosen[2]), algorithm, _PROTOCOLS.get(chosen[4], chosen[4].upper())] += 1
    return found


def refusal(lines: Iterable[str]) -> str:
    """Why NCCL would not carry out a collective under the variables given; empty where it did.

    Newer releases refuse a function that the variables leave no algorithm for: with NCCL_ALGO=Tree every
    all-gather, since only all-reduce has trees. `NCCL_ALGO=allreduce:tree` asks for them there alone.
    """
    for line in lines:
        refused = _REFUSED.search(line)
        if refused is not None:
            return f"NCCL refuses: {refused[1].strip()}"
    return ""


def refused_in(log: Path) -> str:
    """The same of a log on disk; empty where there is none."""
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            return refusal(lines)
    except OSError:
        return ""

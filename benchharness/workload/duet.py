"""Drives one workload through two endpoints, one request at a time, in pairs of random order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchharness.records import Endpoint, RequestTrace, Workload
from benchharness.workload import transport
from benchharness.workload.client import Drive, Job, Progress, jobs_of, undisturbed
from benchharness.workload.dialects import dialect
from benchharness.workload.load import alternation
from benchharness.workload.prompts import Prompts
from benchharness.workload.pulse import Pulse


@dataclass(frozen=True)
class Half:
    """One of the two endpoints, the prompts that it gets, and who is told of its requests."""

    endpoint: Endpoint
    prompts: Prompts
    progress: Progress | None = None


def drive(
    first: Half, second: Half, workload: Workload, *, seed: int
) -> tuple[tuple[RequestTrace, ...], tuple[RequestTrace, ...]]:
    """Send every request to both endpoints, one after the other, warm-up requests first.

    Which endpoint is asked first is drawn for each pair; the second of two pairs has the order of the first
    one reversed, so that a steady drift cancels (see `load.alternation`). Failed requests are in the results.

    Args:
        first, second: where to; requests of the same index are partners.
        workload: of a closed loop of one stream.
        seed: of the order.

    Returns:
        The traces of both, in the order of their indices; `partner_ns` says how long the client was with
        the other one before each request.
    """
    pulse = Pulse()
    halves = [_prepared(half, workload, seed, pulse) for half in (first, second)]
    order = alternation(len(halves[0][1]), seed)

    async def both() -> None:
        pulse.start()
        try:
            for at, first_goes_first in enumerate(order):
                for session, jobs in halves if first_goes_first else reversed(halves):
                    await session.send(jobs[at])
        finally:
            pulse.stop()

    with undisturbed() as runner:
        runner.run(both())
    one, other = (session.finished() for session, _ in halves)
    return with_partner(one, other), with_partner(other, one)


def _prepared(half: Half, workload: Workload, seed: int, pulse: Pulse) -> tuple[Drive, list[Job]]:
    speech = dialect(half.endpoint.dialect)
    warm, measured = jobs_of(half.endpoint, workload, speech, half.prompts, seed)
    session = Drive(speech, workload, transport.make(half.endpoint.base_url), half.progress, pulse)
    session.total = len(warm) + len(measured)
    session.expect((*warm, *measured))
    return session, [*warm, *measured]


def with_partner(own: Sequence[RequestTrace], other: Sequence[RequestTrace]) -> tuple[RequestTrace, ...]:
    """The traces with the time that the other's requests took since the one before, as `partner_ns`."""
    done: list[RequestTrace] = []
    for trace in own:
        since = done[-1].finished_ns if done else 0
        between = (one for one in other if since <= one.sent_ns < trace.sent_ns)
        spent = sum(min(one.finished_ns, trace.sent_ns) - one.sent_ns for one in between)
        done.append(replace(trace, partner_ns=spent))
    return tuple(done)

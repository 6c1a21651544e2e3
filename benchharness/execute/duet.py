"""Two launches whose servers live at the same time, so that what the host does meets both alike."""

from __future__ import annotations

from contextlib import ExitStack, suppress

from benchharness.execute.measuring import Measuring
from benchharness.execute.serving import Serving, Trouble
from benchharness.records import Launch, LaunchStatus, RequestTrace, Workload
from benchharness.workload import duet

Pair = tuple[Serving, Serving]


def measure(pair: Pair, launches: tuple[Launch, Launch]) -> tuple[Launch, Launch]:
    """Carry out both launches together; trouble of one ends both, and each says whose it was.

    Args:
        pair: in the order in which they are started.
        launches: their records so far.
    """
    for side, launch in zip(pair, launches, strict=True):
        side.launch = launch
    with suppress(*Trouble), ExitStack() as held:
        for side in pair:
            if side is not pair[0]:
                side.observer.launch_begins(side.planned)
            held.enter_context(side.up())
        for position, index in enumerate(pair[0].planned.workloads):
            _trials(pair, position, pair[0].plan.workloads[index])
    for side, partner in (pair, pair[::-1]):
        if side.launch.status != LaunchStatus.DONE and partner.launch.status == LaunchStatus.DONE:
            partner.failed(side.launch.status, of_partner(side.launch))
    return pair[0].ended(), pair[1].ended()


_OF_PARTNER = "its partner in the duet, "


def of_partner(launch: Launch) -> str:
    """The reason of the other launch of a duet."""
    return f"{_OF_PARTNER}launch {launch.index} ({launch.stack}), is {launch.status}"


def is_of_partner(launch: Launch) -> bool:
    """Whether it was not this launch that went wrong, but its partner."""
    return launch.reason.startswith(_OF_PARTNER)


def _trials(pair: Pair, position: int, workload: Workload) -> None:
    """One workload in both; both trials are stored, also where an engine died of it."""

    def engine_pids() -> tuple[int, ...]:
        return tuple(pid for side in pair for pid in side.running.process_ids())

    trials = [Measuring(side, position, workload, engine_pids) for side in pair]
    for side, trial in zip(pair, trials, strict=True):
        with side.blamed():
            trial.begin()
    one, other = (
        duet.Half(side.endpoint, trial.prompts, trial.request_ends)
        for side, trial in zip(pair, trials, strict=True)
    )
    traces = duet.drive(one, other, workload, seed=pair[0].planned.seed)
    troubles = []
    for side, trial, own in zip(pair, trials, traces, strict=True):
        side.driven(_open_s(own))
        try:
            with side.blamed():
                trial.end(own)
        except Trouble as error:
            troubles.append(error)
    if troubles:
        raise troubles[0]


def _open_s(traces: tuple[RequestTrace, ...]) -> float:
    """Seconds for which a request of these was open: the partner's are not this launch's."""
    return sum(trace.finished_ns - trace.sent_ns for trace in traces) / 1e9

"""Invariants of a measurement: one function each, each with the sentence that it prints.

A grave finding makes a trial invalid: it is shown, never judged. The others are shown beside the
figures. Every function takes a trial and yields findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchharness.records import Finding, Trial
from benchharness.validity import answers, arrivals, cycles, gpus

CHECKS: tuple[Callable[[Trial], Iterator[Finding]], ...] = (
    answers.requests_succeeded,
    answers.output_length_reached,
    answers.context_as_declared,
    answers.tokens_counted_by_server,
    answers.token_counts_agree,
    answers.no_prefix_hits,
    answers.prefix_hits_known,
    arrivals.samples_not_late,
    arrivals.arrivals_follow_the_server,
    cycles.cycles_known,
    cycles.accept_length_agrees,
    cycles.counters_agree,
    cycles.client_within_cycles,
    cycles.graphs_replayed,
    cycles.no_capture,
    gpus.clocks_held,
    gpus.clocks_known,
    gpus.gpu_alone,
)


def findings(trial: Trial) -> tuple[Finding, ...]:
    """All findings of a trial, grave ones first."""
    found = [finding for check in CHECKS for finding in check(trial)]
    return tuple(sorted(found, key=lambda finding: not finding.grave))

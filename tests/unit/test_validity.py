"""Each invariant finds what it names, and says nothing of a sound trial."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchharness import validity
from benchharness.records import Cycle, EngineCounters, Failure, RequestTrace, Trial, Workload

WORKLOAD = Workload(context_tokens=128, output_tokens=3, requests=2, warmup_requests=1)


def trace(index: int, **changes: object) -> RequestTrace:
    whole = RequestTrace(
        index=index,
        warmup=index == 0,
        prompt_tokens=128,
        due_ns=0,
        sent_ns=0,
        finished_ns=40_000_000,
        chunk_ns=(10, 5_000_010),
        chunk_tokens=(1, 2),
        chunk_server_ms=(0.0, 5.0),
        asked_tokens=3,
        output_tokens=3,
        server_prompt_tokens=128,
        cached_tokens=0,
        drafted_tokens=2,
        accepted_tokens=1,
        reads=100,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def cycle(request: int, tokens: int = 2) -> Cycle:
    return Cycle(request, 0, tokens, 5.0, None, None, None, "server-timing", "host")


def trial(*traces: RequestTrace, cycles: tuple[Cycle, ...] = (cycle(1), cycle(2))) -> Trial:
    return Trial(launch=0, position=0, workload=WORKLOAD, requests=traces, cycles=cycles)


def test_a_sound_trial_has_no_findings() -> None:
    assert validity.findings(trial(trace(0), trace(1), trace(2))) == ()


@pytest.mark.parametrize(
    ("check", "grave", "changes"),
    [
        ("requests-succeeded", True, {"failure": Failure.RESET, "failure_text": "reset by peer"}),
        ("output-length-reached", True, {"output_tokens": 2, "accepted_tokens": None}),
        ("context-as-declared", True, {"server_prompt_tokens": 127}),
        ("no-prefix-hits", True, {"cached_tokens": 100}),
        ("tokens-counted-by-server", False, {"tokens_estimated": True}),
        ("token-counts-agree", False, {"tokens_mismatch": True}),
        ("samples-not-late", False, {"late_reads": 50}),
        ("samples-not-late", True, {"late_reads": 95}),
        ("prefix-hits-known", False, {"cached_tokens": None}),
        ("arrivals-follow-the-server", False, {"chunk_ns": (10, 4_000_010)}),
        ("arrivals-follow-the-server", True, {"chunk_ns": (10, 1_000_010)}),
        ("accept-length-agrees", True, {"verify_cycles": 5}),
        ("accept-length-agrees", True, {"accepted_tokens": 2}),
    ],
)
def test_each_invariant_finds_what_it_names(check: str, grave: bool, changes: dict[str, object]) -> None:
    found = validity.findings(trial(trace(0), trace(1), trace(2, **changes)))
    assert [(finding.check, finding.grave) for finding in found] == [(check, grave)]
    assert trial(trace(0), trace(1)).valid
    assert replace(trial(trace(0)), findings=found).valid is not grave


def test_a_failed_warm_up_request_does_not_count_against_a_trial() -> None:
    assert validity.findings(trial(trace(0, failure=Failure.RESET), trace(1), trace(2))) == ()


def test_a_trial_without_a_measured_request_is_invalid() -> None:
    found = validity.findings(trial(trace(0)))
    assert [finding.check for finding in found] == ["requests-succeeded"]


@pytest.mark.parametrize(("moved", "agrees"), [(3, True), (4, False), (None, True)])
def test_the_engines_counters_must_move_by_what_its_answers_add_up_to(
    moved: int | None, agrees: bool
) -> None:
    sound = trial(trace(0), trace(1), trace(2))
    found = validity.findings(replace(sound, counters=EngineCounters(accepted_tokens=moved)))
    assert [finding.check for finding in found] == ([] if agrees else ["counters-agree"])


def test_a_declared_shared_prefix_is_no_hit() -> None:
    cached = trial(trace(0), trace(1, cached_tokens=100), trace(2, cached_tokens=100))
    assert [finding.check for finding in validity.findings(cached)] == ["no-prefix-hits"]
    shared = replace(cached, workload=replace(WORKLOAD, shared_prefix_tokens=96))
    assert validity.findings(shared) == ()
    turns = replace(cached, workload=replace(WORKLOAD, turns=2))
    assert validity.findings(turns) == ()


def test_an_estimate_is_flagged_and_not_held_against_counts() -> None:
    estimated = {"tokens_estimated": True, "output_tokens": 2, "accepted_tokens": None}
    guessed = trial(trace(0, **estimated), trace(1, **estimated), trace(2, **estimated), cycles=())
    counted = replace(guessed, counters=EngineCounters(output_tokens=9))
    assert {finding.grave for finding in validity.findings(counted)} == {False}
    assert {f.check for f in validity.findings(counted)} == {"tokens-counted-by-server", "cycles-known"}


def answered(tok_s: float, cycle_ms: float = 5.0, count: int = 100) -> Trial:
    """One answer of cycles of two tokens, that reached the client at a speed."""
    gap_ns = round(2e9 / tok_s)
    one = trace(
        1,
        chunk_ns=tuple(10 + gap_ns * n for n in range(count + 1)),
        chunk_tokens=(1, *[2] * count),
        chunk_server_ms=(),
        output_tokens=2 * count + 1,
        asked_tokens=2 * count + 1,
        drafted_tokens=None,
        accepted_tokens=None,
        verify_cycles=count,
        finished_ns=20 + gap_ns * count,
    )
    cycles = tuple(Cycle(1, n, 2, cycle_ms, None, None, None, "probe", "cuda-event") for n in range(count))
    return trial(one, cycles=cycles)


@pytest.mark.parametrize(
    ("tok_s", "expected"),
    [(376, []), (399, []), (411, []), (420, [True]), (280, [False]), (150, [True])],
)
def test_t22_the_client_can_see_no_more_than_the_cycles_and_not_far_less(
    tok_s: float, expected: list[bool]
) -> None:
    """Cycles of 2 tokens in 5 ms allow 400 tok/s; 376 is the articles' 6 %."""
    found = list(validity.cycles.client_within_cycles(answered(tok_s)))
    assert [finding.grave for finding in found] == expected
    assert all("400.0" in finding.sentence for finding in found)


def test_cycles_of_the_clients_own_clock_prove_nothing() -> None:
    made = answered(900)
    cycles = tuple(replace(one, source="client-chunk") for one in made.cycles)
    assert not list(validity.cycles.client_within_cycles(replace(made, cycles=cycles)))


def test_t8_a_share_of_eager_cycles_is_told() -> None:
    made = answered(380)
    graphs = tuple(replace(one, graph=n % 4 != 0) for n, one in enumerate(made.cycles))
    (found,) = validity.cycles.graphs_replayed(replace(made, cycles=graphs))
    assert found.sentence.startswith("25.0% of the cycles ran without a captured graph")
    for alike in (True, False, None):
        same = tuple(replace(one, graph=alike) for one in made.cycles)
        assert not list(validity.cycles.graphs_replayed(replace(made, cycles=same)))


def test_captures_in_the_window_are_told() -> None:
    made = answered(380)
    cycles = (replace(made.cycles[0], mark="capture"), *made.cycles[1:])
    (found,) = validity.cycles.no_capture(replace(made, cycles=cycles))
    assert "in 1 cycles" in found.sentence

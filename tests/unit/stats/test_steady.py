"""Change points against every possible cut, on quiet series, and on the ways in which trials are unsteady."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from benchharness.records import Cycle, RequestTrace, Trial, Workload
from benchharness.stats import steadiness, steady

WORK = Workload(context_tokens=128, output_tokens=64, requests=8)


def cheapest(data: np.ndarray, price: float) -> list[int]:
    """Every cut tried: what the dynamic programme must find."""

    def cost(cuts: tuple[int, ...]) -> float:
        parts = np.split(data, cuts)
        if any(len(part) < steady.LEAST_STRETCH for part in parts):
            return math.inf
        return sum(float(((part - part.mean()) ** 2).sum()) for part in parts) + price * len(cuts)

    places = range(1, len(data))
    cuts = itertools.chain.from_iterable(itertools.combinations(places, n) for n in range(5))
    return list(min(cuts, key=cost))


def test_the_cheapest_cut_is_found() -> None:
    rng = np.random.default_rng(5)
    several = 0
    for _ in range(40):
        levels = np.repeat(rng.choice([10.0, 13.0, 17.0], 4), rng.integers(2, 5, 4))
        data = levels + rng.normal(0, 0.15, levels.size)
        price = steady.PRICE * steady._noise(data) * math.log(data.size) * steady._inflation(data)
        wanted = cheapest(data, price)
        several += len(wanted) > 1
        assert steady._change_points(data) == wanted
    assert several > 10


@pytest.mark.parametrize(
    ("count", "correlation", "most"), [(8, 0.0, 3), (8, 0.7, 8), (64, 0.4, 6), (256, 0.7, 12)]
)
def test_a_quiet_series_seldom_changes(count: int, correlation: float, most: int) -> None:
    rng = np.random.default_rng(count)
    changed = 0
    for _ in range(100):
        noise = rng.standard_normal(count)
        for at in range(1, count):
            noise[at] = correlation * noise[at - 1] + math.sqrt(1 - correlation**2) * noise[at]
        changed += len(steady.stretches(10 * (1 + 0.1 * noise))) > 1
    assert changed <= most


def test_a_warm_up_is_found_and_its_end_named() -> None:
    rng = np.random.default_rng(1)
    found = [steady.steady_from([14, 12, *rng.normal(10, 0.1, 10)]) for _ in range(50)]
    assert sum(begin == 2 for begin in found) >= 45


def test_a_series_that_changes_at_its_end_is_never_steady() -> None:
    rng = np.random.default_rng(2)
    assert steady.steady_from([*rng.normal(10, 0.05, 20), *rng.normal(12, 0.05, 4)]) is None
    assert steady.steady_from([]) is None
    assert steady.steady_from([5.0] * 9) == 0
    assert steady.steady_from([9.0, 9.0, 5.0, 5.0, 5.0, 5.0]) == 2


def test_long_series_take_bounded_work() -> None:
    rng = np.random.default_rng(3)
    data = np.concatenate([rng.normal(12, 0.5, 50_000), rng.normal(10, 0.5, 150_000)])
    first, second = steady.stretches(data)
    assert abs(first.end - 50_000) <= 200
    assert second.level == pytest.approx(10, abs=0.02)


def trial(*answers: list[float], tokens: int = 1) -> Trial:
    """Requests with these cycles in ms."""
    requests = tuple(RequestTrace(n, False, 128, 0, 0, 0, output_tokens=64) for n in range(len(answers)))
    cycles = tuple(
        Cycle(n, k, tokens, ms, None, None, None, "probe", "host")
        for n, answer in enumerate(answers)
        for k, ms in enumerate(answer)
    )
    return Trial(0, 0, WORK, requests, cycles)


def noisy(rng: np.random.Generator, levels: list[float]) -> list[float]:
    return [float(level * (1 + rng.normal(0, 0.01))) for level in levels]


def sentences(*answers: list[float], tokens: int = 1) -> list[str]:
    return [finding.sentence for finding in steadiness.findings(trial(*answers, tokens=tokens))]


def articles(early: bool) -> list[float]:
    """T21: 119 tok/s at token 113, then 46 falling to 38 at 1900; one token a cycle."""
    later = [1000 / (46 - 8 * k / 1900) for k in range(1900)]
    return [*([1000 / 119] * 113 if early else []), *later]


def test_t21_one_answer_that_begins_fast_is_marked_and_its_cause_left_open() -> None:
    rng = np.random.default_rng(4)
    beginning, growing = sentences(noisy(rng, articles(early=True)))
    assert "the first 113 tokens of answers came at 119 tok/s" in beginning
    assert "can't tell" in beginning
    assert "cycles grow with the answer" in growing


def test_t21_every_answer_that_begins_fast_has_a_nearly_empty_cache() -> None:
    rng = np.random.default_rng(4)
    beginning, _ = sentences(*(noisy(rng, articles(early=True)) for _ in range(4)))
    assert "a nearly empty cache" in beginning


def test_t21_a_first_answer_that_begins_otherwise_is_warm_up() -> None:
    rng = np.random.default_rng(4)
    answers = [noisy(rng, articles(early=first)) for first in (True, False, False, False)]
    assert "only in the first answers, so it is warm-up" in sentences(*answers)[0]


def test_steady_answers_have_nothing_said_of_them() -> None:
    rng = np.random.default_rng(6)
    assert sentences(*(noisy(rng, [10.0] * 200) for _ in range(8))) == []


def test_first_requests_that_are_slower_are_named() -> None:
    rng = np.random.default_rng(7)
    (said,) = sentences(*(noisy(rng, [level] * 100) for level in (13, 13, *[10] * 8)))
    assert said.startswith("the first 2 of 10 measured requests ran at 13 ms a cycle, the others at")


def test_a_trial_without_cycles_says_nothing() -> None:
    assert steadiness.findings(trial()) == ()
    assert steadiness.findings(trial([10.0] * 5)) == ()

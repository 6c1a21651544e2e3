"""Was a trial steady? By request, in their order, and by position in the answer."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchharness.records import Cycle, Finding, Trial
from benchharness.stats import steady

FEWEST_REQUESTS = 6
FEWEST_CYCLES = 24
NOTED_EARLY = 0.05
"""By how much the beginning of the answers must differ from the rest to be said."""
NOTED_GROWTH = 0.05
"""By how much a cycle must grow over an answer to be said."""


@dataclass(frozen=True)
class Early:
    """The beginning of answers runs at another speed than the rest.

    Attributes:
        tokens: tokens of the answer that it lasts.
        tok_s: speed there; later_tok_s: after it.
        cause: `warm-up` (only the first answers are so), `context` (every answer is so: its cache is still
            nearly empty), or `unknown` (one answer can't tell).
    """

    tokens: int
    tok_s: float
    later_tok_s: float
    cause: str


@dataclass(frozen=True)
class Profile:
    """Cycles of one answer in order: durations in ms, and the tokens before each."""

    ms: NDArray[np.float64]
    tokens_before: NDArray[np.int64]
    tokens: NDArray[np.int64]


def findings(trial: Trial) -> tuple[Finding, ...]:
    """Notes on what is not steady; none makes a trial invalid, since its figures say what happened."""
    profiles = list(_profiles(trial).values())
    return (*_by_request(profiles), *_by_position(profiles))


def _profiles(trial: Trial) -> dict[int, Profile]:
    """The answers of measured requests that have enough cycles, in order of the requests."""
    measured = {trace.index for trace in trial.requests if trace.failure is None and not trace.warmup}
    by_request: dict[int, list[Cycle]] = defaultdict(list)
    for cycle in trial.cycles:
        if cycle.request in measured and not cycle.mark and not cycle.rank and cycle.total_ms > 0:
            by_request[cycle.request].append(cycle)
    found = {}
    for request in sorted(by_request):
        cycles = by_request[request]
        if len(cycles) >= FEWEST_CYCLES:
            tokens = np.array([cycle.tokens for cycle in cycles])
            ms = np.array([cycle.total_ms for cycle in cycles])
            found[request] = Profile(ms, tokens.cumsum() - tokens, tokens)
    return found


def _by_request(profiles: Sequence[Profile]) -> Iterator[Finding]:
    means = [float(profile.ms.mean()) for profile in profiles]
    if len(means) < FEWEST_REQUESTS:
        return
    begin = steady.steady_from(means)
    if begin is None:
        levels = ", ".join(f"{one.level:.3g}" for one in steady.stretches(means))
        yield Finding(
            "steady",
            False,
            f"requests never settled: cycles of {levels} ms one after another; measure longer",
        )
    elif begin > 0:
        first, last = float(np.mean(means[:begin])), float(np.mean(means[begin:]))
        yield Finding(
            "steady",
            False,
            f"the first {begin} of {len(means)} measured requests ran at {first:.3g} ms a cycle, the others "
            f"at {last:.3g} ms: they were still warming up (raise `measure.warmup`)",
        )


def _by_position(profiles: Sequence[Profile]) -> Iterator[Finding]:
    found = early(profiles)
    if found is not None:
        why = {
            "warm-up": "only in the first answers, so it is warm-up",
            "context": "in every answer, so it is the short context there (a nearly empty cache)",
            "unknown": "one answer can't tell whether it is warm-up or the short context",
        }[found.cause]
        yield Finding(
            "steady",
            False,
            f"the first {found.tokens} tokens of answers came at {found.tok_s:.0f} tok/s, later ones at "
            f"{found.later_tok_s:.0f}: {why}; speeds taken there are not the steady ones",
        )
    grown = growth(profiles)
    if grown is not None and abs(grown[1]) > NOTED_GROWTH:
        yield Finding(
            "steady",
            False,
            f"cycles {'grow' if grown[0] > 0 else 'get shorter'} with the answer, by {abs(grown[0]):.3g} ms "
            f"every 1,000 tokens ({grown[1]:+.0%} from beginning to end)",
        )


def early(profiles: Sequence[Profile]) -> Early | None:
    """Whether answers begin at another speed than they go on with; None where they don't."""
    beginnings = [_beginning(profile) for profile in profiles]
    seen = [position for position, cycles in enumerate(beginnings) if cycles]
    if not seen:
        return None
    if len(profiles) == 1:
        cause = "unknown"
    elif len(seen) > len(profiles) / 2:
        cause = "context"
    elif seen == list(range(len(seen))):
        cause = "warm-up"
    else:
        return None
    typical = [(profiles[position], beginnings[position]) for position in seen]
    return Early(
        tokens=int(np.median([profile.tokens[:cut].sum() for profile, cut in typical])),
        tok_s=float(np.median([_speed(profile, 0, cut) for profile, cut in typical])),
        later_tok_s=float(np.median([_speed(profile, cut, len(profile.ms)) for profile, cut in typical])),
        cause=cause,
    )


def _beginning(profile: Profile) -> int:
    """Cycles of a beginning that differs from the rest; 0 without one."""
    line = _line(profile)
    flat = profile.ms - line * (profile.tokens_before - profile.tokens_before.mean()) if line else profile.ms
    if not (flat > 0).all():
        flat = profile.ms
    first, *others = steady.stretches(flat.tolist())
    if not others or first.end > len(flat) / 3:
        return 0
    later = float(np.median(flat[first.end :]))
    return first.end if abs(first.level / later - 1) > NOTED_EARLY else 0


def _speed(profile: Profile, begin: int, end: int) -> float:
    return float(1000 * profile.tokens[begin:end].sum() / profile.ms[begin:end].sum())


def _line(profile: Profile) -> float:
    """Growth in ms a token over the last two thirds of the answer, by Theil and Sen: outliers don't count."""
    begin = len(profile.ms) // 3
    x, y = profile.tokens_before[begin:].astype(float), profile.ms[begin:]
    step = max(1, len(x) // 128)
    x, y = x[::step], y[::step]
    apart = x[None, :] - x[:, None]
    upper = apart > 0
    return float(np.median((y[None, :] - y[:, None])[upper] / apart[upper])) if upper.any() else 0.0


def growth(profiles: Sequence[Profile]) -> tuple[float, float] | None:
    """(ms every 1,000 tokens, fraction over a whole answer), the middle of all answers; None without any."""
    if not profiles:
        return None
    lines = [_line(profile) for profile in profiles]
    whole = [
        line * float(profile.tokens.sum()) / float(np.median(profile.ms))
        for line, profile in zip(lines, profiles, strict=True)
    ]
    per_token, fraction = float(np.median(lines)), float(np.median(whole))
    return (1000 * per_token, fraction) if math.isfinite(per_token) else None

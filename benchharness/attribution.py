"""Where the time went: a stream's speed is accept length over cycle time, less an overhead.

    tok/s = accept length / cycle time x (1 - overhead)        cycle = draft + verify + draft-extend + rest

The overhead is what a client sees beyond the cycles: gaps between them, scheduling, detokenising, the way to
the client. Everything here is arithmetic on means that were stored; nothing is judged.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

PHASES = ("draft", "verify", "draft-extend")
WALL = 2.5
"""Verify over plain decode step from which on speculation seldom pays: the articles' wall (29 / 12 ms)."""


@dataclass(frozen=True)
class Account:
    """One stack at one context length.

    Attributes:
        tok_s: tokens a second of one stream, as the client saw them after the first chunk.
        accept_length: tokens a cycle, bonus included; 1 without speculation.
        cycle_ms: mean duration of a cycle.
        phases_ms: `draft`, `verify`, `draft-extend` as far as they are known, and `rest`: what is left of
            the cycle. Without a known phase it is `cycle`, the whole of it.
        period_ms: start of a cycle to the start of the next; NaN where it isn't known.
    """

    tok_s: float
    accept_length: float
    cycle_ms: float
    phases_ms: Mapping[str, float]
    period_ms: float = math.nan

    @property
    def ceiling_tok_s(self) -> float:
        """What the cycles alone allow."""
        return 1000 * self.accept_length / self.cycle_ms

    @property
    def overhead(self) -> float:
        """Fraction of the ceiling that is lost outside of the cycles; negative if the client saw more."""
        return 1 - self.tok_s / self.ceiling_tok_s

    @property
    def between_ms(self) -> float:
        """From the end of a cycle to the start of the next: the engine's own share of the overhead."""
        return self.period_ms - self.cycle_ms


def account(means: Mapping[str, float]) -> Account | None:
    """The account of one cell from its metrics by name; None where speed or cycles aren't known."""

    def of(name: str) -> float:
        return float(means.get(name, math.nan))

    if not (of("decode_tok_s") > 0 and of("accept_length") > 0 and of("cycle_ms") > 0):
        return None
    known = {phase: of(f"{phase.replace('-', '_')}_ms") for phase in PHASES}
    phases = {phase: value for phase, value in known.items() if math.isfinite(value)}
    phases["rest" if phases else "cycle"] = of("cycle_ms") - sum(phases.values())
    return Account(of("decode_tok_s"), of("accept_length"), of("cycle_ms"), phases, of("period_ms"))


@dataclass(frozen=True)
class Step:
    """One step of a waterfall from a baseline to a candidate.

    Attributes:
        cause: `accept length`, a phase, `rest`, `cycle` or `overhead`.
        ms: change of the cycle in milliseconds; NaN for what is no part of it.
        tok_s: what it adds to the speed of a stream; all steps together are the whole difference.
    """

    cause: str
    ms: float
    tok_s: float


def waterfall(baseline: Account, candidate: Account) -> tuple[Step, ...]:
    """What makes the difference between two speeds, cause by cause.

    The parts are those of the logarithmic mean (additive LMDI, Ang 2004, doi:10.1016/j.enpol.2003.10.010):
    they add up to the difference exactly, and swapping the two sides swaps their signs. Empty where a side
    has no overhead that can be said (the client saw no tokens).
    """
    if not (baseline.tok_s > 0 and candidate.tok_s > 0):
        return ()
    weight = _logarithmic_mean(baseline.tok_s, candidate.tok_s)
    accepted = math.log(candidate.accept_length / baseline.accept_length)
    kept = math.log(_kept(candidate) / _kept(baseline))
    # The cycle's own parts are added, not multiplied: each has its share of the cycle's logarithm.
    per_ms = 1 / _logarithmic_mean(baseline.cycle_ms, candidate.cycle_ms)
    steps = [Step("accept length", math.nan, weight * accepted)]
    for name, ms in _phase_changes(baseline, candidate).items():
        steps.append(Step(name, ms, -weight * per_ms * ms))
    return (*steps, Step("overhead", math.nan, weight * kept))


def _phase_changes(baseline: Account, candidate: Account) -> dict[str, float]:
    """Milliseconds by phase; a phase that only one side has counts from zero, as it costs what it costs.

    Where a side knows no phases there is only the cycle as a whole.
    """
    if "cycle" in baseline.phases_ms or "cycle" in candidate.phases_ms:
        return {"cycle": candidate.cycle_ms - baseline.cycle_ms}
    names = [name for name in (*PHASES, "rest") if name in {*baseline.phases_ms, *candidate.phases_ms}]
    return {name: candidate.phases_ms.get(name, 0.0) - baseline.phases_ms.get(name, 0.0) for name in names}


def _kept(side: Account) -> float:
    return side.tok_s / side.ceiling_tok_s


def _logarithmic_mean(one: float, other: float) -> float:
    return one if math.isclose(one, other, rel_tol=1e-12) else (other - one) / math.log(other / one)


def main_cause(steps: Sequence[Step]) -> Step | None:
    """The step that moves the speed most in the direction of the whole; None without any."""
    whole = sum(step.tok_s for step in steps)
    return max(steps, key=lambda step: math.copysign(1, whole) * step.tok_s, default=None)


def break_even_accept_length(cycle_ms: float, plain_tok_s: float) -> float:
    """Tokens a cycle at which speculation is as fast as a stream without it, before any overhead."""
    return cycle_ms * plain_tok_s / 1000


def needed_accept_length(target_tok_s: float, cycle_ms: float, overhead: float = 0.0) -> float:
    """Tokens a cycle that a speed needs."""
    return target_tok_s * cycle_ms / 1000 / (1 - overhead)


def gain(accept_length: float, cycle_ms: float, plain_tok_s: float) -> float:
    """Speed against plain decoding, before any overhead, as a fraction: -0.19 is a loss of 19 %."""
    return accept_length / break_even_accept_length(cycle_ms, plain_tok_s) - 1


@dataclass(frozen=True)
class Position:
    """Acceptance at one draft position.

    Attributes:
        position: 1 is the first draft token.
        reached: cycles in which all drafts before it were accepted.
        accepted: cycles in which it was accepted as well.
        cycles: all cycles.
    """

    position: int
    reached: int
    accepted: int
    cycles: int

    @property
    def rate(self) -> float:
        """Accepted of those that were reached."""
        return self.accepted / self.reached if self.reached else math.nan

    @property
    def share(self) -> float:
        """Accepted of all cycles: what the position adds to the accept length."""
        return self.accepted / self.cycles if self.cycles else math.nan


def acceptance_by_position(tokens: Sequence[int] | Mapping[int, int]) -> tuple[Position, ...]:
    """Acceptance from the tokens of each cycle of each request, bonus included; values below 1 are left out.

    The shares of all positions and 1 (the bonus) add up to the accept length.

    Args:
        tokens: of each cycle; or tokens -> cycles that gave so many.
    """
    counts = tokens if isinstance(tokens, Mapping) else Counter(tokens)
    told = {value: many for value, many in counts.items() if value >= 1}
    whole = sum(told.values())

    def at_least(tokens: int) -> int:
        return sum(many for value, many in told.items() if value >= tokens)

    longest = max(told, default=1)
    return tuple(Position(k, at_least(k), at_least(k + 1), whole) for k in range(1, longest))


def collapses_from(
    baseline: Sequence[Position], candidate: Sequence[Position], drop: float = 0.1
) -> int | None:
    """The first position whose rate fell by more than `drop` (absolute); None if none did.

    A position that no cycle of the candidate accepts any more has fallen to nothing.
    """
    now = {one.position: one.rate for one in candidate}
    for before in baseline:
        rate = now.get(before.position, 0.0)
        if before.reached and before.rate - (rate if math.isfinite(rate) else 0.0) > drop:
            return before.position
    return None


@dataclass(frozen=True)
class Slope:
    """A line through values over context lengths: `at_zero` + `per_1k_tokens` x context / 1000."""

    at_zero: float
    per_1k_tokens: float

    def at(self, context_tokens: float) -> float:
        """The line's value there."""
        return self.at_zero + self.per_1k_tokens * context_tokens / 1000


def slope(context_tokens: Sequence[float], values: Sequence[float]) -> Slope | None:
    """Least squares; None for fewer than two different contexts with a value."""
    points = [(x / 1000, y) for x, y in zip(context_tokens, values, strict=True) if math.isfinite(y)]
    if len({x for x, _ in points}) < 2:
        return None
    x, y = np.array(points).T
    gradient = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
    return Slope(float(y.mean() - gradient * x.mean()), gradient)

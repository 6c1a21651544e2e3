"""What an engine's accept rate means. It changed; the accept length didn't.

SGLang prints accepted tokens with the bonus token over num_draft_tokens up to 0.5.10.post1, and correct draft
tokens over (num_draft_tokens - 1) from 0.5.11: one and the same run prints 0.54, then 0.39. Lines don't say
which release wrote them, but the accept length beside the rate does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WITH_BONUS = "accept length / draft tokens"
DRAFTS_ONLY = "(accept length - 1) / (draft tokens - 1)"
DIFFERS = "definition differs"

_HALF = 0.0051
"""Half of the last printed digit of a rate or a length, with room for the rounding of halves."""
_MOST_DRAFT_TOKENS = 256
_AGREE = 0.95


@dataclass(frozen=True)
class Definition:
    """What an accept rate was computed by.

    Attributes:
        formula: `WITH_BONUS` or `DRAFTS_ONLY`; None where the figures fit both or neither.
        draft_tokens: num_draft_tokens, as given or as the figures imply; None where they fit several.
    """

    formula: str | None
    draft_tokens: int | None


def infer(
    accept_len: Sequence[float] | npt.NDArray[np.float64],
    accept_rate: Sequence[float] | npt.NDArray[np.float64],
    num_draft_tokens: int | None = None,
) -> Definition:
    """The definition that windows were printed by.

    Args:
        accept_len: tokens a step, bonus included, of each window.
        accept_rate: the rate beside it, as a fraction.
        num_draft_tokens: where it is known; otherwise it is looked for too.

    Without `num_draft_tokens` a few windows often fit both definitions with different numbers of draft
    tokens; then nothing is said.
    """
    length, rate = np.asarray(accept_len, float), np.asarray(accept_rate, float)
    known = np.isfinite(length) & np.isfinite(rate)
    length, rate = length[known], rate[known]
    if not len(length):
        return Definition(None, num_draft_tokens)
    counts = [num_draft_tokens] if num_draft_tokens else range(2, _MOST_DRAFT_TOKENS + 1)
    fitting = [
        (formula, count)
        for count in counts
        for formula in (WITH_BONUS, DRAFTS_ONLY)
        if count > 1 and _fits(formula, count, length, rate)
    ]
    formulas = {formula for formula, _ in fitting}
    numbers = {count for _, count in fitting}
    return Definition(
        formulas.pop() if len(formulas) == 1 else None,
        num_draft_tokens or (numbers.pop() if len(numbers) == 1 else None),
    )


def _fits(formula: str, count: int, length: npt.NDArray[np.float64], rate: npt.NDArray[np.float64]) -> bool:
    below = count if formula == WITH_BONUS else count - 1
    expected = (length if formula == WITH_BONUS else length - 1) / below
    close = np.abs(expected - rate) <= _HALF + _HALF / below
    return bool(np.mean(close) >= _AGREE)


def rate(accept_len: float, num_draft_tokens: int, formula: str) -> float:
    """The accept rate of an accept length (bonus included) under a definition; NaN where it has none."""
    if formula == WITH_BONUS:
        return accept_len / num_draft_tokens
    return (accept_len - 1) / (num_draft_tokens - 1) if num_draft_tokens > 1 else math.nan


def comparison(one: Definition, other: Definition) -> str | None:
    """Why two accept rates may not be compared, as a sentence; None where they may, or nothing is known."""
    if one.formula is None or other.formula is None or one == other:
        return None
    if one.formula != other.formula:
        return (
            f"{DIFFERS}: accept rate is {one.formula} on one side and {other.formula} on the other; "
            "compare accept lengths"
        )
    if one.draft_tokens and other.draft_tokens and one.draft_tokens != other.draft_tokens:
        return (
            f"accept rates are over {one.draft_tokens} draft tokens on one side and over "
            f"{other.draft_tokens} on the other; compare accept lengths"
        )
    return None

"""Which differences of two stacks make one slower: group testing by Bayes' rule (pure).

Two stacks differ in some factors. A launch of a combination takes some of them from the bad stack and the
rest from the good one. `believe` weighs which set of factors acts, and only acts when all of it is there;
`next_combination` says what to launch next; `swaps` checks the answer in both directions.
"""

from benchharness.bisect.factors.belief import Belief, Shift, Tried, believe
from benchharness.bisect.factors.choice import Stop, next_combination, swaps
from benchharness.bisect.factors.differences import Differences, Factor, combined, differences
from benchharness.bisect.factors.hypotheses import Combination, Form, Hypothesis
from benchharness.bisect.factors.prior import Prior

__all__ = [
    "Belief",
    "Combination",
    "Differences",
    "Factor",
    "Form",
    "Hypothesis",
    "Prior",
    "Shift",
    "Stop",
    "Tried",
    "believe",
    "combined",
    "differences",
    "next_combination",
    "swaps",
]

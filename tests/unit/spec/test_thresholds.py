"""Thresholds files: every way to write a bound, and every way to get it wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchharness.errors import UsageError
from benchharness.records.bound import Bound, Limit, Undecided
from benchharness.spec import thresholds


def bounds(text: str, metric: str = "verify_ms") -> list[tuple[Limit, float]]:
    found = thresholds.parse(f"bounds:\n  {metric}: {text}").bounds
    return [(bound.limit, bound.value) for bound in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"<= 21"', [(Limit.AT_MOST, 21)]),
        ('"< 21 ms"', [(Limit.AT_MOST, 21)]),
        ('">=1.5e1"', [(Limit.AT_LEAST, 15)]),
        ("+3 %", [(Limit.CHANGE_AT_MOST, 0.03)]),
        ('"-2.5%"', [(Limit.CHANGE_AT_LEAST, -0.025)]),
        ("3 %", [(Limit.CHANGE_AT_MOST, 0.03)]),
        (
            "{min: 1, max: 2, change: +1 %}",
            [(Limit.AT_LEAST, 1), (Limit.AT_MOST, 2), (Limit.CHANGE_AT_MOST, 0.01)],
        ),
        ('["<= 21", +3 %]', [(Limit.AT_MOST, 21), (Limit.CHANGE_AT_MOST, 0.03)]),
    ],
)
def test_a_bound_can_be_written_in_several_ways(text: str, expected: list[tuple[Limit, float]]) -> None:
    assert bounds(text) == expected


def test_a_change_without_a_sign_is_one_for_the_worse() -> None:
    assert bounds("5 %", "output_tok_s") == [(Limit.CHANGE_AT_LEAST, -0.05)]
    assert bounds("5 %", "ttft_ms") == [(Limit.CHANGE_AT_MOST, 0.05)]


def test_cells_and_the_rest_of_the_file() -> None:
    text = """
undecided: warn
require: any
confidence: 0.9
bounds:
  ttft_ms: {max: 200, context_tokens: [128, 2048], stack: eagle3}
  itl_ms: {max: 9, undecided: fail}
"""
    found = thresholds.parse(text)
    assert found.bounds == (
        Bound("ttft_ms", Limit.AT_MOST, 200, "<= 200", ("eagle3",), (128, 2048), Undecided.WARN),
        Bound("itl_ms", Limit.AT_MOST, 9, "<= 9", (), (), Undecided.FAIL),
    )
    assert (found.require_valid, found.confidence) == (False, 0.9)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            'bounds:\n  verify_mz: "<= 1"',
            "thresholds:2: unknown metric 'verify_mz' (did you mean 'verify_ms'?)",
        ),
        ("bounds:\n  verify_ms: 21", "thresholds:2: verify_ms: '21' is no bound"),
        ("bounds:\n  verify_ms: <= x", "'<= x' is no bound"),
        ("bounds:\n  verify_ms: <= 1.2.3", "'1.2.3' is no number"),
        ("bounds:\n  verify_ms: <= 1 s", "verify_ms is measured in ms, not s"),
        ("bounds:\n  host_verify_ms: 3 %", "neither way is better"),
        ("bounds:\n  verify_ms: {change: <= 3}", "'<= 3' is no change"),
        ("bounds:\n  verify_ms: {maxx: 3}", "unknown key"),
        ("bounds:\n  verify_ms: {max: .nan}", "finite"),
        ("bounds:\n  verify_ms: {}", "nothing is bounded"),
        ("bounds:\n  verify_ms: []", "at least 1 item"),
        ("bounds: {}", "at least 1 item"),
        ("bound: {}", "unknown key 'bound' (did you mean 'bounds'?)"),
        ("undecided: perhaps\nbounds:\n  verify_ms: <= 1", "thresholds:1: undecided"),
        ("bounds:\n  verify_ms: >= 1", 'quote text that begins with > or |, as ">= 80"'),
        ("", "is empty"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        thresholds.parse(text)
    assert sentence in str(refused.value)


def test_a_missing_file_is_called_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no thresholds file"):
        thresholds.load(tmp_path / "none.yaml")


def test_the_exported_schema_is_up_to_date() -> None:
    exported = Path(__file__).parents[3] / "docs" / "thresholds.schema.json"
    assert json.loads(exported.read_text()) == thresholds.json_schema(), "run `make docs`"


def test_the_example_is_understood() -> None:
    found = thresholds.load(Path(__file__).parents[3] / "experiments" / "gates" / "quickstart.yaml")
    assert {bound.metric for bound in found.bounds} == {"accept_length", "cycle_ms", "cpu_ms_per_token"}


def test_the_schema_takes_every_form() -> None:
    bound = thresholds.json_schema()["properties"]["bounds"]["additionalProperties"]
    assert [form.get("type", "mapping") for form in bound["anyOf"]] == ["string", "mapping", "array"]

"""What CI services are told of each finding: JUnit's tags and GitHub's workflow commands."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from benchharness import gate
from benchharness.gate import Seen
from benchharness.report import gate_view
from benchharness.spec import thresholds

UNSURE, NOTHING = Seen(2, 1, 9, 3), Seen(math.nan, 0, 0, 0)


@pytest.mark.parametrize(
    ("head", "seen", "tag", "command"),
    [
        ("undecided: fail", UNSURE, "failure", "::error "),
        ("undecided: warn", UNSURE, "skipped", "::warning "),
        ("undecided: pass", UNSURE, "skipped", ""),
        ("require: valid", NOTHING, "error", "::error "),
        ("require: any", NOTHING, "skipped", "::warning "),
    ],
)
def test_a_finding_is_told_as_it_counts(head: str, seen: Seen, tag: str, command: str) -> None:
    demanded = thresholds.parse(f'{head}\nbounds: {{verify_ms: "<= 5"}}')
    values = {("a", 1, "verify_ms"): Seen(1, 1, 1, 3), ("b", 1, "verify_ms"): seen}
    found = gate.judge(demanded, [("a", 1), ("b", 1)], values, {})
    verdict = gate.verdict(found, demanded, valid=True)
    suite = ElementTree.fromstring(gate_view.junit("r", found, verdict, ()))  # noqa: S314 - our own
    assert [[part.tag for part in case] for case in suite] == [[], [tag]]
    counted = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    assert [suite.get(name) for name in counted.values()] == [str(int(one == tag)) for one in counted]
    told = gate_view.workflow_commands(found, verdict, ())
    assert [line[: len(command)] for line in told] == ([command] if command else [])

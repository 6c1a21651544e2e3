"""What a gate found, for people, programs and CI services."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape

from benchharness.gate import EXIT_STATUS, GateFinding, Outcome, Seen
from benchharness.metrics import METRICS
from benchharness.records.bound import Undecided
from benchharness.report.console import number, percent, table

_STYLES = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "red",
    Outcome.UNDECIDED: "yellow",
    Outcome.INVALID: "red",
}


def show(console: Console, findings: Sequence[GateFinding], verdict: Outcome, reasons: Sequence[str]) -> None:
    """Print a line a bound and cell, then the verdict."""
    for reason in reasons:
        console.print(f"[red]invalid[/red] {escape(reason)}")
    lines = table("")
    for heading in ("context", "stack", "metric", "bound", "seen", "interval", "n", "outcome"):
        lines.add_column(heading, justify="left" if heading in ("stack", "metric", "outcome") else "right")
    for one in findings:
        seen, spread = _figures(one)
        style = _STYLES[one.outcome]
        lines.add_row(
            str(one.context_tokens),
            escape(one.stack),
            one.bound.metric,
            escape(one.bound.text),
            seen,
            spread,
            str(one.seen.launches if one.seen else 0),
            f"[{style}]{one.outcome}[/{style}]",
        )
    console.print(lines)
    for reason in dict.fromkeys(one.reason for one in findings if one.reason):
        console.print(f"{sum(one.reason == reason for one in findings)} x {escape(reason)}")
    ends = "is" if verdict in (Outcome.UNDECIDED, Outcome.INVALID) else "has"
    console.print(f"The gate {ends} [{_STYLES[verdict]}]{verdict}[/{_STYLES[verdict]}].")


def _figures(one: GateFinding) -> tuple[str, str]:
    if one.seen is None:
        return "-", "-"
    if one.bound.limit.relative:
        return percent(one.seen.value), f"{percent(one.seen.low)} .. {percent(one.seen.high)}"
    decimals = METRICS[one.bound.metric].decimals
    return number(one.seen.value, decimals), " .. ".join(_end(end, decimals) for end in _ends(one.seen))


def _ends(seen: Seen) -> tuple[float, float]:
    return seen.low, seen.high


def _end(value: float, decimals: int) -> str:
    return number(value, decimals) if math.isfinite(value) else "open"


def sentence(one: GateFinding) -> str:
    """One bound at one cell in one line."""
    unit = "" if one.bound.limit.relative else f" {METRICS[one.bound.metric].unit}"
    seen, spread = _figures(one)
    why = f": {one.reason}" if one.reason else ""
    return (
        f"{one.bound.metric} of {one.stack} at context {one.context_tokens} is {seen}{unit} ({spread}), "
        f"bound {one.bound.text}: {one.outcome}{why}"
    )


def document(
    run: str, findings: Sequence[GateFinding], verdict: Outcome, reasons: Sequence[str]
) -> dict[str, Any]:
    """The same for programs; values are null where nothing was measured."""
    return {
        "run": run,
        "verdict": str(verdict),
        "exit_status": EXIT_STATUS[verdict],
        "invalid": list(reasons),
        "findings": [
            {
                "stack": one.stack,
                "context_tokens": one.context_tokens,
                "metric": one.bound.metric,
                "bound": one.bound.text,
                "relative": one.bound.limit.relative,
                "outcome": str(one.outcome),
                "value": one.seen.value if one.seen else None,
                "low": one.seen.low if one.seen else None,
                "high": one.seen.high if one.seen else None,
                "launches": one.seen.launches if one.seen else 0,
                "reason": one.reason,
            }
            for one in findings
        ],
    }


def junit(run: str, findings: Sequence[GateFinding], verdict: Outcome, reasons: Sequence[str]) -> str:
    """JUnit XML: a test case a bound and cell; what doesn't count against the gate is skipped."""
    tags = [_tag(one, verdict) for one in findings]
    suite = ElementTree.Element(
        "testsuite",
        name=f"benchharness gate {run}",
        tests=str(len(findings) + len(reasons)),
        failures=str(tags.count("failure")),
        errors=str(tags.count("error") + len(reasons)),
        skipped=str(tags.count("skipped")),
    )
    for reason in reasons:
        case = ElementTree.SubElement(suite, "testcase", classname="validity", name=reason)
        ElementTree.SubElement(case, "error", message=reason)
    for one, tag in zip(findings, tags, strict=True):
        name = f"{one.bound.metric} {one.bound.text} at context {one.context_tokens}"
        case = ElementTree.SubElement(suite, "testcase", classname=one.stack, name=name)
        if tag:
            ElementTree.SubElement(case, tag, message=sentence(one))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _tag(one: GateFinding, verdict: Outcome) -> str:
    if one.fails:
        return "failure"
    if one.outcome == Outcome.PASSED:
        return ""
    # A file that asks for any run leaves out cells without a valid figure.
    return "error" if one.outcome == verdict == Outcome.INVALID else "skipped"


def summary(run: str, findings: Sequence[GateFinding], verdict: Outcome, reasons: Sequence[str]) -> str:
    """Markdown for a step summary or a comment."""
    lines = [f"## benchharness gate: {verdict}", "", f"Run `{run}`", ""]
    lines += [f"- invalid: {reason}" for reason in reasons]
    lines += ["| context | stack | metric | bound | seen | interval | launches | outcome |"]
    lines += ["|---:|---|---|---|---:|---:|---:|---|"]
    for one in findings:
        seen, spread = _figures(one)
        launches = one.seen.launches if one.seen else 0
        mark = "" if one.outcome == Outcome.PASSED else "**"
        cells = (
            *(one.context_tokens, _cell(one.stack), f"`{one.bound.metric}`", _cell(one.bound.text)),
            *(seen, spread, launches, f"{mark}{one.outcome}{mark}"),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    notes = dict.fromkeys(one.reason for one in findings if one.reason)
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")


def workflow_commands(findings: Sequence[GateFinding], verdict: Outcome, reasons: Sequence[str]) -> list[str]:
    """GitHub's workflow commands, one a finding that is not passed, unless its bound wants it untold."""
    told = [f"::error title=benchharness gate::{_escaped(reason)}" for reason in reasons]
    return told + [
        f"::{kind} title=benchharness gate::{_escaped(sentence(one))}"
        for one in findings
        if (kind := _kind(one, verdict))
    ]


def _kind(one: GateFinding, verdict: Outcome) -> str:
    tag = _tag(one, verdict)
    untold = one.outcome == Outcome.UNDECIDED and one.bound.undecided == Undecided.PASS
    return {"failure": "error", "error": "error", "skipped": "" if untold else "warning"}.get(tag, "")


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

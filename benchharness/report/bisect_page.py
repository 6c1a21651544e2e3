"""What a campaign found, as a page to paste into somebody's issue tracker (Markdown)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from benchharness.bisect.session.effects import Effect
from benchharness.bisect.session.standing import Standing
from benchharness.bisect.session.verdict import Verdict
from benchharness.metrics import METRICS, Direction
from benchharness.report.bisect_culprits import sure
from benchharness.report.bisect_view import facts, headline
from benchharness.report.console import number, percent


def page(standing: Standing, found: Verdict, commands: Sequence[Sequence[str]]) -> str:
    """The page.

    Args:
        campaign: what was asked and tried.
        found: the answer.
        commands: argument lists that reproduce it.
    """
    stored = standing.stored
    synthetic = "\n> Measured on a stand-in engine: synthetic.\n" if stored.run.synthetic else ""
    parts = [
        f"# {_title(found)}\n{synthetic}",
        _plain_headline(found) + ".",
        "\n".join(f"- {line}" for line in facts(found)),
        _apart("What sets the two apart, as declared", found.declared),
        _apart("What really ran differently", found.effective),
        _culprits(found),
        _effects(found.effects),
        _eliminated(found),
        _machine(stored.run.machine, stored.run.harness_version),
        _reproduce(commands),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _title(found: Verdict) -> str:
    if found.culprit is None:
        return f"{found.metric}: no single culprit"
    row = METRICS.get(found.metric)
    neither = row is not None and row.direction == Direction.NEITHER
    way = "changed" if neither else "better" if found.better else "worse"
    return f"{found.metric} {way} by {percent(found.change)} since {found.culprit}"


def _plain_headline(found: Verdict) -> str:
    from rich.text import Text

    return Text.from_markup(headline(found)).plain


def _apart(title: str, rows: Mapping[str, tuple[str, ...]]) -> str:
    if not rows:
        return ""
    lines = [f"## {title}", "", "| | last good | first bad |", "|---|---|---|"]
    lines += [f"| `{name}` | {_cell(here)} | {_cell(there)} |" for name, (here, there) in rows.items()]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def _culprits(found: Verdict) -> str:
    """All of them in a table, where there are several."""
    if len(found.culprits) < 2:
        return ""
    lines = [
        "## All that was found",
        "",
        "| culprit | last good | change | interval | phase | of the whole | interval | confidence |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in found.culprits:
        of_whole = ("-", "-")
        if one.share is not None:
            of_whole = f"{one.share.mean:.0%}", f"{one.share.low:.0%} .. {one.share.high:.0%}"
        lines.append(
            f"| {_cell(one.name or one.range_[1])} | {_cell(one.range_[0])} | {percent(one.change)} "
            f"| {percent(one.low)} .. {percent(one.high)} | {one.phase or '-'} "
            f"| {of_whole[0]} | {of_whole[1]} | {sure(one.confidence)} |"
        )
    return "\n".join(lines)


def _effects(effects: Sequence[Effect]) -> str:
    if not effects:
        return ""
    lines = [
        "## Last good against first bad",
        "",
        "| context | metric | last good | first bad | change | interval | launches | sure |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in effects:
        decimals = METRICS[one.metric].decimals
        lines.append(
            f"| {one.context_tokens} | {one.metric} | {number(one.before, decimals)} {one.unit} "
            f"| {number(one.after, decimals)} {one.unit} | {percent(one.change)} "
            f"| {percent(one.low)} .. {percent(one.high)} | {one.launches} | {'yes' if one.sure else 'no'} |"
        )
    return "\n".join(lines)


def _eliminated(found: Verdict) -> str:
    lines = [f"- {one.what}: {one.evidence}" for one in found.eliminated]
    lines += [f"- {label} was not measured: {why}" for label, why in found.unusable.items()]
    return "## What it was not\n\n" + "\n".join(lines) if lines else ""


def _machine(machine: object, version: str) -> str:
    if not isinstance(machine, dict):
        return ""
    gpus = [str(gpu.get("name")) for gpu in machine.get("gpus", [])]
    told = [f"- {name}: {value}" for name, value in machine.items() if name in ("cpu", "cpus", "system")]
    told += [f"- GPUs: {', '.join(gpus)}"] if gpus else []
    return "\n".join(["## Measured with", "", f"- benchharness {version}", *told])


def _reproduce(commands: Sequence[Sequence[str]]) -> str:
    lines = "\n".join(shlex.join(command) for command in commands)
    return f"## To reproduce\n\n```\n{lines}\n```"


def commands(standing: Standing, found: Verdict) -> list[list[str]]:
    """Argument lists that ask the same again, and that compare the two."""
    question = standing.state.question
    ask = [*found.asked, *(["--every"] if question.every else [])]
    run = standing.stored.run.id
    good, bad = found.stacks
    compare = ["benchharness", "compare", f"{run}:{good}", f"{run}:{bad}"]
    return [ask, compare + (["--metric", question.metric] if question.metric in METRICS else [])]

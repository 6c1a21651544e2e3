"""What a log says, for people."""

from __future__ import annotations

import math

from rich.console import Console
from rich.markup import escape

from benchharness.records.logline import LogLine
from benchharness.report.console import number, sentence, table
from benchharness.timings.logs.definition import DRAFTS_ONLY, WITH_BONUS
from benchharness.timings.logs.summary import Group, Summary

_SHOWN = {
    "version": "version",
    "speculative_algorithm": "speculation",
    "method": "speculation",
    "speculative_num_steps": "draft steps",
    "speculative_num_draft_tokens": "draft tokens",
    "num_spec_tokens": "draft tokens",
    "speculative_attention_mode": "verify attention",
    "attention_backend": "attention",
    "disable_cuda_graph": "CUDA graphs disabled",
    "enforce_eager": "eager enforced",
    "decode_log_interval": "steps a window",
    "tp_size": "tp",
    "tensor_parallel_size": "tp",
    "dp_size": "dp",
    "max_running_requests": "max running",
    "max_total_num_tokens": "pool tokens",
    "context_len": "context",
}
_FEW_KEPT = 0.5
_MOST_SIZES = 12


def show(console: Console, name: str, made: Summary) -> None:
    """Print the summary of a log."""
    engine = made.engine or "nothing that is known"
    sentence(console, f"{escape(name)}: {engine}; {made.lines:,} lines, {_bytes(made.size)}")
    _broken(console, made)
    _startup(console, made)
    if made.groups:
        _groups(
            console,
            sorted(made.groups.values(), key=lambda group: (group.engine, group.what, _order(group.rank))),
        )
    for one in made.tables:
        _table(console, one)
    _caveats(console, made)


def _broken(console: Console, made: Summary) -> None:
    if made.damaged:
        sentence(console, f"[yellow]{made.damaged:,} damaged lines were left out; --strict shows them[/]")
    if made.truncated:
        sentence(
            console, "[yellow]the compressed file is truncated or damaged: this is what could be read[/]"
        )
    if made.unfinished:
        sentence(console, "the last line has no end: the log may be still being written")


def _startup(console: Console, made: Summary) -> None:
    facts = [
        f"{label} {escape(made.startup.facts[key])}"
        for key, label in _SHOWN.items()
        if made.startup.facts.get(key, "0") not in ("None", "", "0")
    ]
    sizes = made.startup.graph_sizes
    if sizes:
        listed = ", ".join(map(str, sizes[:_MOST_SIZES])) + (" ..." if len(sizes) > _MOST_SIZES else "")
        facts.append(f"graphs for batches {listed}")
    versions = sorted(set(made.startup.nccl.values()))
    if versions:
        facts.append(f"NCCL {', '.join(versions)}")
    facts += [
        f"{variable}={'|'.join(sorted(set(values.values())))}"
        for variable, values in made.startup.variables.items()
    ]
    if facts:
        sentence(console, f"start-up says: {escape('; '.join(facts))}")
    for hazard in made.startup.hazards():
        sentence(console, f"[yellow]hazard:[/] {escape(hazard)}")


def _groups(console: Console, groups: list[Group]) -> None:
    shown = table("")
    for column in ("engine", "rank", "of"):
        shown.add_column(column)
    for column in ("count", "kept", "tok/s median", "of all", "step ms", "accept length", "graphs"):
        shown.add_column(column, justify="right")
    shown.add_column("left out")
    for group in groups:
        shown.add_row(
            group.engine,
            escape(group.rank) or "-",
            escape(group.what),
            f"{group.count:,}",
            f"{group.kept:,}",
            number(group.tok_s.median, 2),
            number(group.all_tok_s.median, 2),
            number(group.step_ms.median, 2),
            number(group.accept_len.mean, 2),
            _graphs(group),
            ", ".join(f"{count:,} {escape(reason)}" for reason, count in group.reasons.most_common() if count)
            or "-",
        )
    console.print(shown)


def _graphs(group: Group) -> str:
    on, off = group.graphs["graph"], group.graphs["eager"]
    if not on + off:
        return "untold" if group.graphs["untold"] else "-"
    return f"{on / (on + off):.1%}"


def _table(console: Console, row: LogLine) -> None:
    sentence(console, f"benchmark table at line {row.number}")
    shown = table("")
    shown.add_column("figure")
    shown.add_column("value", justify="right")
    for key, value in row.fields.items():
        if isinstance(value, str):
            shown.add_row(escape(key), escape(value))
    console.print(shown)
    doubts = row.fields.get("doubts")
    for doubt in doubts if isinstance(doubts, tuple) else ():
        sentence(console, f"[yellow]doubtful:[/] {escape(doubt)}")


def _caveats(console: Console, made: Summary) -> None:
    """What the figures must not be taken for."""
    eager = sum(group.graphs["eager"] for group in made.groups.values())
    told = eager + sum(group.graphs["graph"] for group in made.groups.values())
    if eager and eager < told:
        sentence(console, f"{eager:,} of {told:,} windows ran without a graph ({eager / told:.1%})")
    few = [group for group in made.groups.values() if group.count and group.kept < _FEW_KEPT * group.count]
    if few:
        sentence(
            console,
            "most windows of "
            + escape(", ".join(group.rank or group.engine for group in few[:8]))
            + " were left out: the log's tok/s is no decode speed there; use the probe or the client",
        )
    rate = made.accept_rate()
    if rate.formula in (WITH_BONUS, DRAFTS_ONLY):
        of = f", {rate.draft_tokens} draft tokens" if rate.draft_tokens else ""
        sentence(
            console,
            f"accept rate here is {escape(rate.formula)}{of}; other releases print another: compare lengths",
        )
    dps = [group for group in made.groups.values() if group.rank.startswith("DP") and group.tok_s.count]
    if len(dps) > 1:
        total = math.fsum(group.tok_s.median for group in dps)
        sentence(console, f"sum of the medians over {len(dps)} DP ranks: {total:,.2f} tok/s")


def _order(rank: str) -> tuple[str, int]:
    digits = "".join(filter(str.isdigit, rank.partition(" ")[0]))
    return rank.rstrip("0123456789 ")[:2], int(digits) if digits else -1


def _bytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} bytes"

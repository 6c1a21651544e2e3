"""Tables of docs/nccl.md: each function reads stored figures and returns Markdown (see nccl_page.py)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from benchharness.records import Stack
from benchharness.report import effects_view, rank_view
from benchharness.report.console import percent
from benchharness.report.effects_view import STEP, UNSET, Effects
from benchharness.store import StoredRun

GRAPHS, SPECULATION, OWN = "disable-cuda-graph", "speculative-algorithm", "disable-custom-all-reduce"
PROTO, ALGO, OFF, LEVEL = "NCCL_PROTO", "NCCL_ALGO", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"
ALL_REDUCES = 65
"""A step of the 8B Llama: two a layer, 32 layers, one behind the embedding."""

Known = dict[str, dict[str, str]]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], text: Sequence[int] = (0,)) -> str:
    """A table in Markdown; the columns in `text` are words, the others figures."""
    rules = ["---" if place in text else "---:" for place in range(len(headings))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, rules, *rows)) + "\n"


def figure(value: float | None, decimals: int) -> str:
    """A figure, or nothing where none is known."""
    return "" if value is None or not math.isfinite(value) else f"{value:.{decimals}f}"


def setting(known: Known, stack: str) -> list[str]:
    """A cell's levels in words: graphs, speculation, kernel, protocol, algorithm, peer access."""

    def level(factor: str) -> str:
        return known.get(factor, {}).get(stack, UNSET)

    peer = "off (DISABLE=1)" if level(OFF) == "1" else "on"
    return [
        "no" if level(GRAPHS) == "true" else "yes",
        "none" if level(SPECULATION) == UNSET else level(SPECULATION),
        "SGLang's" if level(OWN) == UNSET else "NCCL",
        level(PROTO),
        "Tree" if level(ALGO).endswith("tree") else level(ALGO),
        "off (LEVEL=LOC)" if level(LEVEL) == "LOC" else peer,
    ]


def value(means: pd.DataFrame, stack: str, context: int, metric: str) -> float:
    """A cell's mean; NaN where it was not measured."""
    rows = means[(means["stack"] == stack) & (means["context_tokens"] == context)]
    return math.nan if rows.empty else float(rows[metric].mean())


def step(means: pd.DataFrame, stack: str, context: int) -> float:
    """The target's pass in ms: verify where the cell speculates, else the whole cycle."""
    verify = value(means, stack, context, "verify_ms")
    return verify if math.isfinite(verify) else value(means, stack, context, "cycle_ms")


def contexts(matrix: StoredRun) -> list[int]:
    """Contexts of the plan, shortest first."""
    return sorted({workload.context_tokens for workload in matrix.run.plan.workloads})


def ordered(matrix: StoredRun, known: Known) -> list[Stack]:
    """With graphs first, and the faster of two kernels' cells last in each group."""
    return sorted(
        matrix.run.plan.stacks,
        key=lambda stack: (known[GRAPHS][stack.name] == "true", *setting(known, stack.name)[1:]),
    )


def cells(matrix: StoredRun, means: pd.DataFrame, context: int, machines: Mapping[str, str]) -> str:
    """A row a cell, at one context."""
    known = effects_view.factors(matrix.run.plan.stacks)
    spreads = {one.stack: one for one in rank_view.times(matrix) if one.context_tokens == context}
    statuses = {launch.stack: str(launch.status) for launch in matrix.launches}
    rows = []
    for name in (stack.name for stack in ordered(matrix, known)):
        start = [*setting(known, name), machines.get(name, "")]
        if not math.isfinite(value(means, name, context, "cycle_ms")):
            rows.append([*start, statuses.get(name, "not run"), "", "", "", ""])
            continue
        one = spreads.get(name)
        rows.append(
            [
                *start,
                figure(value(means, name, context, "cycle_ms"), 2),
                figure(value(means, name, context, "verify_ms"), 2),
                figure(value(means, name, context, "ttft_ms"), 0),
                figure(value(means, name, context, "output_tok_s"), 1),
                figure(one.spread_ms if one else None, 3),
            ]
        )
    headings = ["graphs", "speculation", "kernel", "PROTO", "ALGO", "peer access", "machine"]
    return table([*headings, "cycle ms", "verify ms", "TTFT ms", "tok/s", "ranks apart ms"], rows, range(7))


@dataclass(frozen=True)
class Pass:
    """One pass of the target with graphs, in ms.

    Attributes:
        cell, kind: `plain step` or `verify`.
        ms: what it takes; `more`: than in the hunt's settings.
        bare: what its all-reduces take by themselves, NaN of SGLang's own; `bare_more`: as `more`.
    """

    cell: str
    kind: str
    ms: float
    more: float
    bare: float
    bare_more: float


def passes(matrix: StoredRun, means: pd.DataFrame, alone: Mapping[str, Any], context: int) -> list[Pass]:
    """Plain steps, then verifies, of the measured cells with graphs; the hunt's settings first."""
    known = effects_view.factors(matrix.run.plan.stacks)
    made = []
    for (base, names), tokens in zip(with_graphs(matrix, known), ("1", "3"), strict=True):
        first, zero = step(means, base, context), bare_ms(alone, setting(known, base), tokens)
        kind = "plain step" if tokens == "1" else "verify"
        for name in (base, *names):
            now, bare = step(means, name, context), bare_ms(alone, setting(known, name), tokens)
            if math.isfinite(now):
                made.append(Pass(name, kind, now, now - first, bare, bare - zero))
    return made


def bare_ms(alone: Mapping[str, Any], levels: Sequence[str], tokens: str) -> float:
    """All-reduces of a pass without an engine; NaN where NCCL doesn't do them."""
    _, _, kernel, protocol, algorithm, peer = levels
    if kernel != "NCCL":
        return math.nan
    us = alone[f"{protocol}-{algorithm}-{'p2p' if peer == 'on' else 'shm'}"]["us"]
    return float(us[tokens]) * ALL_REDUCES / 1000


def against_bare(found: Sequence[Pass]) -> str:
    """What a pass takes more than in the hunt's settings, and what its all-reduces alone take more."""
    rows = []
    for one in found:
        first = one.more == 0
        own = not math.isfinite(one.bare)
        gains = ["" if first else f"{one.more:+.2f}", "" if first or own else f"{one.bare_more:+.2f}"]
        rows.append(
            [one.cell, one.kind, figure(one.ms, 2), *gains, figure(one.bare, 2), figure(one.ms - one.bare, 2)]
        )
    headings = ["cell", "pass", "ms", "more than the first", f"{ALL_REDUCES} all-reduces alone: more"]
    return table([*headings, "their ms", "the rest ms"], rows, (0, 1))


def rests(found: Sequence[Pass], kind: str) -> str:
    """Least and most of what passes of a kind take beside their all-reduces."""
    values = [one.ms - one.bare for one in found if one.kind == kind and math.isfinite(one.bare)]
    return f"{min(values):.2f} to {max(values):.2f} ms"


def repeats(matrix: StoredRun, graphs: bool) -> list[float]:
    """How far the requests of one launch lie apart: most less least mean step over the mean, sorted."""
    known = effects_view.factors(matrix.run.plan.stacks)
    found = (
        matrix.connect()
        .execute(
            "WITH means AS (SELECT stack, context_tokens, request, avg(coalesce(verify_ms, total_ms)) AS ms"
            " FROM cycles WHERE counted AND coalesce(mark, '') = '' AND rank = 0 GROUP BY ALL)"
            " SELECT stack, (max(ms) - min(ms)) / avg(ms) FROM means GROUP BY stack, context_tokens"
        )
        .fetchall()
    )
    return sorted(float(share) for stack, share in found if (known[GRAPHS][stack] == UNSET) is graphs)


def with_graphs(matrix: StoredRun, known: Known) -> list[tuple[str, list[str]]]:
    """Without speculation and with it: the file's first such cell with graphs, and all others."""
    names = [stack.name for stack in matrix.run.plan.stacks if known[GRAPHS][stack.name] == UNSET]
    plain = [name for name in names if known[SPECULATION][name] == UNSET]
    other = [name for name in names if known[SPECULATION][name] != UNSET]
    return [(first, rest) for first, *rest in (plain, other)]


def pairs(matrix: StoredRun) -> list[tuple[str, str]]:
    """Cells that differ in speculation alone: without, with."""
    known = effects_view.factors(matrix.run.plan.stacks)
    others = [factor for factor in known if factor != SPECULATION]
    by_rest: dict[tuple[str, ...], dict[str, str]] = {}
    for stack in matrix.run.plan.stacks:
        rest = tuple(known[factor][stack.name] for factor in others)
        by_rest.setdefault(rest, {})[known[SPECULATION][stack.name]] = stack.name
    return [
        (names.pop(UNSET), next(iter(names.values())))
        for names in by_rest.values()
        if len(names) == 2 and UNSET in names
    ]


def against_decode(matrix: StoredRun, means: pd.DataFrame) -> str:
    """Verify over the plain step, where two cells differ in speculation alone."""
    rows = []
    for plain, other in pairs(matrix):
        for context in contexts(matrix):
            one, two = step(means, plain, context), step(means, other, context)
            if math.isfinite(one) and math.isfinite(two):
                rows.append([other, str(context), figure(one, 2), figure(two, 2), figure(two / one, 2)])
    return table(["cell", "context", "plain step ms", "verify ms", "ratio"], rows)


def effects(found: Sequence[Effects]) -> str:
    """Effects on the step at every context beside each other."""
    of_step = [one for one in found if one.metric == STEP]
    rows = []
    for together in zip(*(one.fit.effects for one in of_step), strict=True):
        first, fit = together[0], of_step[0].fit
        row = [effects_view.short_name(first.name, fit) if len(first.term) > 1 else first.name]
        for effect in together:
            change, low, high = effects_view.changes(effect)
            clear = "**" if low > 0 or high < 0 else ""
            row += [f"{clear}{percent(change)}{clear}", f"{percent(low)} .. {percent(high)}"]
        holds = [
            f"{share:+.2f} {effects_view.short_name(name, fit)}"
            for name, share in list(first.aliases.items())[:2]
        ]
        rows.append([*row, "; ".join(holds)])
    headings = ["effect"]
    for one in of_step:
        headings += [f"at {one.context_tokens}", "95 % interval"]
    return table([*headings, "also holds (largest two)"], rows, (0, len(headings)))


def leftovers(found: Sequence[Effects]) -> str:
    """What the intervals stand on."""
    of_step = [one for one in found if one.metric == STEP]
    rest = " and ".join(f"{math.expm1(one.fit.residual):.1%} at {one.context_tokens}" for one in of_step)
    first = of_step[0]
    return (
        f"{first.launches} launches of {first.cells} cells, {first.fit.freedom} more than coefficients; what"
        f" they leave over is {rest} a launch"
    )


def by_itself(alone: Mapping[str, Any]) -> str:
    """The all-reduce without an engine."""
    rows = []
    for name, one in alone.items():
        us = one.get("us", {})
        chosen = dict.fromkeys(v for k, v in one["chosen"].items() if k.startswith("AllReduce"))
        state = "refused" if one.get("refused") else "failed" if not us else ", ".join(chosen)
        micros = [figure(us.get(tokens), 1) for tokens in ("1", "3", "512")]
        whole = figure(us["1"] * ALL_REDUCES / 1000, 2) if us else ""
        rows.append([name, ", ".join(one["via"]), state, *micros, whole])
    headings = ["setting", "via", "chosen", "1 token us", "3 tokens us", "512 tokens us", "ms a plain step"]
    return table(headings, rows, range(3))


def ranks(matrix: StoredRun) -> str:
    """Each rank's cycles at every context."""
    rows = []
    for one in rank_view.times(matrix):
        both = [
            " / ".join(figure(v, 3) for _, v in sorted(values.items()) if math.isfinite(v))
            for values in (one.cycle_ms, one.verify_ms)
        ]
        share = one.spread_ms / min(one.cycle_ms.values())
        rows.append(
            [
                one.stack,
                str(one.context_tokens),
                *both,
                f"{figure(one.spread_ms, 3)} ({share:.1%})",
                str(one.slowest),
                figure(one.apart_ms, 3),
            ]
        )
    headings = ["cell", "context", "cycle ms, ranks 0 / 1", "verify ms", "spread ms", "slower rank", "apart"]
    return table(headings, rows)

"""Where the time went, for people and programs: each stack's account, and the way from one to another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape

from benchharness import attribution
from benchharness.attribution import Account
from benchharness.metrics import METRICS
from benchharness.report.console import number, percent, table
from benchharness.stats.positions import by_position
from benchharness.step_floor import floor_ms
from benchharness.store import StoredRun

LAUNCH_BOUND = 2.0
"""Step over floor from which on, without graphs, the host's launching is taken for what bounds it."""

PLAIN_ACCEPT_LENGTH = 1.05
"""Accept length up to which a stack counts as plain decoding: a chunk now and then carries two tokens."""


def accounts(means: pd.DataFrame) -> dict[tuple[str, int], Account]:
    """The account of each stack and context that has one; rows of `stats.launch_means`."""
    found: dict[tuple[str, int], Account] = {}
    names = [name for name in METRICS if name in means]
    for key, rows in means.groupby(["stack", "context_tokens"], sort=False):
        stack, context = key
        made = attribution.account({name: float(rows[name].mean()) for name in names})
        if made is not None:
            found[str(stack), int(str(context))] = made
    return found


def show(console: Console, stored: StoredRun, means: pd.DataFrame, target_tok_s: float | None = None) -> None:
    """Print a line a stack and context: parts of the cycle, what they allow, and what is lost beside them.

    Args:
        console: where to.
        stored: the run.
        means: its launch values.
        target_tok_s: a stream's speed; what accept length it needs gets a column.
    """
    found = accounts(means)
    if not found:
        return
    floors = _floors(stored, means)
    speculates = any(_plain(found, context) not in (None, one) for (_, context), one in found.items())
    phases = [phase for phase in (*attribution.PHASES, "rest") if _known(found.values(), phase)]
    lines = table(
        "Where the time goes: ms a cycle, and a stream's tok/s that cycles allow and the client saw"
    )
    lines.add_column("context", justify="right", no_wrap=True)
    lines.add_column("stack", overflow="fold", min_width=8)
    headings = ["cycle", *(phase.removeprefix("draft-") for phase in phases), "allows", "seen", "lost"]
    headings += ["floor"] if floors else []
    verifies = speculates and any("verify" in one.phases_ms for one in found.values())
    headings += ["verify/step"] if verifies else []
    headings += ["pays from"] if speculates else []
    headings += [f"for {target_tok_s:g}"] if target_tok_s is not None else []
    for heading in headings:
        lines.add_column(heading, justify="right", no_wrap=True)
    for context in sorted({context for _, context in found}):
        for stack in (stack.name for stack in stored.run.plan.stacks):
            one = found.get((stack, context))
            if one is not None:
                floor = [number(floors.get((stack, context)), 2)] if floors else []
                told = _speculation(one, _plain(found, context))[not verifies :] if speculates else ()
                needed = _needed(one, target_tok_s)
                lines.add_row(*_row(stack, context, one, phases), *floor, *told, *needed)
        lines.add_section()
    console.print(lines)
    if verifies:
        wall = f"{attribution.WALL:g}"
        console.print(f"verify/step: verify over the run's own plain step; * from {wall} on, the wall.")
    _show_launch_bound(console, stored, found, floors)


def _show_launch_bound(
    console: Console,
    stored: StoredRun,
    found: dict[tuple[str, int], Account],
    floors: dict[tuple[str, int], float],
) -> None:
    graphs = _graphs(stored.connect())
    for (stack, context), one in found.items():
        said = launch_bound(one, floors.get((stack, context)), graphs.get((stack, context)))
        if said:
            console.print(f"{escape(stack)} at context {context}: {said}", soft_wrap=True)


def launch_bound(one: Account, floor: float | None, graph_share: float | None) -> str:
    """Says that a step waits for the host: far above its floor, and no graph replayed; else empty."""
    step = one.phases_ms.get("verify", one.cycle_ms)
    if floor is None or graph_share != 0 or step < LAUNCH_BOUND * floor:
        return ""
    what = "verify" if "verify" in one.phases_ms else "a step"
    return (
        f"{what} takes {step:.1f} ms, {step / floor:.1f} times what reading its bytes takes "
        f"({floor:.2f} ms), and no cycle replayed a graph: launch-bound"
    )


def _known(found: Any, phase: str) -> bool:
    several = any(len(one.phases_ms) > 1 for one in found)
    return several and any(phase in one.phases_ms for one in found)


def _row(stack: str, context: int, one: Account, phases: Sequence[str]) -> list[str]:
    parts = [number(one.phases_ms.get(phase), 3) for phase in phases]
    return [
        str(context),
        escape(stack),
        number(one.cycle_ms, 3),
        *parts,
        number(one.ceiling_tok_s, 1),
        number(one.tok_s, 1),
        percent(one.overhead),
    ]


def _floors(stored: StoredRun, means: pd.DataFrame) -> dict[tuple[str, int], float]:
    """The least time of one step of the target model in ms, where bytes and bandwidth are known."""
    output = {w.context_tokens: w.output_tokens for w in stored.run.plan.workloads}
    found: dict[tuple[str, int], float] = {}
    for launch in stored.launches:
        told = launch.attestation.settings
        if "copy_bytes_per_s" not in told:
            continue
        for context in {int(value) for value in means["context_tokens"]}:
            tokens = context + output.get(context, 0) / 2
            found[launch.stack, context] = floor_ms(
                told["step_weight_bytes"],
                told["step_kv_bytes_per_token"],
                tokens,
                told["copy_bytes_per_s"],
                told["ranks"],
            )
    return found


def _plain(found: dict[tuple[str, int], Account], context: int) -> Account | None:
    """The run's own plain decoding at that context, to hold speculation against."""
    plain = [one for (_, at), one in found.items() if at == context and _is_plain(one)]
    return plain[0] if len(plain) == 1 else None


def _is_plain(one: Account) -> bool:
    drafts = one.phases_ms.get("draft", 0.0)
    return one.accept_length <= PLAIN_ACCEPT_LENGTH and not drafts > 0


def _needed(one: Account, target_tok_s: float | None) -> list[str]:
    """The accept length that a speed needs, at this cycle time and overhead."""
    if target_tok_s is None:
        return []
    return [number(attribution.needed_accept_length(target_tok_s, one.cycle_ms, max(one.overhead, 0.0)), 2)]


def _speculation(one: Account, plain: Account | None) -> tuple[str, str]:
    """Verify over the plain step, and the accept length from which speculation pays."""
    if plain is None or one is plain:
        return "-", "-"
    needed = attribution.break_even_accept_length(one.cycle_ms, plain.ceiling_tok_s)
    verify = one.phases_ms.get("verify")
    steps = number(verify / plain.cycle_ms if verify else None, 1)
    behind = verify is not None and verify / plain.cycle_ms >= attribution.WALL
    return f"[red]{steps}*[/red]" if behind else steps, number(needed, 2)


def document(stored: StoredRun, means: pd.DataFrame) -> list[dict[str, Any]]:
    """Accounts for programs, with positions in the answer and the acceptance of each draft position."""
    found = accounts(means)
    connection = stored.connect()
    positions = by_position(connection)
    accepted = accepted_tokens(connection)
    slopes = _slopes(found)
    floors = _floors(stored, means)
    graphs = _graphs(connection)
    return [
        {
            "stack": stack,
            "context_tokens": context,
            "tok_s": one.tok_s,
            "accept_length": one.accept_length,
            "cycle_ms": one.cycle_ms,
            "phases_ms": dict(one.phases_ms),
            "between_ms": one.between_ms if math.isfinite(one.between_ms) else None,
            "ceiling_tok_s": one.ceiling_tok_s,
            "overhead": one.overhead,
            "floor_ms": floors.get((stack, context)),
            "graph_share": graphs.get((stack, context)),
            "cycle_ms_per_1k_context": slopes.get(stack),
            "by_position": _positions_of(positions, stack, context),
            "acceptance_by_position": [
                {"position": p.position, "rate": p.rate, "share": p.share}
                for p in attribution.acceptance_by_position(accepted.get((stack, context), ()))
            ],
        }
        for (stack, context), one in found.items()
    ]


def _graphs(connection: Any) -> dict[tuple[str, int], float]:
    """Share of the cycles that replayed a captured graph, where the probe knows."""
    rows = connection.execute(
        "SELECT stack, context_tokens, avg(graph::INT) FROM cycles"
        " WHERE counted AND graph IS NOT NULL GROUP BY ALL"
    ).fetchall()
    return {(stack, int(context)): float(share) for stack, context, share in rows}


def _slopes(found: dict[tuple[str, int], Account]) -> dict[str, float]:
    slopes = {}
    for stack in {name for name, _ in found}:
        points = [(context, one.cycle_ms) for (name, context), one in found.items() if name == stack]
        line = attribution.slope([x for x, _ in points], [y for _, y in points])
        if line is not None:
            slopes[stack] = line.per_1k_tokens
    return slopes


def _positions_of(positions: pd.DataFrame, stack: str, context: int) -> list[dict[str, Any]]:
    rows = positions[(positions["stack"] == stack) & (positions["context_tokens"] == context)]
    records = rows.drop(columns=["stack", "context_tokens"]).to_dict("records")
    return [{str(name): value for name, value in record.items()} for record in records]


_ACCEPTED = """
WITH rows AS (
    SELECT stack, context_tokens, tokens, accepted, coalesce(len(accepted) > 0, false) AS batched
    FROM cycles WHERE counted
),
told AS (
    SELECT stack, context_tokens, tokens AS gave, count(*) AS many FROM rows WHERE NOT batched GROUP BY ALL
    UNION ALL
    SELECT stack, context_tokens, gave, count(*) AS many
    FROM (SELECT stack, context_tokens, unnest(accepted) AS gave FROM rows WHERE batched) GROUP BY ALL
)
SELECT stack, context_tokens, gave, sum(many) FROM told GROUP BY ALL ORDER BY ALL
"""


def accepted_tokens(connection: Any) -> dict[tuple[str, int], dict[int, int]]:
    """How often each request's cycle gave so many tokens: tokens -> cycles, for each stack and context.

    Of a batch each request's own, where the probe told them.
    """
    found: dict[tuple[str, int], dict[int, int]] = {}
    for stack, context, gave, many in connection.execute(_ACCEPTED).fetchall():
        if gave is not None:
            found.setdefault((stack, int(context)), {})[int(gave)] = int(many)
    return found

"""Writes docs/nccl.md from the stored runs that it quotes: the text stands here, every figure is read.

python docs/nccl_page.py > docs/nccl.md
python docs/nccl_page.py MATRIX-RUN STRIPPED-RUN ALLREDUCE.json     # other runs
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchharness.records import Launch
from benchharness.report import effects_view, rank_view
from benchharness.report.console import percent
from benchharness.stats.launch_means import launch_means, plain_metrics
from benchharness.store import StoredRun, open_run

PUBLISHED = Path(__file__).parents[1] / "results" / "published"
MATRIX, STRIPPED = "sglang-two-gpus-nccl", "sglang-stripped-rank"
GRAPHS = "disable-cuda-graph"
ALL_REDUCES = 65
"""A step of the 8B Llama: two a layer, 32 layers, one behind the embedding."""

INTRODUCTION = """\
# NCCL on two GPUs, rank by rank

Two ranks of tensor parallelism add up their halves of every layer's output: {count} all-reduces a step in
an 8B Llama, of 8 KB in plain decoding and 24 KB in a verify of three tokens. At these sizes what counts is
how long one takes at all. In the hunt that this project was made for, NCCL's variables (NCCL_PROTO=LL,
NCCL_ALGO=Ring, NCCL_P2P_LEVEL=SYS) were set by hand on eight GPUs linked by PCIe alone, did not reach every
process, and were held against single runs. Here the same variables are a matrix, and each rank says what
reached it.

**What these GPUs are not.** {link} NVLink doesn't reproduce PCIe. NCCL_P2P_DISABLE=1 comes nearest: data
then goes through the host's memory, as it does between PCIe cards that can't reach each other. NVLink
multicast (NVLS) was off in every cell, as the host sets it: no figure here says anything of NVLS.

```
benchharness run experiments/sglang-two-gpus-nccl.yaml
benchharness show sglang-two-gpus-nccl
benchharness show sglang-two-gpus-nccl --effects --with disable-cuda-graph
```
"""

FRACTION = """\
## Which cells

NCCL_PROTO (3) x NCCL_ALGO (2) x NCCL_P2P_DISABLE (2) x speculation (2) x graphs (2) are 48 cells. 16 of
them were chosen (`benchmarks/nccl_fraction.py`): all main effects and all interactions of graphs with
another factor can be told apart, with four values left over to judge noise by. What the other interactions
(a protocol that does better with one algorithm, say) put into them is known from the cells alone and stands
beside each effect: +0.20 means that a fifth of that interaction is in it. SGLang's own all-reduce kernel is
off in the 16, since it bypasses NCCL for messages of these sizes; it has two cells of its own, and
NCCL_P2P_LEVEL=LOC has one.

`NCCL_ALGO=Tree` by itself is refused: it asks for trees in every function, and an all-gather has
none.{refused} `allreduce:tree` says what is meant.
"""


def main() -> None:
    """Print the page."""
    places = [Path(one) for one in sys.argv[1:]]
    matrix = open_run(places[0] if places else last(MATRIX))
    stripped = open_run(places[1] if len(places) > 1 else last(STRIPPED))
    alone = places[2] if len(places) > 2 else PUBLISHED / MATRIX / "allreduce.json"
    settings = json.loads(alone.read_text(encoding="utf-8"))["settings"]
    sys.stdout.write(page(matrix, stripped, settings, topology(alone.with_name("topology.txt"))))


def topology(path: Path) -> str:
    """How `nvidia-smi topo -m` names the link between both GPUs (`NV18`, `PHB`); empty if it was not kept."""
    if not path.is_file():
        return ""
    found = re.search(r"^GPU0\s+X\s+(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else ""


def last(experiment: str) -> Path:
    """The newest published run of an experiment."""
    return max(path.parent for path in (PUBLISHED / experiment).glob("*/run.json"))


def page(matrix: StoredRun, stripped: StoredRun, alone: dict[str, Any], linked: str) -> str:
    """The whole page."""
    means = launch_means(matrix.connect(), plain_metrics())
    parts = [
        INTRODUCTION.format(count=ALL_REDUCES, link=link(alone, linked)),
        what_ran(matrix),
        FRACTION.format(refused=refused(alone)),
        cells(matrix, means),
        against_decode(matrix, means),
        *effects(matrix),
        by_itself(alone),
        ranks(matrix),
        a_stripped_rank(stripped),
        WHAT_IT_IS_NOT.format(launches=len(matrix.launches), requests=matrix.run.plan.workloads[0].requests),
    ]
    return "\n".join(parts)


WHAT_IT_IS_NOT = """\
## What this can't say

- One launch a cell ({launches} launches in all), {requests} requests a context: no two cells are judged
  against each other, and `compare` says so. An effect is an average over cells; its interval holds the
  noise between launches and what the model leaves out, which one launch a cell can't tell apart.
- The model has the shape of an 8B Llama and no weights, and SGLang accepts 2.0 tokens a cycle by
  simulation: times are those of real kernels, text and acceptance are not.
- NCCL's manual warns that LL128 where it isn't supported can corrupt data. Set by hand it runs through the
  host's memory too; that it ran here says nothing of its sums.
- Two ranks: with two, a ring and a tree take the same steps. With eight they don't.
"""


def link(alone: dict[str, Any], linked: str) -> str:
    """How the two GPUs are linked, and what NCCL makes of it with peer access on and off."""
    ways = [", ".join(alone.get(name, {}).get("via", ())) for name in ("defaults-p2p", "defaults-shm")]
    told = f"`nvidia-smi topo -m` names their link {linked}. " if linked else ""
    return f"{told}By itself NCCL sends over {ways[0]}, with NCCL_P2P_DISABLE=1 over {ways[1]}."


def refused(alone: dict[str, Any]) -> str:
    """What NCCL answered to trees for everything."""
    says = alone.get("LL-Tree-of-everything", {}).get("refused", "")
    return f' NCCL says "{says}", and the harness tells that cell as one that can\'t be.' if says else ""


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table in Markdown; columns from `left` on are figures."""
    rules = ["---" if place < left else "---:" for place in range(len(headings))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, rules, *rows)) + "\n"


def figure(value: float | None, decimals: int) -> str:
    """A figure, or nothing where none is known."""
    return "" if value is None or not math.isfinite(value) else f"{value:.{decimals}f}"


def what_ran(matrix: StoredRun) -> str:
    """Machine, versions, and how each rank reduces, from the attestation."""
    done = [launch for launch in matrix.launches if rank_view.of_ranks(launch)]
    facts = [
        rank_view.rank_facts(launch, report)
        for launch in done
        for report in rank_view.of_ranks(launch).values()
    ]
    gpus = matrix.run.machine["gpus"]
    ways: dict[tuple[str, str], int] = {}
    for one in facts:
        key = ", ".join(one["paths"]) or "not told", " then ".join(one["all_reduce"]) or "not told"
        ways[key] = ways.get(key, 0) + 1
    versions = sorted({str(one["nccl"]) for one in facts})
    libraries = {Path(path).name for one in facts for path in one["nccl_library"]}
    text = (
        f"## What ran\n\n{len(gpus)} {gpus[0]['name']}, driver {gpus[0]['driver']}; SGLang"
        f" {done[0].attestation.engine_version}; NCCL {', '.join(versions)} by the library that each rank has"
        f" loaded (`{', '.join(sorted(libraries))}`), whatever NCCL_VERSION in the environment says."
        f" {len(facts)} ranks of {len(done)} launches, by their own word:\n\n"
    )
    rows = [[via, way, str(count)] for (via, way), count in sorted(ways.items(), key=lambda item: -item[1])]
    return text + table(
        ["NCCL sends over", "ways to all-reduce, in the order of their use", "ranks"], rows, 2
    )


def cells(matrix: StoredRun, means: pd.DataFrame) -> str:
    """The matrix: a row a cell."""
    known = effects_view.factors(matrix.run.plan.stacks)
    contexts = sorted({workload.context_tokens for workload in matrix.run.plan.workloads})
    spreads = {(one.stack, one.context_tokens): one for one in rank_view.times(matrix)}
    statuses = {launch.stack: launch for launch in matrix.launches}
    headings = ["NCCL_PROTO", "NCCL_ALGO", "peer access", "speculation", "graphs", "kernel"]
    for context in contexts:
        headings += [f"cycle ms at {context}", "verify ms", "tok/s", "ranks apart ms"]
    rows = []
    for stack in matrix.run.plan.stacks:
        row = [*setting(known, stack.name)]
        for context in contexts:
            row += measured(
                means, stack.name, context, spreads.get((stack.name, context)), statuses.get(stack.name)
            )
        rows.append(row)
    rows.sort(key=lambda row: (row[4], row[3], row[5], row[2], row[0], row[1]))
    note = (
        "\nverify ms: of EAGLE3's verify, by CUDA events; cycle ms: a whole cycle, without speculation one"
        " step; ranks apart: mean cycle of the slower rank less that of the faster.\n"
    )
    return "## The matrix\n\n" + table(headings, rows, 6) + note


def setting(known: dict[str, dict[str, str]], stack: str) -> list[str]:
    """A cell's levels in words."""

    def level(factor: str) -> str:
        return known.get(factor, {}).get(stack, effects_view.UNSET)

    peer = "off (DISABLE=1)" if level("NCCL_P2P_DISABLE") == "1" else "on"
    return [
        level("NCCL_PROTO"),
        level("NCCL_ALGO"),
        "off (LEVEL=LOC)" if level("NCCL_P2P_LEVEL") == "LOC" else peer,
        "none" if level("speculative-algorithm") == effects_view.UNSET else level("speculative-algorithm"),
        "off" if level(GRAPHS) == "true" else "on",
        "SGLang's" if level("disable-custom-all-reduce") == effects_view.UNSET else "NCCL",
    ]


def measured(
    means: pd.DataFrame,
    stack: str,
    context: int,
    spread: rank_view.RankTimes | None,
    launch: Launch | None,
) -> list[str]:
    """Four figures of a cell, or in the first column why there are none."""
    rows = means[(means["stack"] == stack) & (means["context_tokens"] == context)]
    if rows.empty:
        return [str(launch.status) if launch is not None else "not run", "", "", ""]
    one = rows.mean(numeric_only=True)
    return [
        figure(one["cycle_ms"], 2),
        figure(one["verify_ms"], 2),
        figure(one["output_tok_s"], 0),
        figure(spread.spread_ms if spread else None, 3),
    ]


def against_decode(matrix: StoredRun, means: pd.DataFrame) -> str:
    """Verify over the plain step, where two cells differ in speculation alone."""
    known = effects_view.factors(matrix.run.plan.stacks)
    others = [factor for factor in known if factor != "speculative-algorithm"]
    by_rest: dict[tuple[str, ...], dict[str, str]] = {}
    for stack in matrix.run.plan.stacks:
        rest = tuple(known[factor][stack.name] for factor in others)
        by_rest.setdefault(rest, {})[known["speculative-algorithm"][stack.name]] = stack.name
    rows = []
    for pair in (names for names in by_rest.values() if len(names) == 2):
        plain, other = pair[effects_view.UNSET], next(v for k, v in pair.items() if k != effects_view.UNSET)
        for context in sorted({int(value) for value in means["context_tokens"]}):
            at: Any = means[means["context_tokens"] == context].groupby("stack").mean(numeric_only=True)
            if plain in at.index and other in at.index:
                step, verify = float(at.loc[plain, "cycle_ms"]), float(at.loc[other, "verify_ms"])
                rows.append(
                    [other, str(context), figure(step, 2), figure(verify, 2), figure(verify / step, 2)]
                )
    text = (
        "## Verify against decode\n\nOne pass of the target model over three tokens (verify) against one over"
        " one (a plain step), where two cells differ in nothing else. Over all cells the ratio is the effect"
        " of speculation on `step_ms` below.\n\n"
    )
    return text + table(["cell", "context", "plain step ms", "verify ms", "ratio"], rows)


def effects(matrix: StoredRun) -> Iterable[str]:
    """A table a metric, at the shortest context."""
    yield "## Effects over all cells\n"
    found = effects_view.of_run(matrix, [GRAPHS])
    shortest = min(one.context_tokens for one in found)
    for one in found:
        if one.context_tokens != shortest or one.metric == "output_tok_s":
            continue
        rows = []
        for effect in one.fit.effects:
            change, low, high = effects_view.changes(effect)
            holds = [f"{share:+.2f} {name}" for name, share in list(effect.aliases.items())[:2]]
            clear = "**" if low > 0 or high < 0 else ""
            rows.append(
                [
                    effect.name,
                    f"{clear}{percent(change)}{clear}",
                    f"{percent(low)} .. {percent(high)}",
                    "; ".join(holds),
                ]
            )
        what = "verify where there is speculation, else the cycle" if one.metric == effects_view.STEP else ""
        title = f"`{one.metric}` at context {one.context_tokens}" + (f" ({what})" if what else "")
        untold = ", ".join(" x ".join(term) for term in one.fit.untold)
        more = f" Not to be told apart in these cells: {untold}." if untold else ""
        yield (
            f"{title}:\n\n"
            + table(["effect", "change", "95 % interval", "also holds"], rows)
            + f"\n{effects_view.stands_on(one)}{more}\n"
        )


def by_itself(alone: dict[str, Any]) -> str:
    """The all-reduce without an engine."""
    rows = []
    for name, one in alone.items():
        us = one.get("us", {})
        chosen = dict.fromkeys(v for k, v in one["chosen"].items() if k.startswith("AllReduce"))
        state = "refused" if one.get("refused") else "failed" if not us else ", ".join(chosen)
        micros = [figure(us.get(tokens), 1) for tokens in ("1", "3", "512")]
        step = figure(us["1"] * ALL_REDUCES / 1000, 2) if us else ""
        rows.append([name, ", ".join(one["via"]), state, *micros, step])
    text = (
        "## The all-reduce by itself\n\n`benchmarks/nccl_allreduce.py`, without an engine: microseconds of"
        " one all-reduce of 1, 3 and 512 tokens of 4096 values in bfloat16, in a replayed graph, and what"
        " NCCL says that it chose."
        f" The last column is {ALL_REDUCES} of the first: what a plain step spends on them.\n\n"
    )
    headings = ["setting", "via", "chosen", "1 token us", "3 tokens us", "512 tokens us", "ms a step"]
    return text + table(headings, rows, 3)


def ranks(matrix: StoredRun) -> str:
    """Each rank's cycles, and the widest spread."""
    rows = []
    found = rank_view.times(matrix)
    shortest = min(one.context_tokens for one in found)
    for one in (one for one in found if one.context_tokens == shortest):
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
                figure(one.spread_ms, 3),
                f"{share:.1%}",
                str(one.slowest),
            ]
        )
    headings = ["cell", "context", "cycle ms of ranks 0 / 1", "verify ms", "spread ms", "share", "slowest"]
    text = (
        "## Rank by rank\n\nEach rank times its own cycles by CUDA events. Ranks wait for each other in every"
        " all-reduce, so their means lie close together, whoever is late.\n\n"
    )
    return text + table(headings, rows)


def a_stripped_rank(stripped: StoredRun) -> str:
    """What the harness said of a rank that lost a variable."""
    (launch, *_) = stripped.launches
    return (
        "## A rank that lost a variable\n\n`experiments/sglang-stripped-rank.yaml` takes NCCL_P2P_LEVEL from"
        " rank 1 as it begins to run. The launch ended"
        f" **{launch.status}** with status 4, and nothing was timed:\n\n```\n{launch.reason}\n```\n"
    )


if __name__ == "__main__":
    main()

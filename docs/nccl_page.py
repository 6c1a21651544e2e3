"""Writes docs/nccl.md from the stored runs that it quotes: the text stands here, every figure is read.

python docs/nccl_page.py > docs/nccl.md
python docs/nccl_page.py MATRIX-RUN STRIPPED-RUN ALLREDUCE.json     # other runs
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nccl_tables as tables
import pandas as pd
from nccl_summary import filled, in_short, joined
from nccl_tables import ALL_REDUCES, GRAPHS

from benchharness.report import effects_view, rank_view
from benchharness.report.effects_view import UNSET
from benchharness.stats.launch_means import launch_means, plain_metrics
from benchharness.store import StoredRun, open_run

PUBLISHED = Path(__file__).parents[1] / "results" / "published"
MATRIX, STRIPPED = "sglang-two-gpus-nccl", "sglang-stripped-rank"
LETTERS = "ABCDEFGH"

TITLE = """\
# NCCL on two GPUs, rank by rank

Two ranks of tensor parallelism add up their halves of every layer's output: 65 all-reduces a step in an 8B
Llama, of 8 KB in plain decoding and 24 KB in a verify of three tokens. At these sizes what counts is how
long one takes at all. In the hunt that this project was made for, NCCL's variables (NCCL_PROTO=LL,
NCCL_ALGO=Ring, NCCL_P2P_LEVEL=SYS) were set by hand on eight GPUs linked by PCIe alone, did not reach every
process, and were held against single runs. Here the same variables are a matrix, and each rank says what
reached it.
"""

COMMANDS = """\
```
benchharness run experiments/sglang-two-gpus-nccl.yaml
benchharness show sglang-two-gpus-nccl --results results/published
benchharness show sglang-two-gpus-nccl --results results/published --effects --with disable-cuda-graph
```
"""

FRACTION = """\
NCCL_PROTO (3) x NCCL_ALGO (2) x NCCL_P2P_DISABLE (2) x speculation (2) x graphs (2) are 48 cells. 16 of
them were chosen (`benchmarks/nccl_fraction.py`) so that all main effects and all interactions of graphs
with another factor can be told apart. SGLang's own all-reduce kernel is off in the 16, since it bypasses
NCCL for messages of these sizes; it has two cells of its own, and NCCL_P2P_LEVEL=LOC has one. Cells run in
the file's order, which was chosen so that a run that ends early still tells all main effects.
"""

LIMITS = """\
- One launch a cell, {requests} requests a context: no two cells are judged against each other, and `compare`
  says so. An interval of an effect holds noise between launches and what the model leaves out, which one
  launch a cell can't tell apart.
- Two machines: the hunt's settings with graphs, which others are held against, ran on machine A, nearly all
  others on B. What differs between both is in every such difference.
- The model has the shape of an 8B Llama and no weights, and SGLang accepts 2.0 tokens a cycle by
  simulation: times are those of real kernels, text and acceptance are not.
- NCCL's manual warns that LL128 where it isn't supported can corrupt data. Set by hand it runs through the
  host's memory too; that it ran here says nothing of its sums.
- Two ranks: with two, a ring and a tree send nearly the same. With eight they don't.
- NVLink multicast (NVLS) was off in every cell: no figure here says anything of it.
"""


def main() -> None:
    """Print the page."""
    places = [Path(one) for one in sys.argv[1:]]
    matrix = open_run(places[0] if places else last(MATRIX))
    stripped = open_run(places[1] if len(places) > 1 else last(STRIPPED))
    alone = places[2] if len(places) > 2 else PUBLISHED / MATRIX / "allreduce.json"
    settings = json.loads(alone.read_text(encoding="utf-8"))["settings"]
    sys.stdout.write("\n".join(page(matrix, stripped, settings, topology(alone.with_name("topology.txt")))))


def topology(path: Path) -> str:
    """How `nvidia-smi topo -m` names the link between both GPUs (`NV18`, `PHB`); empty if it was not kept."""
    if not path.is_file():
        return ""
    found = re.search(r"^GPU0\s+X\s+(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else ""


def last(experiment: str) -> Path:
    """The newest published run of an experiment."""
    return max(path.parent for path in (PUBLISHED / experiment).glob("*/run.json"))


def page(matrix: StoredRun, stripped: StoredRun, alone: Mapping[str, Any], linked: str) -> Iterator[str]:
    """The page, part by part."""
    means = with_median_ttft(matrix, launch_means(matrix.connect(), plain_metrics()))
    yield TITLE
    yield filled(not_pcie(alone, linked))
    yield COMMANDS
    yield "## In short\n"
    yield in_short(matrix, means, alone)
    yield "## What ran\n"
    yield what_ran(matrix)
    yield FRACTION
    yield filled(not_run(matrix, means) + refused(alone))
    yield "## The matrix\n"
    for context in tables.contexts(matrix):
        yield f"Context {context}:\n"
        yield tables.cells(matrix, means, context, machines(matrix))
    yield filled(under_the_matrix(matrix))
    yield from steps(matrix, means, alone)
    yield from effects(matrix)
    yield from the_rest(matrix, stripped, alone)
    yield "## What this can't say\n"
    yield LIMITS.format(requests=matrix.run.plan.workloads[0].requests)


def with_median_ttft(matrix: StoredRun, means: pd.DataFrame) -> pd.DataFrame:
    """`means` with the median time to the first token over each cell's requests, not their mean."""
    medians = (
        matrix.connect()
        .execute(
            "SELECT stack, context_tokens, median((first_chunk_ns - sent_ns) / 1e6) AS ttft_ms FROM requests"
            " WHERE counted GROUP BY ALL"
        )
        .df()
    )
    return means.drop(columns="ttft_ms").merge(medians, on=["stack", "context_tokens"], how="left")


def not_pcie(alone: Mapping[str, Any], linked: str) -> str:
    """How the two GPUs are linked, and what NCCL makes of it with peer access on and off."""
    ways = [", ".join(alone.get(name, {}).get("via", ())) for name in ("defaults-p2p", "defaults-shm")]
    told = f" `nvidia-smi topo -m` names their link {linked}." if linked else ""
    return (
        f"**What these GPUs are not.**{told} By itself NCCL sends over {ways[0]}, with NCCL_P2P_DISABLE=1"
        f" over {ways[1]}. GPUs with NVLink don't reproduce a topology of PCIe alone. NCCL_P2P_DISABLE=1"
        " comes nearest: data then goes through the host's memory, as between PCIe cards that can't reach"
        " each other."
    )


def boards(launch: Any) -> tuple[str, ...]:
    """The GPUs that a launch ran on."""
    return tuple(str(gpu.get("uuid")) for gpu in launch.attestation.machine.get("gpus", ()))


def machines(matrix: StoredRun) -> dict[str, str]:
    """Stack -> a letter for the machine that it ran on, told apart by its GPUs."""
    told = {launch.stack: boards(launch) for launch in matrix.launches if boards(launch)}
    letters = dict(zip(dict.fromkeys(told.values()), LETTERS, strict=False))
    return {stack: letters[found] for stack, found in told.items()}


def what_ran(matrix: StoredRun) -> str:
    """Machines, versions, and how each rank reduces, from the attestation."""
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
    lettered = machines(matrix)
    first = [f"{launch.index} (`{launch.stack}`)" for launch in done if lettered[launch.stack] == "A"]
    rates = {
        lettered[launch.stack]: f"{launch.attestation.settings['copy_bytes_per_s'] / 1e12:.2f} TB/s"
        for launch in done
    }
    where = (
        f" Launches {joined(first)} ran on machine A; then the run was resumed on"
        f" another of the same kind, B, for all others. A copy within a GPU ran at"
        f" {' and '.join(rates.values())} there."
        if len(rates) > 1
        else ""
    )
    text = filled(
        f"{len(gpus)} {gpus[0]['name']}, driver {gpus[0]['driver']}; SGLang"
        f" {done[0].attestation.engine_version}; NCCL {', '.join(versions)} by the library that each rank has"
        f" loaded (`{', '.join(sorted(libraries))}`), whatever NCCL_VERSION in the environment says.{where}"
        f" What {len(facts)} ranks of {len(done)} launches said of themselves:"
    )
    rows = [[via, way, str(count)] for (via, way), count in sorted(ways.items(), key=lambda item: -item[1])]
    headings = ["NCCL sends over", "ways to all-reduce, in the order of their use", "ranks"]
    return text + "\n" + tables.table(headings, rows, (0, 1)) + "\n" + filled(variables(matrix))


def variables(matrix: StoredRun) -> str:
    """How many ranks had every declared variable of NCCL's, and which came from elsewhere."""
    whole, count, added = 0, 0, set[str]()
    for launch in matrix.launches:
        declared = {name: told for name, told in launch.env.items() if name.startswith(rank_view.VARIABLES)}
        for report in rank_view.of_ranks(launch).values():
            env = rank_view.rank_facts(launch, report)["env"]
            count += 1
            whole += all(env.get(name) == told for name, told in declared.items())
            added |= {
                f"{name}={told} ({rank_view.origin(launch, name)})"
                for name, told in env.items()
                if name not in declared
            }
    more = f" Beside them each has {joined(sorted(added))}." if added else ""
    return f"{whole} of {count} ranks had every NCCL variable of their cell, with the declared value.{more}"


def not_run(matrix: StoredRun, means: pd.DataFrame) -> str:
    """Which cells have no figures."""
    names = [stack.name for stack in matrix.run.plan.stacks]
    missing = [f"`{name}`" for name in names if name not in set(means["stack"])]
    if not missing:
        return f"All {len(names)} cells were measured. "
    return (
        f"**{len(names) - len(missing)} of {len(names)} cells were measured** before the time on the machine"
        f" was up; {joined(missing)} {'was' if len(missing) == 1 else 'were'} not. "
    )


def refused(alone: Mapping[str, Any]) -> str:
    """What NCCL answered to trees for everything."""
    says = alone.get("LL-Tree-of-everything", {}).get("refused", "")
    answer = f' NCCL says "{says}"' if says else ""
    return (
        "`NCCL_ALGO=Tree` by itself is refused: it asks for trees in every function, and an all-gather has"
        f" none.{answer} `allreduce:tree` says what is meant, and is `Tree` below."
    )


def under_the_matrix(matrix: StoredRun) -> str:
    """What the columns are, and what disturbed a cell."""
    failed = (
        matrix.connect()
        .execute("SELECT stack, context_tokens FROM requests WHERE coalesce(failure, '') <> '' ORDER BY ALL")
        .fetchall()
    )
    told = ", ".join(f"`{stack}` at {context}" for stack, context in failed)
    more = (
        f" A request of the warm-up timed out in {told}: speeds and cycles there are still those of a start."
    )
    return (
        "cycle ms: a whole cycle, without speculation one step, by CUDA events of rank 0; verify ms: EAGLE3's"
        " verify; TTFT ms: median; tok/s: of a request from its send to its end; ranks apart: mean cycle of"
        f" the slower rank less that of the faster.{more if failed else ''}"
    )


def steps(matrix: StoredRun, means: pd.DataFrame, alone: Mapping[str, Any]) -> Iterator[str]:
    """The target's pass against the all-reduces in it, and verify against decode."""
    short = tables.contexts(matrix)[0]
    yield "## With graphs: a step and the all-reduces in it\n"
    yield filled(
        f"What a pass of the target takes more than in the hunt's settings, beside what {ALL_REDUCES}"
        " all-reduces of its size take more by themselves (context"
        f" {short}; the table of single all-reduces is below). If a variable did nothing else, both would be"
        " the same, and the rest would be one figure for every plain step and one for every verify."
    )
    found = tables.passes(matrix, means, alone, short)
    yield tables.against_bare(found)
    yield filled(
        f"The rest lies at {tables.rests(found, 'plain step')} and {tables.rests(found, 'verify')}: single"
        " all-reduces explain most of what the variables do to a step, not all. In LL and Tree through the"
        " host's memory, on machine B, it is what it is in the hunt's settings on A, so little of the"
        " differences can be the machine's."
    )
    yield "## Verify against decode\n"
    yield filled(
        "One pass of the target over three tokens (verify) against one over one (a plain step), where two"
        " measured cells differ in nothing else."
    )
    yield tables.against_decode(matrix, means)


def effects(matrix: StoredRun) -> Iterator[str]:
    """With graphs alone, then over all cells."""
    inside = effects_view.of_run(matrix, within={GRAPHS: UNSET})
    whole = effects_view.of_run(matrix, [GRAPHS])
    yield "## Effects, averaged over cells\n"
    yield filled(
        "On `step_ms` (verify where there is speculation, else the cycle): the first level against the"
        " second, averaged over the other factors. Bold: the interval doesn't hold 0; each stands for"
        " itself, so of twenty that are nothing one is bold. `also holds`: +0.20 means that a fifth of that"
        " interaction, which the model leaves out, is in the effect; it depends on the cells alone."
        " NCCL_P2P_LEVEL isn't there, as its cell was not measured."
        if "NCCL_P2P_LEVEL" in {term[0] for one in whole for term in one.fit.untold}
        else "On `step_ms` (verify where there is speculation, else the cycle)."
    )
    yield "Cells with graphs only:\n"
    yield tables.effects(inside)
    most = tables.repeats(matrix, graphs=True)[-1]
    yield filled(
        f"{tables.leftovers(inside)}. Requests of one launch differ by {most:.1%} at most, so that is rather"
        " what the model leaves out than noise: NCCL's time adds to a step, and the model multiplies."
    )
    of_nccl = [
        one
        for found in whole
        if found.metric == effects_view.STEP
        for one in found.fit.effects
        if one.term[0].startswith("NCCL_")
    ]
    counted, clear = len(of_nccl), sum(one.low > 0 or one.high < 0 for one in of_nccl)
    yield "All cells; an interaction of -30 % means that two levels' ratio is 30 % smaller without graphs:\n"
    yield tables.effects(whole)
    yield filled(
        f"{tables.leftovers(whole)}. Where graphs are off a slower all-reduce hides behind the host, so the"
        " averages over both say little of NCCL; the interactions say that: Simple costs with graphs; without"
        f" them no cost shows. Of {counted} effects of NCCL's variables here {clear} are bold, each barely."
    )


def the_rest(matrix: StoredRun, stripped: StoredRun, alone: Mapping[str, Any]) -> Iterator[str]:
    """The bare all-reduce, the ranks, and the rank that lost a variable."""
    yield "## The all-reduce by itself\n"
    yield filled(
        "`benchmarks/nccl_allreduce.py`, without an engine, on machine A: microseconds of one all-reduce of"
        " 1, 3 and 512 tokens of 4096 values in bfloat16, in a replayed graph, and what NCCL says that it"
        " chose."
        f" The last column is {ALL_REDUCES} of the first."
    )
    yield tables.by_itself(alone)
    yield "## Rank by rank\n"
    yield filled(
        "Each rank times its own cycles by CUDA events. Ranks wait for each other in every all-reduce, so"
        " their means lie close together, whoever is late. spread: slower rank's mean less the faster's;"
        " apart: the same of single cycles, on average."
    )
    yield tables.ranks(matrix)
    (launch, *_) = stripped.launches
    yield "## A rank that lost a variable\n"
    yield filled(
        "`experiments/sglang-stripped-rank.yaml` takes NCCL_P2P_LEVEL from rank 1 as it begins to run. The"
        f" launch ended **{launch.status}** with status 4, and nothing was timed:"
    )
    yield f"```\n{launch.reason}\n```\n"


if __name__ == "__main__":
    main()

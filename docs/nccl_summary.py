"""What docs/nccl.md says in short: sentences whose every figure is read (see nccl_page.py)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import nccl_tables as tables
import pandas as pd
from nccl_tables import ALL_REDUCES, GRAPHS, SPECULATION, step

from benchharness.report import effects_view
from benchharness.report.effects_view import UNSET
from benchharness.store import StoredRun

WIDTH = 110


def filled(text: str, first: str = "", others: str = "") -> str:
    """A paragraph in lines."""
    return (
        textwrap.fill(
            text,
            WIDTH,
            initial_indent=first,
            subsequent_indent=others,
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
    )


class Summary:
    """The measured cells of a run, and the bare all-reduces beside them."""

    def __init__(self, matrix: StoredRun, means: pd.DataFrame, alone: Mapping[str, Any]) -> None:
        self.matrix, self.means, self.alone = matrix, means, alone
        self.known = effects_view.factors(matrix.run.plan.stacks)
        self.short, *_, self.long = tables.contexts(matrix)
        (self.plain, _), (self.verify, _) = tables.with_graphs(matrix, self.known)
        measured = set(means["stack"])
        self.done = [stack.name for stack in matrix.run.plan.stacks if stack.name in measured]
        self.us = {name: one["us"] for name, one in alone.items() if one.get("us")}

    def text(self) -> str:
        """A list, each point in lines."""
        return "".join(filled(point, "- ", "  ") for point in self.points())

    def points(self) -> Iterator[str]:
        """One finding each."""
        yield self.by_default()
        yield self.with_graphs()
        yield self.without_graphs()
        yield self.prefill()
        yield self.against_decode()
        yield self.own_kernel()

    def chosen(self, **levels: str) -> list[str]:
        """Measured cells with these levels, by the names of this module's constants."""
        wanted = {getattr(tables, name): level for name, level in levels.items()}
        return [
            one for one in self.done if all(self.known[name][one] == level for name, level in wanted.items())
        ]

    def by_default(self) -> str:
        """The hunt's values against none."""
        one, none, level = (
            self.us[name]["1"] for name in ("LL-Ring-p2p", "defaults-p2p", "LL-Ring-level-SYS")
        )
        says = self.alone["defaults-p2p"]["chosen"]["AllReduce 8192"]
        return (
            f"**The hunt's values are what NCCL chooses by itself here**: one all-reduce of 8 KB takes"
            f" {one:.1f} us with LL and Ring and {none:.1f} us with nothing set, and NCCL names {says} for"
            f" both. NCCL_P2P_LEVEL=SYS changes nothing either ({level:.1f} us). On such GPUs there's nothing"
            " to win by them."
        )

    def with_graphs(self) -> str:
        """What other values cost a step."""
        others = [
            one for one in self.chosen(GRAPHS=UNSET, OWN="true") if one not in (self.plain, self.verify)
        ]

        def more(base: str) -> str:
            same = [one for one in others if self.known[SPECULATION][one] == self.known[SPECULATION][base]]
            shares = [self.step(one) / self.step(base) - 1 for one in same]
            return f"{min(shares):+.0%} to {max(shares):+.0%}"

        return (
            "**With graphs, other values cost.** Against LL, Ring and peer access (plain step"
            f" {self.step(self.plain):.2f} ms, verify {self.step(self.verify):.2f} ms at context"
            f" {self.short}) a plain step took {more(self.plain)}, a verify {more(self.verify)} in the other"
            f" cells, about what {ALL_REDUCES} of the all-reduces by themselves take more. Of NCCL's effects"
            f" averaged over cells with graphs Simple against LL is clear at context {self.short}, no other"
            " is."
        )

    def without_graphs(self) -> str:
        """Why nothing shows there."""
        eager = self.chosen(GRAPHS="true")
        times = [self.step(one) for one in eager]
        apart = tables.repeats(self.matrix, graphs=False)
        hunt = next(one for one in eager if self.known[SPECULATION][one] != UNSET)
        return (
            f"**Without graphs the variables don't show.** At context {self.short} steps took"
            f" {min(times):.0f} to {max(times):.0f} ms, the host starting kernels one by one; requests of one"
            f" launch and context lay {apart[0]:.0%} to {apart[-1]:.0%} apart (with graphs at most"
            f" {tables.repeats(self.matrix, graphs=True)[-1]:.1%}), and of the cells with EAGLE3 the one with"
            f" the fastest all-reduce was the slowest ({self.step(hunt):.0f} ms)."
        )

    def prefill(self) -> str:
        """Large messages through the host's memory."""
        host, peer = (
            sorted(
                tables.value(self.means, one, self.long, "ttft_ms")
                for one in self.chosen(PROTO="LL", OFF=level)
                if level == "1" or self.known[GRAPHS][one] == UNSET
            )
            for level in ("1", UNSET)
        )
        tree, ring, own = (self.us[name] for name in ("LL-Tree-shm", "LL-Ring-shm", "defaults-shm"))
        return (
            "**LL for everything costs prefill where data goes through the host**: the first token of a"
            f" prompt of {self.long} came after {host[0]:.0f} to {host[-1]:.0f} ms, with peer access after"
            f" {peer[0]:.0f} to {peer[-1]:.0f} ms. One all-reduce of 512 tokens took {tree['512']:.0f} us"
            f" (Tree) and {ring['512']:.0f} us (Ring), with NCCL's own choice {own['512']:.0f} us; one of a"
            f" single token {ring['1']:.1f} us (Ring) and {own['1']:.1f} us. So between PCIe cards these"
            " values may cost prefill more than they give decoding."
        )

    def against_decode(self) -> str:
        """A verify in plain steps."""
        (plain, verify), (plain_long, verify_long) = (
            (step(self.means, self.plain, context), step(self.means, self.verify, context))
            for context in (self.short, self.long)
        )
        return (
            f"**Verify against decode**: a verify of three tokens takes {verify / plain:.2f} plain steps at"
            f" context {self.short} and {verify_long / plain_long:.2f} at {self.long}. From {self.short} to"
            f" {self.long} a verify gains {verify_long - verify:.1f} ms, a plain step"
            f" {plain_long - plain:.1f} ms. An all-reduce's size doesn't depend on the context, so that isn't"
            " NCCL's."
        )

    def own_kernel(self) -> str:
        """SGLang's kernel against NCCL's best."""
        verify, plain = (
            next(one for one in self.chosen(OWN=UNSET) if (self.known[SPECULATION][one] != UNSET) is wanted)
            for wanted in (True, False)
        )
        whole = self.us["LL-Ring-p2p"]["1"] * ALL_REDUCES / 1000
        return (
            f"**SGLang's own kernel** took {self.step(plain) - self.step(self.plain):+.2f} ms a plain step"
            f" and {self.step(verify) - self.step(self.verify):+.2f} ms a verify against NCCL at its best. By"
            f" themselves all of NCCL's all-reduces take but {whole:.2f} ms, so some of it is something else:"
            " what surrounds NCCL's kernels in a graph, or the other machine."
        )

    def step(self, stack: str) -> float:
        """The target's pass at the short context, in ms."""
        return step(self.means, stack, self.short)


def in_short(matrix: StoredRun, means: pd.DataFrame, alone: Mapping[str, Any]) -> str:
    """The findings, in Markdown."""
    return Summary(matrix, means, alone).text()


def joined(names: Sequence[str]) -> str:
    """`a, b and c`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last

"""The client's self-test, for people and programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console

from benchharness.report.console import number, table

if TYPE_CHECKING:
    from benchharness.workload.selftest import SelfTest


def show(console: Console, test: SelfTest) -> None:
    """Print the error, its consequences, and what the client costs."""
    rows = table("")
    rows.add_column("the client's own")
    rows.add_column("", justify="right")
    rows.add_row("error of a stamp, median", f"{number(test.error_us_p50, 1)} us")
    rows.add_row("error of a stamp, 99th percentile", f"{number(test.error_us_p99, 1)} us")
    rows.add_row("error of a stamp, largest", f"{number(test.error_us_max, 1)} us")
    rows.add_row("share of samples read late", f"{test.late_share:.2%}")
    rows.add_row("error of the reported token interval", f"{test.itl_error_fraction:.4%}")
    rows.add_row("smallest change of a token interval to be told", f"{test.smallest_effect_fraction:.4%}")
    rows.add_row("smallest change of a time to first token", f"{number(test.smallest_ttft_effect_us, 1)} us")
    rows.add_row("most events a second, parsed", number(test.events_per_s, 0))
    rows.add_row("CPU s per million events", number(test.cpu_s_per_million_events, 1))
    rows.add_row("transport", test.transport)
    console.print(rows)


def document(test: SelfTest) -> dict[str, Any]:
    """The same for programs: `error_us` {p50, p99, max} and the other fields of `SelfTest`."""
    fields = asdict(test)
    error = {name: fields.pop(f"error_us_{name}") for name in ("p50", "p99", "max")}
    return {"error_us": error, **fields}

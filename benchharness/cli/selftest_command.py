"""`benchharness selftest`: the client's own error."""

from __future__ import annotations

import click

from benchharness.cli.options import json_option, print_json


@click.command("selftest", epilog="Example: benchharness selftest --concurrency 64 --interval-ms 5")
@click.option("--concurrency", type=int, default=8, show_default=True, help="Streams at a time.")
@click.option(
    "--interval-ms", type=float, default=5.0, show_default=True, help="Time between events of a stream."
)
@click.option("--duration-s", type=float, default=2.0, show_default=True, help="How long they stream.")
@click.option("--user-clock", is_flag=True, help="Measure the transport that https uses instead.")
@json_option
def command(concurrency: int, interval_ms: float, duration_s: float, user_clock: bool, as_json: bool) -> None:
    """Measure the client's own timing error on this machine.

    A null server sends events on a known schedule and writes the true time of sending into each. What
    the client adds to that is its error; an effect smaller than that can't be told from the client.
    """
    from benchharness.report import console, selftest_view
    from benchharness.workload import selftest

    consoles = console.progress()
    consoles.print(f"{concurrency} streams, one event every {interval_ms:g} ms, for {duration_s:g} s")
    test = selftest.measure(concurrency, interval_ms, duration_s, user_clock=user_clock)
    selftest_view.show(console.people(as_json), test)
    if as_json:
        print_json(selftest_view.document(test))

"""`benchharness doctor`: is this machine fit to measure?"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from benchharness.cli.options import cache_folder, cache_option, json_option, print_json, results_option

_SELFTEST_S = 0.5


@click.command("doctor", epilog="Example: benchharness doctor --json")
@results_option
@cache_option
@json_option
def command(results: Path, cache: Path | None, as_json: bool) -> None:
    """Say whether this machine is fit to measure, and what to do about what is not.

    Looks at GPUs (clocks, power cap, throttling, links, other tenants), processors (governor, load, stolen
    time, quotas), memory, disks and the client's own error. Ends 4 if something is bad, else 0.
    """
    from benchharness.machine import fitness
    from benchharness.report import console, doctor_view
    from benchharness.workload import selftest

    found = [*fitness.checks({"results": results, "cache": cache_folder(cache)})]
    found += fitness.of_client(asdict(selftest.measure(concurrency=1, duration_s=_SELFTEST_S)))
    doctor_view.show(console.people(as_json), found)
    if as_json:
        print_json(doctor_view.document(found))
    sys.exit(4 if any(one.status == fitness.Status.BAD for one in found) else 0)

"""The probe switched inside a launch, in a real process that has it inside: how soon, and cleanly?"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fake_sglang import lay_out

from benchharness.records import RequestTrace
from benchharness.stack import probing
from benchharness.timings import probe_cycles, probe_file
from benchharness.timings.probe_file import Row
from benchharness.workload.load import alternation

PROBE = probing.PROBE

# Serves requests of so many decode cycles each, and tells when each of its steps began.
SERVER = """
import json, sys, time
from sglang.srt.managers import scheduler
served = scheduler.make_scheduler(0, 0)
step = served.step
starts = []

def told(batch):
    starts.append(time.monotonic_ns())
    step(batch)

served.step = told
print("ready", flush=True)
for line in sys.stdin:
    starts.clear()
    served.request(int(line))
    print(json.dumps(starts), flush=True)
"""


@dataclass
class Engine:
    """A stand-in that serves one request at a time."""

    process: subprocess.Popen[str]
    folder: Path
    starts: list[int] = field(default_factory=list)

    def begin(self, cycles: int) -> None:
        self.process.stdin.write(f"{cycles}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.starts += json.loads(self.process.stdout.readline())

    def rows(self) -> tuple[Row, ...]:
        (file,) = probe_file.read_folder(self.folder)
        assert file.report.faults == {}
        return file.rows


@contextmanager
def engine(place: Path, layout: str) -> Iterator[Engine]:
    lay_out(place, layout)
    script = place / "serve.py"
    script.write_text(SERVER)
    folder = place / "written"
    folder.mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{PROBE}{os.pathsep}{place}",
        probing.FOLDER: str(folder),
    }
    process = subprocess.Popen(
        [sys.executable, script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield Engine(process, folder)
    finally:
        process.kill()
        process.communicate()


def whole(row: Row, tokens: int) -> bool:
    """A speculative decode cycle with everything that belongs to it."""
    host = row.host
    phases = (host.draft, host.verify, host.forward, host.after, host.draft_extend)
    if any(phase is None or phase <= 0 for phase in phases) or host.total is None:
        return False
    return host.total >= sum((host.draft, host.verify, host.draft_extend)) and row.accepted == (tokens,)


@pytest.mark.parametrize(("layout", "tokens"), [("v1", 2), ("v2", 3)])
def test_a_switch_holds_from_the_next_cycle_and_leaves_no_half_cycle(
    tmp_path: Path, layout: str, tokens: int
) -> None:
    """Switched at random moments in the middle of a long answer; the engine's own stamps are the truth."""
    chance = random.Random(5)
    switches = []
    with engine(tmp_path, layout) as served, probing.alternating(served.folder, (False, True)) as switch:
        served.begin(250)
        on = True
        for _ in range(24):
            time.sleep(chance.uniform(0.01, 0.05))
            on = not on
            assert switch(int(on)) is on
            switches.append((time.monotonic_ns(), on))
        served.end()
        rows = served.rows()

    decode = [row for row in rows if row.mode == "decode"]
    assert len(decode) > 20
    assert [row for row in decode if not whole(row, tokens)] == []
    recorded = {served.starts[bisect(served.starts, row.start_ns) - 1] for row in rows}
    assert len(recorded) == len(rows)
    late = 0
    for (at, on), after in zip(switches, [*(at for at, _ in switches[1:]), served.starts[-1]], strict=True):
        within = [start for start in served.starts if at < start < after]
        wrong = [start for start in within if (start in recorded) != on]
        # Only a cycle that was beginning at that very moment may be on the other side.
        assert wrong in ([], within[:1], within[-1:], [within[0], within[-1]])
        late += len(wrong)
    assert late <= len(switches) / 4


def test_requests_with_it_on_have_all_their_cycles_and_the_others_none(tmp_path: Path) -> None:
    order = (True, *alternation(8, seed=3))
    traces = []
    with engine(tmp_path, "v2") as served, probing.alternating(served.folder, order) as before_send:
        for index in range(len(order)):
            probed = before_send(index)
            sent = time.monotonic_ns()
            served.begin(6)
            served.end()
            traces.append(RequestTrace(index, index == 0, 16, sent, sent, time.monotonic_ns(), probed=probed))
        files = probing.files(served.folder, traces[0].sent_ns, traces[-1].finished_ns)

    assert tuple(trace.probed for trace in traces) == order
    cycles = probe_cycles.cycles(files, [trace for trace in traces if trace.probed is not False])
    counts = [sum(cycle.request == index for cycle in cycles) for index in range(len(order))]
    assert counts == [6 if on else 0 for on in order]
    # No period reaches over what was not recorded: the last cycle of a request has none.
    assert all(cycle.period_ms is None for cycle in cycles if cycle.index == 5)
    assert sum(len(file.rows) for file in files) == 7 * sum(order)


def test_the_probe_is_on_again_when_the_block_is_left(tmp_path: Path) -> None:
    with engine(tmp_path, "v1") as served:
        with probing.alternating(served.folder, (False,)) as switch:
            assert switch(0) is False
            served.begin(3)
            served.end()
            assert served.rows() == ()
        served.begin(3)
        served.end()
        assert len(served.rows()) == 4


def test_without_a_file_nothing_is_switched_and_none_is_said(tmp_path: Path) -> None:
    with probing.alternating(tmp_path, (True, False)) as switch:
        assert (switch(0), switch(1)) == (None, None)

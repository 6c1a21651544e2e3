"""What the probe costs the engine's host thread: CPU time a cycle, on a worker whose methods do nothing.

The worker has the shape of SGLang's EAGLEWorkerV2 with everything that the probe wraps in a cycle: the
cycle, draft, verify, draft-extend, the target's worker and forward, both graph replays and the processing
of the result. The same worker runs bare, probed with the recording off, and probed, in turn.

Must reach: at most 5 us without device events, at most 40 us with them. Where the interpreter's torch has a
CUDA device the events are real ones; else a stand-in shows the probe's own share and how often CUDA is
called. `python benchmarks/bench_probe.py --write` puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchharness.probe import hooks, wrapping  # noqa: E402
from benchharness.probe.recorder import Recorder  # noqa: E402

CYCLES, ROUNDS = 20_000, 9
LIMIT_US, LIMIT_EVENTS_US = 5.0, 40.0
DOCUMENT = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench-probe:begin -->\n", "<!-- bench-probe:end -->"


class Mode(IntEnum):
    """As SGLang's ForwardMode."""

    DECODE = 2


class Lengths:
    """Accept lengths on the host."""

    is_cpu = True

    def tolist(self) -> list[int]:
        """One request, two tokens."""
        return [2]


class Result:
    """As GenerationBatchResult under spec V2."""

    accept_lens = Lengths()
    next_draft_input = "next"


class Output:
    """As ModelRunnerOutput."""

    can_run_graph = True


class Graph:
    """The target's graph runner."""

    def replay(self, batch: Any) -> None:
        """Nothing."""


class DraftGraph:
    """The draft's graph runner."""

    def replay(self, batch: Any) -> None:
        """Nothing."""


class Runner:
    """The target's model runner."""

    is_draft_worker = False

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def forward(self, batch: Any) -> type[Output]:
        """One replay."""
        self.graph.replay(batch)
        return Output


class Target:
    """The target's worker."""

    def __init__(self, runner: Any) -> None:
        self.runner = runner

    def forward_batch_generation(self, batch: Any, is_verify: bool = False) -> None:
        """One forward."""
        self.runner.forward(batch)


class Draft:
    """The draft worker."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def draft(self, batch: Any) -> None:
        """One replay."""
        self.graph.replay(batch)

    def extend(self, batch: Any, result: Any) -> None:
        """Nothing."""


class Worker:
    """The speculative worker."""

    def __init__(self, target: Any, draft: Any) -> None:
        self.target, self.draft_worker = target, draft

    def verify(self, batch: Any) -> Result:
        """One target pass."""
        self.target.forward_batch_generation(batch, is_verify=True)
        return Result()

    def forward_batch_generation(self, batch: Any, on_publish: Any = None) -> Result:
        """One cycle."""
        self.draft_worker.draft(batch)
        result = self.verify(batch)
        self.draft_worker.extend(batch, result)
        return result


class Scheduler:
    """Where results are processed, one step late."""

    def process_batch_result(self, batch: Any, result: Any) -> None:
        """Nothing."""


WRAPPED: dict[type, dict[str, str]] = {
    Graph: {"replay": hooks.REPLAY},
    DraftGraph: {"replay": hooks.DRAFT_REPLAY},
    Runner: {"forward": hooks.FORWARD},
    Target: {"forward_batch_generation": hooks.TARGET},
    Draft: {"draft": hooks.DRAFT, "extend": hooks.DRAFT_EXTEND},
    Worker: {"verify": hooks.VERIFY, "forward_batch_generation": hooks.CYCLE},
    Scheduler: {"process_batch_result": hooks.RESULT},
}


class StandInEvent:
    """An event that is over at once."""

    calls = 0

    def __init__(self, enable_timing: bool) -> None:
        self.timing = enable_timing

    def record(self, stream: Any) -> None:
        """Count the call."""
        StandInEvent.calls += 1

    def query(self) -> bool:
        """Count the call."""
        StandInEvent.calls += 1
        return True

    def elapsed_time(self, end: Any) -> float:
        """Count the call."""
        StandInEvent.calls += 1
        return 1.0


def stand_in_torch(cuda: bool) -> SimpleNamespace:
    """What the probe uses of torch, without a device behind it."""
    return SimpleNamespace(
        _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 7),
        __version__="stand-in",
        cuda=SimpleNamespace(
            Event=StandInEvent,
            is_initialized=lambda: cuda,
            is_current_stream_capturing=lambda: False,
            current_stream=lambda: 7,
            current_device=lambda: 0,
            nccl=SimpleNamespace(version=lambda: (0, 0, 0)),
        ),
    )


def real_torch() -> Any:
    """The interpreter's torch with a CUDA context, or None."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.cuda.init()
    return torch


def parts(recorder: Recorder | None) -> tuple[Any, Any]:
    """A worker and a scheduler, wrapped where there is a recorder."""
    made: dict[type, type] = {}
    for cls, methods in WRAPPED.items():
        wrapped = (
            {name: wrapping.wrap(cls.__dict__[name], role, recorder) for name, role in methods.items()}
            if recorder
            else {}
        )
        made[cls] = type(cls.__name__, (cls,), wrapped)
    target = made[Target](made[Runner](made[Graph]()))
    return made[Worker](target, made[Draft](made[DraftGraph]())), made[Scheduler]()


def cpu_us(worker: Any, scheduler: Any, cycles: int = CYCLES) -> float:
    """CPU time of a cycle in us."""
    request = SimpleNamespace(origin_input_ids=[0] * 128, output_ids=[0])
    batch = SimpleNamespace(forward_mode=Mode.DECODE, reqs=[request], seq_lens_sum=129)
    before = worker.forward_batch_generation(batch)
    began = time.thread_time_ns()
    for _ in range(cycles):
        result = worker.forward_batch_generation(batch)
        scheduler.process_batch_result(batch, before)
        before = result
    return (time.thread_time_ns() - began) / cycles / 1e3


def cost_us(torch: Any) -> tuple[float, float]:
    """(recording, switched off): median over rounds of probed minus bare, in us a cycle."""
    sys.modules["torch"] = torch
    on, off = [], []
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(folder)
        bare, probed = parts(None), parts(recorder)
        switch = recorder.switch
        for _ in range(ROUNDS):
            base = cpu_us(*bare)
            recorder.switch = switch
            on.append(cpu_us(*probed) - base)
            recorder.switch = b"\0"
            off.append(cpu_us(*probed) - base)
    return statistics.median(on), statistics.median(off)


def table() -> tuple[str, bool]:
    """The table in Markdown, and whether the limits were kept."""
    torch = real_torch()
    host, off = cost_us(stand_in_torch(cuda=False))
    StandInEvent.calls = 0
    events, _ = cost_us(torch or stand_in_torch(cuda=True))
    if torch is None:
        calls = StandInEvent.calls / (ROUNDS * (CYCLES + 1))
        what = f"stand-in events ({calls:.0f} calls of CUDA a cycle come on top)"
    else:
        what = f"CUDA events on {torch.cuda.get_device_name()}, torch {torch.__version__}"
    rows: list[tuple[str, float, float]] = [
        ("switched off", off, LIMIT_US),
        ("host clock only", host, LIMIT_US),
        (what, events, LIMIT_EVENTS_US),
    ]
    lines = [
        f"Measured {date.today()} on Python {platform.python_version()}: CPU time that the probe adds to a "
        f"cycle of nine wrapped calls, median of {ROUNDS} rounds of {CYCLES} cycles each, bare and probed in "
        "turn.",
        "",
        "| recording | us a cycle | must be at most |",
        "|---|---|---|",
        *(f"| {name} | {us:.1f} | {limit:.0f} |" for name, us, limit in rows),
    ]
    return "\n".join(lines) + "\n", all(us <= limit for _, us, limit in rows)


def write(text: str, document: Path = DOCUMENT) -> None:
    """Replace the table between its markers; it is added at the end where they are missing."""
    present = document.read_text(encoding="utf-8")
    if BEGIN not in present:
        present = present.rstrip("\n") + f"\n\n## What the probe costs\n\n{BEGIN}{END}\n"
    before, _, rest = present.partition(BEGIN)
    document.write_text(before + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")


def main(argv: list[str], show: Callable[[str], None] = print) -> int:
    """Measure, print, and with --write put the table into the documentation."""
    text, kept = table()
    show(text)
    if "--write" in argv:
        write(text)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

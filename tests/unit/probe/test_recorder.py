"""The recorder under a fake GPU: when events are recorded and read, and what happens when things fail."""

from __future__ import annotations

import threading
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cuda import Gpu

from benchharness.probe import eventclock, hooks, rowfile, wrapping
from benchharness.probe.recorder import PATIENCE, Recorder
from benchharness.timings import probe_file
from benchharness.timings.probe_file import Row


class Mode(IntEnum):
    EXTEND = 1
    DECODE = 2
    IDLE = 4


class Lengths:
    """A tensor of accept lengths, on the device until the result was copied."""

    on_cpu = False

    def __init__(self, values: list[int]) -> None:
        self.values = values
        self.is_cpu = self.on_cpu

    def tolist(self) -> list[int]:
        assert self.is_cpu, "reading this would wait for the GPU"
        return self.values


class Part:
    """One of the engine's objects."""

    is_draft_worker = False

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.gpu = engine.gpu


class Runner(Part):
    def forward(self, batch: Any) -> Any:
        self.gpu.launch(5.0)
        self.engine.between()
        return SimpleNamespace(can_run_graph=True)


class Target(Part):
    def forward_batch_generation(self, batch: Any, is_verify: bool = False) -> Any:
        self.engine.runner.forward(batch)
        self.gpu.launch(0.25)
        return SimpleNamespace(next_draft_input=None)


class Worker(Part):
    def draft(self, batch: Any) -> None:
        self.gpu.launch(1.0 if batch is not None else 2.0)

    def verify(self, batch: Any) -> Any:
        self.gpu.launch(0.125)
        self.engine.target.forward_batch_generation(batch, is_verify=True)
        self.gpu.launch(0.5)
        return "logits", SimpleNamespace(accept_length_per_req_cpu=[0, 3]), batch, True

    def extend(self, batch: Any) -> None:
        self.gpu.launch(0.75)

    def forward_batch_generation(self, batch: Any) -> Any:
        if self.engine.fails:
            raise LookupError("the engine's own")
        self.draft(batch)
        self.verify(batch)
        self.extend(batch)
        if self.engine.old:
            return "logits", [1], 0, 3, True
        if self.engine.v2:
            return SimpleNamespace(next_draft_input="x", accept_lens=Lengths([2] * len(batch.reqs)))
        return SimpleNamespace(num_accepted_drafts_per_req_cpu=[1] * len(batch.reqs))

    def capture(self) -> None:
        self.extend(self.engine.batch())


class Scheduler(Part):
    def process_batch_result(self, batch: Any, result: Any) -> None:
        result.accept_lens.is_cpu = True


WRAPPED: dict[type[Part], dict[str, str]] = {
    Runner: {"forward": hooks.FORWARD},
    Target: {"forward_batch_generation": hooks.TARGET},
    Worker: {
        "draft": hooks.DRAFT,
        "verify": hooks.VERIFY,
        "extend": hooks.DRAFT_EXTEND,
        "forward_batch_generation": hooks.CYCLE,
        "capture": hooks.CAPTURE,
    },
    Scheduler: {"process_batch_result": hooks.RESULT},
}


class Engine:
    """An engine of wrapped methods (V2 unless said otherwise) whose work goes to a fake GPU."""

    def __init__(self, recorder: Recorder, gpu: Gpu, v2: bool = True) -> None:
        self.gpu = gpu
        self.v2 = v2
        self.old = False
        self.fails = False
        self.between: Any = lambda: None
        parts: list[Any] = []
        for cls, methods in WRAPPED.items():
            wrapped = {
                name: wrapping.wrap(cls.__dict__[name], role, recorder) for name, role in methods.items()
            }
            parts.append(type(cls.__name__, (cls,), wrapped)(self))
        self.runner, self.target, self.worker, self.scheduler = parts

    def batch(self, mode: Mode = Mode.DECODE, requests: int = 1) -> Any:
        return SimpleNamespace(forward_mode=mode, reqs=[None] * requests, seq_lens_sum=128 * requests)

    def cycle(self, mode: Mode = Mode.DECODE, requests: int = 1) -> Any:
        return self.worker.forward_batch_generation(self.batch(mode, requests))

    def processed(self, result: Any) -> None:
        self.scheduler.process_batch_result(None, result)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu()
    monkeypatch.setitem(__import__("sys").modules, "torch", made.torch())
    return made


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(str(tmp_path))


def written(recorder: Recorder, faults: tuple[str, ...] = ()) -> tuple[Row, ...]:
    """The rows so far; nothing but what is expected went wrong on the way."""
    file = probe_file.read(Path(recorder._rows.path))
    assert tuple(file.report.faults) == faults, file.report.faults
    return file.rows


def faults(recorder: Recorder) -> dict[str, str]:
    return dict(probe_file.read(Path(recorder._rows.path)).report.faults)


def test_gpu_times_are_those_between_events_whatever_the_host_s_clock_says(
    recorder: Recorder, gpu: Gpu
) -> None:
    engine = Engine(recorder, gpu, v2=False)
    for _ in range(3):
        engine.cycle()
        gpu.launch(0.375)  # something between two cycles
        gpu.run()
    engine.cycle()

    rows = written(recorder)
    assert len(rows) == 3
    for row in rows:
        assert row.gpu is not None and row.host.verify is not None
        assert (row.gpu.draft, row.gpu.verify, row.gpu.draft_extend) == (1.0, 5.875, 0.75)
        assert (row.gpu.total, row.gpu.forward, row.gpu.after) == (7.625, 5.0, 0.75)
        assert row.host.verify < 5.0
    assert [row.since_before_ms for row in rows] == [None, 8.0, 8.0]
    assert probe_file.read(Path(recorder._rows.path)).report.clock == "cuda-event"
    assert probe_file.read(Path(recorder._rows.path)).report.versions["nccl"] == "2.27.5"


def test_a_cycle_is_read_only_when_the_gpu_has_passed_its_end(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu, v2=False)
    engine.cycle()
    gpu.run(items=14)  # all but the last phase's work
    engine.cycle()
    assert written(recorder) == ()

    gpu.run()
    engine.cycle()
    assert len(written(recorder)) == 2


def test_what_was_accepted_is_awaited_and_never_fetched_from_the_gpu(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu)
    first = engine.cycle(requests=2)
    gpu.run()
    second = engine.cycle()
    gpu.run()
    assert written(recorder) == ()

    engine.processed(first)
    assert [(row.tokens, row.accepted) for row in written(recorder)] == [(4, (2, 2))]
    engine.processed(second)
    assert len(written(recorder)) == 2
    assert recorder._awaited == {}


def test_what_a_cpu_accepted_is_known_at_once(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lengths, "on_cpu", True)
    Engine(recorder, Gpu()).cycle(requests=2)

    assert [(row.tokens, row.accepted) for row in written(recorder)] == [(4, (2, 2))]


def test_tokens_that_never_come_are_unknown_and_hold_nothing_up(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu)
    for _ in range(PATIENCE + 2):
        engine.cycle()
        gpu.run()

    rows = written(recorder)
    assert [(row.seq, row.tokens) for row in rows] == [(1, None)]
    assert len(recorder.pending) == PATIENCE + 1


def test_nothing_is_recorded_while_a_graph_is_captured(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu, v2=False)

    def capture_again() -> None:
        before = gpu.recorded
        gpu.capturing = True
        engine.worker.capture()
        gpu.capturing = False
        assert gpu.recorded == before

    engine.cycle()
    engine.between = capture_again
    engine.cycle()
    engine.between = lambda: None
    engine.cycle()
    gpu.run()
    engine.cycle()

    rows = written(recorder)
    assert [row.captured for row in rows] == [False, True, False]
    assert all(row.gpu is not None and row.gpu.draft_extend == 0.75 for row in rows)


def test_a_capture_that_nobody_announced_leaves_events_out(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu, v2=False)
    engine.between = lambda: setattr(gpu, "capturing", True)
    engine.worker.extend = lambda batch: setattr(gpu, "capturing", False)
    engine.cycle()
    gpu.run()
    engine.cycle()

    (row,) = written(recorder)
    assert row.gpu is not None and row.events_missing
    assert (row.gpu.draft, row.gpu.forward, row.gpu.verify) == (1.0, None, None)


def test_a_phase_that_comes_twice_in_a_cycle_is_timed_the_first_time(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu, v2=False)

    def draft_again() -> None:
        gpu.launch(16.0)
        engine.worker.draft(None)

    engine.between = draft_again
    engine.cycle()
    gpu.run()
    engine.cycle()

    (row,) = written(recorder)
    assert row.gpu is not None
    assert (row.gpu.draft, row.gpu.forward) == (1.0, 23.0)


def test_a_draft_model_s_forward_is_not_the_target_s(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu, v2=False)
    engine.runner.is_draft_worker = True
    engine.cycle()
    gpu.run()
    engine.cycle()

    (row,) = written(recorder)
    assert row.gpu is not None and row.gpu.verify == 5.875
    assert row.gpu.forward is None and row.graph is None


def test_releases_whose_cycle_returns_a_tuple_tell_what_verify_accepted(recorder: Recorder) -> None:
    # Up to 0.5.2: (logits, token ids, batch id, accepted tokens, graph); verify's own output has each.
    engine = Engine(recorder, Gpu(), v2=False)
    engine.old = True
    engine.cycle(requests=2)

    (row,) = written(recorder)
    assert (row.tokens, row.accepted) == (5, (1, 4))


def test_a_cycle_within_a_capture_of_the_stream_has_host_times_only(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu, v2=False)
    gpu.capturing = True
    engine.cycle()

    (row,) = written(recorder)
    assert row.gpu is None and row.events_missing and row.host.verify is not None
    assert gpu.recorded == 0


def test_an_event_on_another_stream_is_left_out(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu, v2=False)

    def elsewhere() -> None:
        gpu.stream = 8

    engine.between = elsewhere
    engine.worker.extend = lambda batch: setattr(gpu, "stream", 7)
    engine.cycle()
    gpu.run()
    engine.between = lambda: None
    engine.cycle()

    (row,) = written(recorder)
    assert row.gpu is not None and row.events_missing
    assert (row.gpu.total, row.gpu.draft) == (6.875, 1.0)
    assert row.gpu.forward is None and row.gpu.verify is None


def test_events_come_from_a_pool_and_go_back_to_it(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu, v2=False)
    for _ in range(2 * eventclock.POOL):
        engine.cycle()
        gpu.run()

    assert gpu.made == eventclock.POOL
    assert not any(row.events_missing for row in written(recorder))


def test_a_gpu_that_lags_far_behind_costs_events_and_not_memory(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu, v2=False)
    for _ in range(eventclock.POOL):
        engine.cycle()
    gpu.run()
    engine.cycle()

    rows = written(recorder)
    assert gpu.made == eventclock.POOL
    assert len(rows) == eventclock.POOL
    assert rows[0].gpu is not None and rows[-1].gpu is None and rows[-1].events_missing


def test_events_that_fail_are_told_and_the_host_s_clock_goes_on(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu, v2=False)
    gpu.broken = True
    for _ in range(6):
        engine.cycle()
        gpu.run()

    report = probe_file.read(Path(recorder._rows.path)).report
    assert "3 times, switched off: RuntimeError: CUDA error" in report.faults["events"]
    assert report.clock == "host"
    rows = written(recorder, ("events",))
    assert len(rows) == 6
    assert all(row.gpu is None and row.host.total is not None for row in rows)


def test_a_batch_that_can_t_be_understood_never_reaches_the_engine(recorder: Recorder) -> None:
    engine = Engine(recorder, Gpu(), v2=False)
    for _ in range(5):
        assert engine.worker.forward_batch_generation(SimpleNamespace(reqs=[1])) is not None

    assert "3 times, switched off" in faults(recorder)["begin"]
    assert written(recorder, ("begin",)) == ()
    assert recorder.switch == b"\0"


def test_the_engine_s_own_exception_passes_and_leaves_no_cycle(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu, v2=False)
    engine.fails = True
    with pytest.raises(LookupError, match="the engine's own"):
        engine.cycle()
    engine.fails = False
    engine.cycle()
    gpu.run()
    engine.cycle()

    assert [row.seq for row in written(recorder)] == [2]


def test_a_full_file_ends_the_recording_and_not_the_engine(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(recorder, Gpu(), v2=False)
    monkeypatch.setattr(rowfile, "MAX_BYTES", rowfile.STEP_BYTES)
    for _ in range(rowfile.STEP_BYTES // rowfile.CYCLE_BYTES):
        engine.cycle()

    rows = written(recorder)
    assert len(rows) > 0.9 * rowfile.STEP_BYTES / (rowfile.CYCLE_BYTES + 16)
    assert recorder.switch == b"\0"


def test_facts_that_find_no_room_are_dropped_with_a_word(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rowfile, "MAX_BYTES", rowfile.STEP_BYTES)
    recorder.journal.found(["x" * rowfile.STEP_BYTES], [])
    recorder.journal.found(["y"], [])

    assert capsys.readouterr().err.count("nothing more is recorded") == 1
    assert probe_file.read(Path(recorder._rows.path)).report.hooks == ()


def test_another_thread_s_cycles_don_t_mix_with_the_recorder_s(recorder: Recorder, gpu: Gpu) -> None:
    engine = Engine(recorder, gpu, v2=False)
    engine.cycle()
    thread = threading.Thread(target=engine.cycle)
    thread.start()
    thread.join()
    gpu.run()
    engine.cycle()

    assert [row.seq for row in written(recorder)] == [1]


def test_idle_and_prefill_passes_are_marked(recorder: Recorder) -> None:
    engine = Engine(recorder, Gpu(), v2=False)
    for mode in (Mode.EXTEND, Mode.IDLE, Mode.DECODE):
        engine.cycle(mode, requests=3)

    assert [(row.mode, row.tokens, row.batch_size) for row in written(recorder)] == [
        ("prefill", 3, 3),
        ("idle", 3, 3),
        ("decode", 6, 3),
    ]
    assert written(recorder)[2].context_tokens == 384


def test_a_forked_child_writes_nothing_into_its_parent_s_file(recorder: Recorder) -> None:
    engine = Engine(recorder, Gpu(), v2=False)
    engine.cycle()
    recorder.forked()
    engine.cycle()
    assert len(written(recorder)) == 1

    parent = Path(recorder._rows.path)
    recorder.ranked(SimpleNamespace(gpu_id=1, tp_rank=1, device="cpu"))
    engine.cycle()
    assert Path(recorder._rows.path) != parent
    assert len(written(recorder)) == len(probe_file.read(parent).rows) == 1
    assert probe_file.read(Path(recorder._rows.path)).report.rank == 1

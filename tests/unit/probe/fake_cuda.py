"""A torch whose GPU has a clock of its own, for what must hold without a GPU: it runs only when told to."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace


class Gpu:
    """Streams, events and a clock in ms. Work is queued by `launch` and done by `run`.

    Attributes:
        recorded: how many events were ever recorded.
        made: how many events were made.
        capturing: the current stream captures a graph.
        stream: handle of the current stream.
        broken: events raise when they are read.
    """

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.queue: deque[float | Event] = deque()
        self.recorded = self.made = 0
        self.capturing = False
        self.stream = 7
        self.broken = False

    def launch(self, ms: float) -> None:
        self.queue.append(ms)

    def run(self, items: int | None = None) -> None:
        """Do so many of the queued items, all by default."""
        while self.queue and items != 0:
            item = self.queue.popleft()
            if isinstance(item, Event):
                item.at_ms = self.now_ms
            else:
                self.now_ms += item
            items = None if items is None else items - 1

    def torch(self) -> SimpleNamespace:
        """What the probe uses of torch; whatever else it asks for raises AttributeError."""

        def refuse() -> None:
            raise AssertionError("the probe must not wait for the GPU")

        def make(enable_timing: bool) -> Event:
            assert enable_timing
            self.made += 1
            return Event(self)

        return SimpleNamespace(
            _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda device: self.stream),
            __version__="2.99",
            cuda=SimpleNamespace(
                Event=make,
                is_initialized=lambda: True,
                is_current_stream_capturing=lambda: self.capturing,
                current_stream=lambda: SimpleNamespace(cuda_stream=self.stream),
                current_device=lambda: 0,
                synchronize=refuse,
                nccl=SimpleNamespace(version=lambda: (2, 27, 5)),
            ),
        )


class Event:
    """As torch.cuda.Event, without `synchronize` and `wait`."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.at_ms: float | None = None

    def record(self, stream: SimpleNamespace) -> None:
        assert not self.gpu.capturing, "an event was recorded into a graph"
        assert stream.cuda_stream == self.gpu.stream
        self.at_ms = None
        self.gpu.recorded += 1
        self.gpu.queue.append(self)

    def query(self) -> bool:
        return self.at_ms is not None

    def elapsed_time(self, end: Event) -> float:
        if self.gpu.broken or self.at_ms is None or end.at_ms is None:
            raise RuntimeError("CUDA error: device not ready")
        return end.at_ms - self.at_ms

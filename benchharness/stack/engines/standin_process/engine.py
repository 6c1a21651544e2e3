"""The engine: slots, the queue before them, shared state and counters."""

from __future__ import annotations

import asyncio
from collections import deque

from .generation import Ask, Cycle, Generation, Sink
from .journal import Journal
from .noise import Noise
from .phases import wanted
from .prefixes import PrefixCache
from .settings import Settings


class Engine:
    """Serves generations in `max_running` slots, first come, first served.

    Attributes:
        requests: generations that were submitted.
        output_tokens, drafted, accepted, cycles: sums over all generations, those cut short included.
        eager_cycles: cycles that ran without a captured graph.
        compiled: prompt lengths whose first request was there.
    """

    def __init__(self, settings: Settings, noise: Noise, journal: Journal) -> None:
        self.settings = settings
        self.noise = noise
        self.journal = journal
        self.loop = asyncio.get_running_loop()
        self.cache = PrefixCache()
        self.requests = 0
        self.output_tokens = 0
        self.drafted = 0
        self.accepted = 0
        self.cycles = 0
        self.eager_cycles = 0
        self.compiled: set[int] = set()
        self._phases = wanted(settings.phases)
        self._running: set[Generation] = set()
        self._waiting: deque[Generation] = deque()

    @property
    def running(self) -> int:
        """Requests in slots."""
        return len(self._running)

    @property
    def queued(self) -> int:
        """Requests that wait for a slot."""
        return len(self._waiting)

    def submit(self, ask: Ask, sink: Sink) -> Generation:
        """Take a request; it starts when a slot is free."""
        generation = Generation(self.requests, ask, self.noise.request(self.requests), self, sink)
        self.requests += 1
        self._waiting.append(generation)
        self._fill_slots()
        return generation

    def release(self, generation: Generation) -> None:
        """Free the generation's slot or place in the queue; harmless if it holds none."""
        if generation in self._running:
            self._running.remove(generation)
        elif generation in self._waiting:
            self._waiting.remove(generation)
        self._fill_slots()

    def prefill_s(self, generation: Generation) -> float:
        """Seconds of prefill without noise; looks the prompt up in the prefix cache."""
        prompt = generation.ask.prompt
        if self.settings.prefix_cache and generation.ask.cache_prompt:
            generation.cached = self.cache.admit(prompt)
        new = len(prompt) - generation.cached
        return (self.settings.prefill_ms + self.settings.prefill_ms_per_1k * new / 1e3) / 1e3

    def compile_s(self, generation: Generation) -> float:
        """Seconds of compilation: only in the first request of each prompt length."""
        length = len(generation.ask.prompt)
        if not self.settings.jit_s or length in self.compiled:
            return 0.0
        self.compiled.add(length)
        self.journal.compiling(length)
        return self.settings.jit_s

    def batch_factor(self) -> tuple[bool, float]:
        """Whether a cycle started now replays a graph, and the factor that the batch puts on it."""
        settings = self.settings
        warm = self.cycles >= settings.warmup_cycles
        factor = 1.0 if warm else settings.warmup_factor
        if settings.graph_max_batch is None or self.running <= settings.graph_max_batch:
            return True, factor
        return False, factor * settings.eager_factor

    def prefilled(self, generation: Generation) -> None:
        """The first token of a generation is there."""
        self.output_tokens += 1
        self.journal.prefilled(generation, self)

    def cycled(self, generation: Generation, cycle: Cycle) -> None:
        """A cycle of a generation is over."""
        self.output_tokens += cycle.tokens
        self.cycles += 1
        self.drafted += cycle.drafted
        self.accepted += cycle.accepted
        self.eager_cycles += not cycle.graph
        if self._phases is not None:
            self._phases.cycled(cycle, generation.due_s, generation.context)
        self.journal.cycled(generation, cycle, self)

    def finished(self, generation: Generation) -> None:
        """A generation is complete."""
        self.journal.finished(generation, self)
        self.release(generation)

    def tokens_held(self) -> int:
        """Tokens of context of all running requests together."""
        return sum(generation.context for generation in self._running)

    def _fill_slots(self) -> None:
        while self._waiting and len(self._running) < self.settings.max_running:
            generation = self._waiting.popleft()
            self._running.add(generation)
            generation.start()

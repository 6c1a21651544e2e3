"""One request being answered: a schedule of cycles on absolute deadlines."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from .noise import RequestNoise

if TYPE_CHECKING:
    from .engine import Engine


@dataclass(frozen=True, slots=True)
class Ask:
    """What a client asked for, whatever the interface.

    Attributes:
        prompt: token ids.
        output_tokens: tokens to produce.
        stream: events as they come, or one answer at the end.
        counted: the client wants token counts in each event.
        summed: the client wants token counts at the end.
        cache_prompt: a prefix cache may be used.
    """

    prompt: tuple[int, ...]
    output_tokens: int
    stream: bool = True
    counted: bool = True
    summed: bool = True
    cache_prompt: bool = True


@dataclass(frozen=True, slots=True)
class Cycle:
    """One decode cycle as it was scheduled. Without speculation only `total_ms` is there.

    Attributes:
        tokens: tokens produced, bonus token included.
        drafted, accepted: draft tokens proposed, and kept.
        graph: replayed from a captured graph.
    """

    tokens: int
    drafted: int
    accepted: int
    total_ms: float
    draft_ms: float | None
    verify_ms: float | None
    draft_extend_ms: float | None
    graph: bool


class Sink(Protocol):
    """Where the tokens of a generation go."""

    def produced(self, tokens: int, cycle: Cycle | None, due_s: float) -> None:
        """`tokens` more are there, from the prefill if `cycle` is None; `due_s` by the loop's clock."""
        ...


class Generation:
    """The answer to one request.

    Attributes:
        index: number of the request within the launch, from 0.
        cached: prompt tokens that the prefix cache held.
        sent: tokens produced so far; the first one comes from the prefill.
        decode_ms: from the first token to the latest one, as the answer is to say it.
        cycles, drafted, accepted: sums over the cycles so far.
        arrived_s, started_s, first_s, due_s: arrival, start of prefill, first token, latest deadline;
            seconds by the loop's clock, each as scheduled.
    """

    def __init__(self, index: int, ask: Ask, noise: RequestNoise, engine: Engine, sink: Sink) -> None:
        self.index = index
        self.ask = ask
        self.cached = 0
        self.sent = 0
        self.decode_ms = 0.0
        self.cycles = 0
        self.drafted = 0
        self.accepted = 0
        self._engine = engine
        self._noise = noise
        self._sink = sink
        self._carry = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.arrived_s = self.started_s = self.first_s = self.due_s = engine.loop.time()

    @property
    def context(self) -> int:
        """Tokens that attention looks back on."""
        return len(self.ask.prompt) + self.sent

    @property
    def done(self) -> bool:
        """All tokens were produced."""
        return self.sent >= self.ask.output_tokens

    def start(self) -> None:
        """Begin the prefill, now that a slot is free."""
        self.started_s = self.due_s = self._engine.loop.time()
        self.due_s += self._engine.prefill_s(self) * self._noise.factor + self._engine.compile_s(self)
        self.first_s = self.due_s
        self._timer = self._engine.loop.call_at(self.due_s, self._first)

    def cancel(self) -> None:
        """The client has gone, or a fault ends it here."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._engine.release(self)

    def _first(self) -> None:
        self.sent = 1
        self._engine.prefilled(self)
        self._produced(1, None)

    def _finish_cycle(self, cycle: Cycle) -> None:
        self.sent += cycle.tokens
        self.cycles += 1
        self.drafted += cycle.drafted
        self.accepted += cycle.accepted
        self._engine.cycled(self, cycle)
        self._produced(cycle.tokens, cycle)

    def _produced(self, tokens: int, cycle: Cycle | None) -> None:
        # The next deadline counts from this one, not from now: being late once delays nothing after it.
        due_s, self._timer = self.due_s, None
        if self.done:
            self._engine.finished(self)
        else:
            coming = self._next_cycle()
            self.due_s += coming.total_ms / 1e3
            self._timer = self._engine.loop.call_at(self.due_s, self._finish_cycle, coming)
        self._sink.produced(tokens, cycle, due_s)

    def _next_cycle(self) -> Cycle:
        settings = self._engine.settings
        context_k = self.context / 1000.0
        graph, factor = self._engine.batch_factor()
        factor *= self._noise.cycle_factor(self.sent)
        if not settings.speculation:
            step_ms = factor * (settings.step_ms + settings.step_ms_per_1k_context * context_k)
            return Cycle(1, 0, 0, step_ms, None, None, None, graph)
        drafted = min(settings.drafted, self.ask.output_tokens - self.sent - 1)
        accepted = min(self._accepted(), drafted)
        draft_ms = factor * settings.draft_ms
        verify_ms = factor * (settings.verify_ms + settings.verify_ms_per_1k_context * context_k)
        extend_ms = factor * settings.draft_extend_ms
        total_ms = draft_ms + verify_ms + extend_ms + factor * settings.rest_ms
        return Cycle(1 + accepted, drafted, accepted, total_ms, draft_ms, verify_ms, extend_ms, graph)

    def _accepted(self) -> int:
        """Draft tokens that verification keeps in the next cycle, were there no end of the answer."""
        settings = self._engine.settings
        if settings.accept_length is not None:
            self._carry += settings.accept_length
            tokens = math.floor(self._carry + 1e-9)
            self._carry -= tokens
            return tokens - 1
        accepted = 0
        for probability in settings.accept_probabilities:
            if self._noise.draws.random() >= probability:
                break
            accepted += 1
        return accepted

"""The answer to one generating request: turns what is produced into events, and suffers stream faults."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from . import faults
from .apis import Api, truth
from .generation import Cycle, Generation
from .settings import Settings

if TYPE_CHECKING:
    from .connection import Connection


class Answer:
    """Writes a generation to a connection through one interface."""

    def __init__(self, connection: Connection, api: Api, settings: Settings) -> None:
        self.generation: Generation | None = None
        self._connection = connection
        self._api = api
        self._settings = settings
        self._by_token = settings.stream == "token" or (settings.stream == "auto" and api.by_token)
        self._sent = 0
        self._text = ""

    def cancel(self) -> None:
        """The client has gone."""
        if self.generation is not None:
            self.generation.cancel()

    def produced(self, tokens: int, cycle: Cycle | None, due_s: float) -> None:
        """See `generation.Sink`."""
        generation = self.generation
        if generation is None:
            raise RuntimeError("tokens before the generation")
        fault = faults.in_stream(self._settings, generation.index, self._sent)
        if fault is not None:
            self._suffer(fault, generation)
            return
        late_s = 0.0 if self._settings.timings_from == "schedule" else time.monotonic() - due_s
        generation.decode_ms = 1e3 * (due_s + late_s - generation.first_s) if cycle else 0.0
        if generation.ask.stream:
            self._connection.send(self._events(generation, tokens, cycle, due_s))
        else:
            self._text += "".join(self._word(self._sent + step) for step in range(tokens))
            self._sent += tokens
        if generation.done:
            self._close(generation)

    def _events(self, generation: Generation, tokens: int, cycle: Cycle | None, due_s: float) -> bytes:
        step = 1 if self._by_token else tokens
        true = truth(cycle, due_s) if self._settings.truth else ""
        events = []
        for _ in range(0, tokens, step):
            text = "".join(self._word(self._sent + ahead) for ahead in range(step))
            self._sent += step
            if self._settings.cumulative_text and self._api.path == "/generate":
                self._text += text
                text = self._text
            events.append(self._api.event(generation, self._sent, text, _token(self._sent - 1), true))
        return b"".join(events)

    def _close(self, generation: Generation) -> None:
        if generation.ask.stream:
            self._connection.send(self._api.closing(generation), last=True)
            self._connection.end()
        else:
            self._connection.respond_json(200, self._api.whole(generation, self._text))

    def _word(self, index: int) -> str:
        """The token's text; nothing for the share of tokens that don't show."""
        share = self._settings.text_share
        shows = share >= 1 or int((index + 1) * share + 1e-9) > int(index * share + 1e-9)
        return f" t{_token(index)}" if shows else ""

    def _suffer(self, fault: str, generation: Generation) -> None:
        if fault == "die-mid-stream":
            faults.die(1, "RuntimeError: the stand-in was told to die (fault: die-mid-stream)")
        if fault == "crash-mid-stream":
            faults.crash()
        generation.cancel()
        if fault == "reset-mid-stream":
            self._connection.reset()
        elif fault == "half-close":
            self._connection.half_close()
        elif fault == "error-event" and generation.ask.stream:
            self._connection.send(self._api.failed("the stand-in was told to fail"), last=True)
            self._connection.end()
        elif fault == "error-event":
            self._connection.respond_json(500, {"error": {"message": "told to fail", "code": 500}})
        # What is left is `stall`: the connection stays open, and nothing more is ever sent.


def _token(index: int) -> int:
    return 1000 + index * 7919 % 8000

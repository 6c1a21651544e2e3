"""How engines are asked to stream, and what their events say of tokens.

A dialect builds the request and folds the events of its answer into an `Answer`. Tokens are counted
from the server's own cumulative counts; only where it gives none, one is assumed for each chunk that
carries text, and the answer says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from benchharness.errors import UsageError, nearest
from benchharness.records import Failure
from benchharness.workload.prompts import Prompt

StampedEvent = tuple[int, bytes, bytes]
"""(arrival ns, event name, data)."""

Json = Mapping[str, Any]

DONE = b"[DONE]"


@dataclass(slots=True)
class Answer:
    """What the events of one answer add up to; fields as in `records.RequestTrace`.

    Attributes:
        text_chunks: chunks that carried text: what a client that counts chunks would take for tokens.
        tokens_mismatch: the server's counts disagree with each other, or it gave only a total that
            differs from `text_chunks`, so that which chunk carried how many tokens is not known.
        ended: the dialect's own sign of the end was seen.
    """

    chunk_ns: list[int] = field(default_factory=list)
    chunk_tokens: list[int] = field(default_factory=list)
    chunk_server_ms: list[float] = field(default_factory=list)
    output_tokens: int = 0
    tokens_estimated: bool = False
    tokens_mismatch: bool = False
    text_chunks: int = 0
    server_prompt_tokens: int | None = None
    cached_tokens: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    verify_cycles: int | None = None
    ended: bool = False
    failure: Failure | None = None
    text: str = ""

    def fail(self, failure: Failure, text: str) -> None:
        """Note why the answer doesn't count; the first reason stays."""
        if self.failure is None:
            self.failure, self.text = failure, text


class Dialect(Protocol):
    """One way to ask for a stream.

    Attributes:
        path: where requests are posted.
    """

    path: str

    def body(self, prompt: Prompt, output_tokens: int, extra: Json) -> bytes:
        """The request body as JSON; `extra` wins over the dialect's own fields."""
        ...

    def read(self, event: Json, tally: Tally) -> None:
        """Take in one event."""
        ...


class Tally:
    """Counts tokens of chunks from cumulative counts while events are folded."""

    __slots__ = ("_counted", "_text_ns", "_total", "_uncounted", "answer", "ns")

    def __init__(self) -> None:
        self.answer = Answer()
        self.ns = 0
        self._total = 0
        self._counted = False
        self._uncounted = False
        self._text_ns: list[int] = []

    @property
    def counting(self) -> bool:
        """The server has given its count in every chunk of text so far."""
        return self._counted and not self._uncounted

    def chunk(self, total: int | None, has_text: bool, server_ms: float = math.nan) -> None:
        """One streamed chunk: the server's count of tokens so far (None without one)."""
        if has_text:
            self._text_ns.append(self.ns)
        if total is None:
            self._uncounted = self._uncounted or has_text
            return
        self._counted = True
        new = total - self._total
        if new > 0:
            answer = self.answer
            answer.chunk_ns.append(self.ns)
            answer.chunk_tokens.append(new)
            answer.chunk_server_ms.append(server_ms)
            self._total = total
        elif new < 0:
            self.answer.tokens_mismatch = True

    def total(self, total: int | None) -> None:
        """The server's final count, given apart from any chunk."""
        if total is None or total == self._total:
            return
        answer = self.answer
        if self._counted:
            answer.tokens_mismatch = True
            if answer.chunk_tokens and total > self._total:
                answer.chunk_tokens[-1] += total - self._total
        self._total = max(total, self._total)

    def close(self) -> Answer:
        """The finished answer."""
        answer = self.answer
        answer.text_chunks = len(self._text_ns)
        if self._uncounted or not self._counted:
            # A server that counts in some chunks only has given no more than a total.
            self._spread()
        answer.output_tokens = sum(answer.chunk_tokens)
        return answer

    def _spread(self) -> None:
        """Give each chunk of text tokens where none has a count: one, or an even share of the total."""
        answer, chunks = self.answer, len(self._text_ns)
        if not chunks:
            return
        if self._total == 0:
            answer.tokens_estimated = True
            tokens = [1] * chunks
        else:
            answer.tokens_mismatch = self._total != chunks
            tokens = [
                self._total * (place + 1) // chunks - self._total * place // chunks for place in range(chunks)
            ]
        kept = [(ns, count) for ns, count in zip(self._text_ns, tokens, strict=True) if count]
        answer.chunk_ns = [ns for ns, _ in kept]
        answer.chunk_tokens = [count for _, count in kept]
        answer.chunk_server_ms = [math.nan] * len(kept)


def fold(dialect: Dialect, events: Iterable[StampedEvent]) -> Answer:
    """Fold the events of one answer, in order, into what they say; never raises on what a server sent."""
    tally = Tally()
    answer = tally.answer
    loads, read = orjson.loads, dialect.read
    for ns, name, data in events:
        if data == DONE:
            answer.ended = True
            continue
        try:
            event = loads(data)
        except ValueError:
            answer.fail(Failure.MALFORMED, f"an event is not JSON: {excerpt(data)}")
            break
        if type(event) is not dict:
            answer.fail(Failure.MALFORMED, f"an event is not a JSON object: {excerpt(data)}")
            break
        if name == b"error" or event.get("error") is not None:
            answer.fail(Failure.ENGINE_ERROR, error_text(event))
            break
        tally.ns = ns
        try:
            read(event, tally)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
            answer.fail(Failure.MALFORMED, f"an event has fields of the wrong kind: {excerpt(data)}")
            break
    return tally.close()


def excerpt(data: bytes, limit: int = 200) -> str:
    """The beginning of `data` on one line, for messages."""
    text = data[: 4 * limit].decode("utf-8", "replace")
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def error_text(event: Json) -> str:
    """What an engine says in an error event or body."""
    error = event.get("error", event)
    message = error.get("message", error) if isinstance(error, Mapping) else error
    return excerpt(message.encode() if isinstance(message, str) else orjson.dumps(message, default=str))


def dialect(name: str) -> Dialect:
    """The dialect of that name; raises UsageError for an unknown one."""
    from benchharness.workload.engine_dialects import LlamaCpp, OpenAiChat, OpenAiCompletions, Sglang, Vllm

    known: dict[str, type[Dialect]] = {
        "llamacpp": LlamaCpp,
        "sglang": Sglang,
        "openai-completions": OpenAiCompletions,
        "openai-chat": OpenAiChat,
        "vllm": Vllm,
    }
    if name not in known:
        raise UsageError(
            f"no streaming dialect {name!r}{nearest(name, known)}", f"use one of {', '.join(sorted(known))}"
        )
    return known[name]()

"""Prompts: exact lengths, made of token ids, and different for every run, cell and request.

A prompt is drawn with SHAKE-256, which no version of Python or numpy changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchharness.errors import UsageError
from benchharness.records import Endpoint, Workload
from benchharness.workload.load import arrivals
from benchharness.workload.prompt_file import FilePrompt, read_prompts

WARMUP_REQUESTS = 1
"""Warm-up requests of a workload that leaves their number to the harness."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one request sends.

    Attributes:
        ids: token ids; empty where `text` or `messages` is sent.
        text: plain text.
        messages: (role, content) of a chat, oldest first.
        tokens: length in tokens, those that the engine adds by itself included; 0 if not known.
        output_tokens: tokens to ask for; None takes the workload's.
        after: index of the request that must have ended before this one is sent (multi-turn); None if free.
    """

    ids: tuple[int, ...] = ()
    text: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    tokens: int = 0
    output_tokens: int | None = None
    after: int | None = None


Prompts = Callable[[int], Prompt | Sequence[int]]
"""The prompt of a request (or just its token ids), by its index within the trial, warm-up included."""


def as_prompt(prompt: Prompt | Sequence[int], endpoint: Endpoint) -> Prompt:
    """`prompt` itself, or the one that bare token ids stand for."""
    if isinstance(prompt, Prompt):
        return prompt
    return Prompt(ids=tuple(prompt), tokens=len(prompt) + endpoint.bos_tokens)


def warmups(workload: Workload) -> int:
    """How many warm-up requests come first."""
    return WARMUP_REQUESTS if workload.warmup_requests is None else workload.warmup_requests


def prompt_ids(
    endpoint: Endpoint, context_tokens: int, *, seed: int, salt: str, request: int
) -> tuple[int, ...]:
    """Token ids for one request, `context_tokens` long once the engine has put its own in front.

    No two of (seed, salt, context, request) share more of a beginning than chance gives, so no prefix
    cache helps. The same arguments give the same ids on every machine.

    Args:
        endpoint: its `token_pool` is drawn from; its `bos_tokens` are left out.
        context_tokens: length as the engine counts it.
        seed, salt: the launch block's seed and the run's salt.
        request: index within the trial.

    Raises:
        UsageError: no token is left to send, or the engine gave no pool to draw from.
    """
    count = _sendable(endpoint, context_tokens)
    return draw(endpoint.token_pool, count, f"{seed}/{salt}/{context_tokens}/{request}")


def draw(pool: tuple[int, ...], count: int, label: str) -> tuple[int, ...]:
    """`count` members of `pool`, drawn uniformly with `label` as the seed."""
    size = len(pool)
    # 64 bits a draw: the bias of the remainder is below 2^-40 for any vocabulary.
    stream = hashlib.shake_256(label.encode("utf-8")).digest(8 * count)
    return tuple(
        pool[int.from_bytes(stream[at : at + 8], "little") % size] for at in range(0, len(stream), 8)
    )


def for_workload(endpoint: Endpoint, workload: Workload, *, seed: int, salt: str) -> Prompts:
    """The prompts of a whole trial, as the workload declares them.

    Plain: each request its own (`prompt_ids`). `shared_prefix_tokens`: all begin alike. `turns`: turn k
    of a conversation begins with everything up to turn k - 1, a stand-in for its answer, and then has
    `context_tokens` new ones; real answers are not used, so that all stacks do equal work.
    `trace_file`: lengths from its rows. `prompts_file`: texts, of which each carries a salted first word.

    Raises:
        UsageError: the declaration is contradictory or its files can't be used.
    """
    _refuse_contradictions(workload)
    if workload.prompts_file is not None:
        return _FromFile(workload, read_prompts(Path(workload.prompts_file)), f"{seed}/{salt}", seed)
    due = arrivals(workload, seed)
    lengths = [(one.context_tokens, one.output_tokens) for one in due or ()]
    return _Drawn(endpoint, workload, lengths, seed, salt)


def check(workload: Workload, seed: int = 0) -> None:
    """Refuse, before any engine is started, what `for_workload` or `client.drive` would refuse later.

    Reads the workload's files; opens no socket. What only the engine can tell is left: its limit of
    context, the tokens that it adds.

    Args:
        workload: the declaration.
        seed: of Poisson arrivals.

    Raises:
        UsageError: the declaration is contradictory; or a file is missing, has too few requests, no
            columns that are known, or a row that can't be read or sent.
    """
    _refuse_contradictions(workload)
    conversations = -(-workload.requests // workload.turns)
    if workload.concurrency is not None and conversations < workload.concurrency:
        raise UsageError(
            f"{workload.requests} requests, {workload.turns} a conversation, "
            f"can't keep {workload.concurrency} streams open",
            f"ask for at least {(workload.concurrency - 1) * workload.turns + 1} requests",
        )
    if workload.prompts_file is not None:
        read_prompts(Path(workload.prompts_file))
    shared = workload.shared_prefix_tokens
    for number, one in enumerate(arrivals(workload, seed) or (), 1):
        if one.context_tokens is not None and shared >= one.context_tokens:
            raise UsageError(
                f"shared_prefix_tokens ({shared}) leaves nothing of the {one.context_tokens} tokens of "
                f"request {number} of {workload.trace_file}",
                "use a shorter shared prefix",
            )


def _refuse_contradictions(workload: Workload) -> None:
    shared, context = workload.shared_prefix_tokens, workload.context_tokens
    if workload.turns < 1 or shared < 0:
        raise UsageError(
            f"turns is {workload.turns} and shared_prefix_tokens {shared}",
            "use at least one turn and no negative lengths",
        )
    if workload.prompts_file is not None:
        for name, given in (("trace_file", workload.trace_file), ("shared_prefix_tokens", shared)):
            if given:
                raise UsageError(f"prompts_file brings its own prompts: no {name}", "keep one of them")
    elif shared and shared >= context:
        raise UsageError(
            f"shared_prefix_tokens ({shared}) leaves nothing of a context of {context} tokens",
            f"use at most {context - 1}",
        )


def _sendable(endpoint: Endpoint, context_tokens: int) -> int:
    """How many ids to send for a context of that length."""
    count = context_tokens - endpoint.bos_tokens
    if count < 1:
        raise UsageError(
            f"a context of {context_tokens} tokens leaves none to send: "
            f"the engine adds {endpoint.bos_tokens} by itself",
            f"use context_tokens of at least {endpoint.bos_tokens + 1}",
        )
    if not endpoint.token_pool:
        raise UsageError("the engine gave no tokens to make prompts of", "give a prompts file instead")
    return count


class _Drawn:
    """Prompts of token ids."""

    def __init__(
        self,
        endpoint: Endpoint,
        workload: Workload,
        lengths: Sequence[tuple[int | None, int | None]],
        seed: int,
        salt: str,
    ) -> None:
        self._endpoint = endpoint
        self._workload = workload
        self._lengths = lengths
        self._label = f"{seed}/{salt}"
        self._seed = seed
        self._salt = salt
        self._warmups = warmups(workload)

    def __call__(self, request: int) -> Prompt:
        context, output = self._length(request)
        turn, first = self._turn(request)
        if turn == 0:
            ids = self._begin(request, context)
        else:
            ids = self._begin(first, self._length(first)[0])
            for number in range(1, turn + 1):
                more = self._workload.output_tokens + context
                ids += draw(self._endpoint.token_pool, more, f"{self._label}/{first}/turn/{number}")
        tokens = len(ids) + self._endpoint.bos_tokens
        self._check(tokens, output or self._workload.output_tokens)
        return Prompt(ids=ids, tokens=tokens, output_tokens=output, after=request - 1 if turn else None)

    def _length(self, request: int) -> tuple[int, int | None]:
        place = request - self._warmups
        if place < 0 or not self._lengths:
            return self._workload.context_tokens, None
        context, output = self._lengths[place]
        return context or self._workload.context_tokens, output

    def _turn(self, request: int) -> tuple[int, int]:
        """(turn within its conversation, index of the conversation's first request)."""
        place = request - self._warmups
        turn = place % self._workload.turns if place >= 0 else 0
        return turn, request - turn

    def _begin(self, request: int, context: int) -> tuple[int, ...]:
        shared = self._workload.shared_prefix_tokens
        own = prompt_ids(self._endpoint, context, seed=self._seed, salt=self._salt, request=request)
        if not shared:
            return own
        if shared >= len(own):
            raise UsageError(
                f"shared_prefix_tokens ({shared}) leaves nothing of a context of {context} tokens",
                f"use at most {len(own) - 1}",
            )
        return draw(self._endpoint.token_pool, shared, f"{self._label}/shared") + own[shared:]

    def _check(self, context: int, output: int) -> None:
        limit = self._endpoint.context_limit
        if limit is not None and context + output > limit:
            raise UsageError(
                f"a request of {context} + {output} tokens is more than the engine's {limit}",
                "shorten it, or raise the engine's context length",
            )


class _FromFile:
    """Prompts of text, in an order shuffled by the seed; they begin again when the file is used up."""

    def __init__(self, workload: Workload, entries: Sequence[FilePrompt], label: str, seed: int) -> None:
        self._workload = workload
        self._label = label
        keys = [hashlib.sha256(f"{seed}/order/{number}".encode()).digest() for number in range(len(entries))]
        self._entries = [entries[number] for number in sorted(range(len(entries)), key=keys.__getitem__)]
        self._warmups = warmups(workload)

    def __call__(self, request: int) -> Prompt:
        place = max(0, request - self._warmups)
        turn = place % self._workload.turns if request >= self._warmups else 0
        first = request - turn
        entry = self._entries[(first // self._workload.turns) % len(self._entries)]
        messages = _until_turn(entry.messages, turn)
        mark = hashlib.sha256(f"{self._label}/{first}".encode()).hexdigest()[:8]
        salted = ((messages[0][0], f"[{mark}] {messages[0][1]}"), *messages[1:])
        text = "\n".join(content for _, content in salted)
        after = request - 1 if turn else None
        return Prompt(text=text, messages=salted, output_tokens=entry.output_tokens, after=after)


def _until_turn(messages: tuple[tuple[str, str], ...], turn: int) -> tuple[tuple[str, str], ...]:
    """A conversation up to its user's message number `turn`, or to its last one."""
    users = [place for place, (role, _) in enumerate(messages) if role == "user"]
    return messages[: users[min(turn, len(users) - 1)] + 1]

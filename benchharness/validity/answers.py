"""Did every request get the answer that was asked for, and who counted its tokens?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from benchharness.records import Finding, Trial
from benchharness.validity.counted import measured, whole

MOST_CACHED_TOKENS = 16
"""Prompt tokens that may come from a cache without being called a hit: the start-of-text token, a
shared template, one page of a paged cache."""


def requests_succeeded(trial: Trial) -> Iterator[Finding]:
    """Every measured request got its whole answer."""
    failed = [trace for trace in measured(trial) if trace.failure is not None]
    if failed:
        reason, count = Counter(str(trace.failure) for trace in failed).most_common(1)[0]
        text = next(trace.failure_text for trace in failed if str(trace.failure) == reason)
        yield Finding(
            "requests-succeeded",
            True,
            f"{len(failed)} of {len(measured(trial))} requests failed ({count} x {reason}: {text})",
        )
    elif not measured(trial):
        yield Finding("requests-succeeded", True, "no request was measured")


def output_length_reached(trial: Trial) -> Iterator[Finding]:
    """Every answer is as long as was asked for."""
    asked = [trace for trace in whole(trial) if trace.asked_tokens and not trace.tokens_estimated]
    wrong = [trace for trace in asked if trace.output_tokens != trace.asked_tokens]
    if wrong:
        yield Finding(
            "output-length-reached",
            True,
            f"{len(wrong)} answers are not as long as was asked for "
            f"(one has {wrong[0].output_tokens} tokens of {wrong[0].asked_tokens})",
        )


def context_as_declared(trial: Trial) -> Iterator[Finding]:
    """The server saw each prompt as long as it was made."""
    counts = Counter(
        (trace.prompt_tokens, trace.server_prompt_tokens)
        for trace in whole(trial)
        if trace.prompt_tokens and trace.server_prompt_tokens not in (None, trace.prompt_tokens)
    )
    if counts:
        (wanted, seen), _ = counts.most_common(1)[0]
        yield Finding(
            "context-as-declared", True, f"the server counted {seen} prompt tokens where {wanted} were sent"
        )


def tokens_counted_by_server(trial: Trial) -> Iterator[Finding]:
    """Token counts come from the server, not from an estimate."""
    estimated = sum(trace.tokens_estimated for trace in whole(trial))
    if estimated:
        yield Finding(
            "tokens-counted-by-server",
            False,
            f"the server gave no token count for {estimated} answers: one token a chunk is assumed",
        )


def token_counts_agree(trial: Trial) -> Iterator[Finding]:
    """The server's token counts agree with each other and with the chunks that it sent."""
    wrong = [trace for trace in whole(trial) if trace.tokens_mismatch]
    if wrong:
        yield Finding(
            "token-counts-agree",
            False,
            f"in {len(wrong)} answers the server's token count differs from what its chunks carried "
            f"(one: {wrong[0].output_tokens} tokens, {wrong[0].text_chunks} text chunks); the count holds",
        )


def no_prefix_hits(trial: Trial) -> Iterator[Finding]:
    """No more of a prompt was served from a prefix cache than the workload declares to be shared."""
    if trial.workload.turns > 1:
        return
    most = trial.workload.shared_prefix_tokens + MOST_CACHED_TOKENS
    cached = [trace.cached_tokens or 0 for trace in whole(trial)]
    hits = [tokens for tokens in cached if tokens > most]
    if hits:
        yield Finding(
            "no-prefix-hits",
            True,
            f"{len(hits)} prompts were served from a prefix cache (up to {max(hits)} tokens) that the "
            "workload does not declare",
        )


def prefix_hits_known(trial: Trial) -> Iterator[Finding]:
    """The server says how much of a prompt came from a cache."""
    silent = [trace for trace in whole(trial) if trace.cached_tokens is None]
    if silent and trial.workload.turns == 1:
        yield Finding(
            "prefix-hits-known", False, "the server doesn't say whether prompts came from a prefix cache"
        )

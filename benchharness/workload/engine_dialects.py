"""The dialects of the engines: llama.cpp, SGLang, vLLM, and the OpenAI streams that all of them speak."""

from __future__ import annotations

import math
from typing import Any

import orjson

from benchharness.errors import UsageError
from benchharness.records import Failure
from benchharness.workload.dialects import Json, Tally
from benchharness.workload.prompts import Prompt


def _ids_or_text(prompt: Prompt) -> list[int] | str:
    if prompt.messages:
        return "\n".join(content for _, content in prompt.messages)
    return list(prompt.ids) if prompt.ids else prompt.text


def _count(value: Any) -> int | None:
    """A count that a server gave; None where it gave none. Raises ValueError for what is no count."""
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def _first(fields: Json, names: tuple[str, ...]) -> int | None:
    for name in names:
        if fields.get(name) is not None:
            return _count(fields[name])
    return None


class LlamaCpp:
    """llama.cpp `/completion`: every token is a chunk, `timings` has its count and its cycle's time.

    Tokens of one cycle carry the same `predicted_ms` and often come in one read.
    """

    path = "/completion"

    def body(self, prompt: Prompt, output_tokens: int, extra: Json) -> bytes:
        """See `Dialect.body`."""
        fields: dict[str, Any] = {
            "prompt": _ids_or_text(prompt),
            "n_predict": output_tokens,
            "stream": True,
            "ignore_eos": True,
            "timings_per_token": True,
            "temperature": 0,
            "cache_prompt": False,
        }
        return orjson.dumps(fields | dict(extra))

    def read(self, event: Json, tally: Tally) -> None:
        """See `Dialect.read`."""
        timings = event.get("timings") or {}
        total = _count(timings.get("predicted_n", event.get("tokens_predicted")))
        if event.get("stop") is True:
            tally.total(total)
            self._final(event, timings, tally)
            return
        server_ms = timings.get("predicted_ms")
        tally.chunk(total, bool(event.get("content")), math.nan if server_ms is None else float(server_ms))

    def _final(self, event: Json, timings: Json, tally: Tally) -> None:
        answer = tally.answer
        answer.ended = True
        answer.server_prompt_tokens = _count(event.get("tokens_evaluated"))
        answer.cached_tokens = _count(timings.get("cache_n"))
        answer.drafted_tokens = _count(timings.get("draft_n"))
        answer.accepted_tokens = _count(timings.get("draft_n_accepted"))


class Sglang:
    """SGLang `/generate`: each event's `meta_info` has the cumulative count of tokens.

    The names of the acceptance counts changed with the releases; the first that is there is taken.
    """

    path = "/generate"
    drafted = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
    accepted = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")

    def body(self, prompt: Prompt, output_tokens: int, extra: Json) -> bytes:
        """See `Dialect.body`; `sampling_params` of `extra` are merged, not replaced."""
        sampling = {"max_new_tokens": output_tokens, "temperature": 0, "ignore_eos": True}
        more = dict(extra)
        sampling.update(more.pop("sampling_params", None) or {})
        ids_or_text = _ids_or_text(prompt)
        key = "text" if isinstance(ids_or_text, str) else "input_ids"
        return orjson.dumps({key: ids_or_text, "sampling_params": sampling, "stream": True} | more)

    def read(self, event: Json, tally: Tally) -> None:
        """See `Dialect.read`."""
        meta = event["meta_info"]
        tally.chunk(_count(meta.get("completion_tokens")), bool(event.get("text") or event.get("output_ids")))
        reason = meta.get("finish_reason")
        if reason is None:
            return
        answer = tally.answer
        answer.ended = True
        if isinstance(reason, dict) and reason.get("type") == "abort":
            answer.fail(
                Failure.ENGINE_ERROR, f"aborted by the engine: {reason.get('message', '')}".rstrip(": ")
            )
        answer.server_prompt_tokens = _count(meta.get("prompt_tokens"))
        answer.cached_tokens = _count(meta.get("cached_tokens"))
        answer.verify_cycles = _count(meta.get("spec_verify_ct"))
        answer.drafted_tokens = _first(meta, self.drafted)
        answer.accepted_tokens = _first(meta, self.accepted)


class _OpenAi:
    """What completions and chat share: usage in every chunk where the server can, else at the end."""

    path = ""

    def fields(self, output_tokens: int) -> dict[str, Any]:
        """The fields that both streams take."""
        return {
            "model": "default",
            "max_tokens": output_tokens,
            "stream": True,
            "temperature": 0,
            "ignore_eos": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }

    def has_text(self, choice: Json) -> bool:
        """Whether a choice of a chunk carries something that the model wrote."""
        raise NotImplementedError

    def read(self, event: Json, tally: Tally) -> None:
        """See `Dialect.read`."""
        usage = event.get("usage") or {}
        total = _count(usage.get("completion_tokens"))
        choices = event.get("choices") or ()
        finished = False
        for choice in choices:
            finished = finished or choice.get("finish_reason") is not None
            text = self.has_text(choice)
            # llama.cpp gives the total with the finish reason; without text that is no chunk of tokens,
            # unless the server has counted in every chunk so far: then what grew came with this one.
            if text or not finished or tally.counting:
                tally.chunk(total, text)
        if finished or not choices:
            tally.total(total)
        if finished:
            tally.answer.ended = True
        if usage:
            self._usage(usage, tally)
        timings = event.get("timings")
        if timings:
            tally.answer.drafted_tokens = _count(timings.get("draft_n"))
            tally.answer.accepted_tokens = _count(timings.get("draft_n_accepted"))

    def _usage(self, usage: Json, tally: Tally) -> None:
        tally.answer.server_prompt_tokens = _count(usage.get("prompt_tokens"))
        details = usage.get("prompt_tokens_details") or {}
        if details.get("cached_tokens") is not None:
            tally.answer.cached_tokens = _count(details["cached_tokens"])


class OpenAiCompletions(_OpenAi):
    """OpenAI `/v1/completions`."""

    path = "/v1/completions"

    def body(self, prompt: Prompt, output_tokens: int, extra: Json) -> bytes:
        """See `Dialect.body`."""
        return orjson.dumps({"prompt": _ids_or_text(prompt)} | self.fields(output_tokens) | dict(extra))

    def has_text(self, choice: Json) -> bool:
        """See `_OpenAi.has_text`."""
        return bool(choice.get("text"))


class Vllm(OpenAiCompletions):
    """vLLM `/v1/completions`: one chunk for each step of its engine, and its counts of the whole request.

    The last event's `metrics.speculative_decoding` counts the steps that had drafts, so only where those
    account for every token after the first one is their number that of all cycles.
    """

    def read(self, event: Json, tally: Tally) -> None:
        """See `Dialect.read`."""
        super().read(event, tally)
        counts = (event.get("metrics") or {}).get("speculative_decoding")
        if not counts:
            return
        answer = tally.answer
        answer.drafted_tokens = _count(counts.get("num_draft_tokens"))
        answer.accepted_tokens = _count(counts.get("num_accepted_draft_tokens"))
        steps = _count(counts.get("num_spec_steps"))
        after_first = sum(answer.chunk_tokens[1:])
        if steps and answer.accepted_tokens is not None and steps + answer.accepted_tokens >= after_first:
            answer.verify_cycles = steps


class OpenAiChat(_OpenAi):
    """OpenAI `/v1/chat/completions`."""

    path = "/v1/chat/completions"

    def body(self, prompt: Prompt, output_tokens: int, extra: Json) -> bytes:
        """See `Dialect.body`; token ids can't be sent as a chat."""
        if prompt.ids:
            raise UsageError(
                "the openai-chat dialect can't send token ids",
                "use openai-completions, or give a prompts file with text",
            )
        messages = prompt.messages or (("user", prompt.text),)
        listed = [{"role": role, "content": content} for role, content in messages]
        return orjson.dumps({"messages": listed} | self.fields(output_tokens) | dict(extra))

    def has_text(self, choice: Json) -> bool:
        """See `_OpenAi.has_text`."""
        delta = choice.get("delta") or {}
        return bool(delta.get("content") or delta.get("reasoning_content") or delta.get("tool_calls"))

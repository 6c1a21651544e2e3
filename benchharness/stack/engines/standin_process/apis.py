"""The three interfaces that it speaks: SGLang's /generate, OpenAI's completions, llama.cpp's /completion."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .generation import Ask, Cycle, Generation
from .settings import Settings


class BadRequestError(ValueError):
    """The body asks for something that can't be served; the text goes to the client."""


class Api:
    """One interface: how a request reads and how events are written.

    Attributes:
        path: where it is served.
        by_token: the real engine sends one event a token rather than one a cycle.
        done: what ends a stream.
    """

    path = ""
    by_token = False
    done = b"data: [DONE]\n\n"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def ask(self, body: Mapping[str, Any]) -> Ask:
        """What the body asks for; raises BadRequestError."""
        raise NotImplementedError

    def event(self, generation: Generation, count: int, text: str, token: int, truth: str) -> bytes:
        """One event of a stream.

        Args:
            generation: its sums are those at the end of the cycle that brought the event.
            count: tokens sent with this event and before it.
            text: what to show.
            token: the id of the event's last token.
            truth: further members of the JSON object, beginning with a comma, or nothing.
        """
        raise NotImplementedError

    def closing(self, generation: Generation) -> bytes:
        """Events after the last token."""
        return self.done

    def whole(self, generation: Generation, text: str) -> dict[str, Any]:
        """The answer in one piece."""
        raise NotImplementedError

    def failed(self, message: str) -> bytes:
        """An event that reports an error in the middle of a stream."""
        error = {"message": message, "type": "InternalServerError", "code": 500}
        return f"data: {json.dumps({'error': error})}\n\n".encode()


class SglangApi(Api):
    """SGLang's native interface: cumulative counts in `meta_info`."""

    path = "/generate"

    def ask(self, body: Mapping[str, Any]) -> Ask:
        """`input_ids` or `text`, and `sampling_params.max_new_tokens`."""
        sampling = body.get("sampling_params") or {}
        prompt = body.get("input_ids", body.get("text"))
        wanted = sampling.get("max_new_tokens", 128) if isinstance(sampling, Mapping) else None
        return _ask(prompt, wanted, self._settings, stream=bool(body.get("stream", False)))

    def event(self, generation: Generation, count: int, text: str, token: int, truth: str) -> bytes:
        """Counts in `meta_info`; the event with the last token says why it ended."""
        last = count >= generation.ask.output_tokens
        usage = self._settings.usage
        counts = (
            self._counts(generation, count) if usage == "cumulative" or (usage == "final" and last) else ""
        )
        reason = f'{{"type": "length", "length": {count}}}' if last else "null"
        return (
            f'data: {{"text": "{text}", "output_ids": [{token}], "meta_info": {{"id": "{generation.index}", '
            f'"finish_reason": {reason}{counts}}}{truth}}}\n\n'
        ).encode()

    def whole(self, generation: Generation, text: str) -> dict[str, Any]:
        """The last event's object, with all text."""
        event = self.event(generation, generation.sent, text, 0, "")
        answer: dict[str, Any] = json.loads(event[6:])
        return answer

    def _counts(self, generation: Generation, count: int) -> str:
        counts = (
            f', "prompt_tokens": {len(generation.ask.prompt)}, "completion_tokens": {count}, '
            f'"cached_tokens": {generation.cached}'
        )
        if self._settings.speculation:
            counts += (
                f', "spec_verify_ct": {generation.cycles}, "spec_num_correct_drafts": {generation.accepted}, '
                f'"spec_num_proposed_drafts": {generation.drafted}'
            )
        return counts


class OpenAiApi(Api):
    """OpenAI's completions: counts only where `stream_options` ask for them."""

    path = "/v1/completions"

    def ask(self, body: Mapping[str, Any]) -> Ask:
        """`prompt`, `max_tokens` and `stream_options`."""
        options = body.get("stream_options") or {}
        options = options if isinstance(options, Mapping) else {}
        prompt = body.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], list | str):
            prompt = prompt[0]
        return _ask(
            prompt,
            body.get("max_tokens", 16),
            self._settings,
            stream=bool(body.get("stream", False)),
            counted=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
            summed=bool(options.get("include_usage")),
        )

    def event(self, generation: Generation, count: int, text: str, token: int, truth: str) -> bytes:
        """`usage` only with `continuous_usage_stats`."""
        usage = ""
        if self._settings.usage == "cumulative" and generation.ask.counted:
            usage = f', "usage": {json.dumps(_usage(generation, count))}'
        reason = '"length"' if count >= generation.ask.output_tokens else "null"
        return (
            f'data: {{"id": "cmpl-{generation.index}", "object": "text_completion", '
            f'"created": {int(time.time())}, "model": "standin", '
            f'"choices": [{{"index": 0, "text": "{text}", "logprobs": null, '
            f'"finish_reason": {reason}}}]{usage}{truth}}}\n\n'
        ).encode()

    def closing(self, generation: Generation) -> bytes:
        """One event with `usage` and no choice, if asked for; then [DONE]."""
        if self._settings.usage == "absent" or not generation.ask.summed:
            return self.done
        last = self._head(generation) | {"choices": [], "usage": _usage(generation, generation.sent)}
        return f"data: {json.dumps(last)}\n\n".encode() + self.done

    def whole(self, generation: Generation, text: str) -> dict[str, Any]:
        """With `usage` always, as the original does."""
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "length"}
        answer = self._head(generation) | {"choices": [choice]}
        if self._settings.usage != "absent":
            answer["usage"] = _usage(generation, generation.sent)
        return answer

    def _head(self, generation: Generation) -> dict[str, Any]:
        made = {"id": f"cmpl-{generation.index}", "object": "text_completion", "created": int(time.time())}
        return made | {"model": "standin"}


class LlamaApi(Api):
    """llama.cpp's native interface: one event a token, with `timings` if asked for."""

    path = "/completion"
    by_token = True
    done = b""

    def ask(self, body: Mapping[str, Any]) -> Ask:
        """`prompt`, `n_predict`, `timings_per_token` and `cache_prompt`."""
        return _ask(
            body.get("prompt"),
            body.get("n_predict", 128),
            self._settings,
            stream=bool(body.get("stream", False)),
            counted=bool(body.get("timings_per_token", False)),
            cache_prompt=bool(body.get("cache_prompt", True)),
        )

    def event(self, generation: Generation, count: int, text: str, token: int, truth: str) -> bytes:
        """All tokens of one cycle carry one `predicted_ms`."""
        counts = ""
        if self._settings.usage == "cumulative":
            counts = f', "tokens_predicted": {count}, "tokens_evaluated": {len(generation.ask.prompt)}'
            if generation.ask.counted:
                counts += f', "timings": {json.dumps(self._timings(generation, count))}'
        return (
            f'data: {{"index": 0, "content": "{text}", "tokens": [{token}], "stop": false, '
            f'"id_slot": 0{counts}{truth}}}\n\n'
        ).encode()

    def closing(self, generation: Generation) -> bytes:
        """One event without a token that has `stop` and all timings."""
        return f"data: {json.dumps(self.whole(generation, ''))}\n\n".encode()

    def whole(self, generation: Generation, text: str) -> dict[str, Any]:
        """The closing event's object, with all text."""
        answer = {"index": 0, "content": text, "tokens": [], "id_slot": 0, "stop": True, "stop_type": "limit"}
        if self._settings.usage != "absent":
            answer |= {
                "tokens_predicted": generation.sent,
                "tokens_evaluated": len(generation.ask.prompt),
                "tokens_cached": generation.context - 1,
                "timings": self._timings(generation, generation.sent),
            }
        return answer

    def failed(self, message: str) -> bytes:
        """An event of the field `error`, as llama.cpp sends it."""
        error = {"code": 500, "message": message, "type": "server_error"}
        return f"error: {json.dumps(error)}\n\n".encode()

    def _timings(self, generation: Generation, count: int) -> dict[str, Any]:
        new = len(generation.ask.prompt) - generation.cached
        prompt_ms = (generation.first_s - generation.started_s) * 1e3
        decode_ms = generation.decode_ms
        timings: dict[str, Any] = {
            "cache_n": generation.cached,
            "prompt_n": new,
            "prompt_ms": prompt_ms,
            "prompt_per_token_ms": prompt_ms / max(new, 1),
            "prompt_per_second": new / max(prompt_ms / 1e3, 1e-9),
            "predicted_n": count,
            "predicted_ms": decode_ms,
            "predicted_per_token_ms": decode_ms / count,
            "predicted_per_second": count / max(decode_ms / 1e3, 1e-9),
        }
        if generation.drafted:
            timings |= {"draft_n": generation.drafted, "draft_n_accepted": generation.accepted}
        return timings


def truth(cycle: Cycle | None, due_s: float) -> str:
    """The stand-in's own member of each event: what happened, and what was scheduled.

    `sent_ns` is now, `due_ns` the deadline, both by CLOCK_MONOTONIC; the rest is the cycle as declared.
    """
    times = f', "standin": {{"sent_ns": {time.monotonic_ns()}, "due_ns": {round(due_s * 1e9)}'
    if cycle is None:
        return times + "}"
    phases = f', "cycle_ms": {cycle.total_ms:.6f}, "graph": {"true" if cycle.graph else "false"}'
    if cycle.verify_ms is not None:
        phases += (
            f', "draft_ms": {cycle.draft_ms:.6f}, "verify_ms": {cycle.verify_ms:.6f}, '
            f'"draft_extend_ms": {cycle.draft_extend_ms:.6f}'
        )
    return times + phases + "}"


def apis(settings: Settings) -> dict[str, Api]:
    """Path -> interface."""
    return {api.path: api for api in (SglangApi(settings), OpenAiApi(settings), LlamaApi(settings))}


def _usage(generation: Generation, count: int) -> dict[str, Any]:
    prompt = len(generation.ask.prompt)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": count,
        "total_tokens": prompt + count,
        "prompt_tokens_details": {"cached_tokens": generation.cached},
    }


def _ask(prompt: Any, wanted: Any, settings: Settings, **options: bool) -> Ask:
    """Check prompt and length; a text counts one token a word."""
    tokens = _tokens(prompt)
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
        raise BadRequestError("the number of tokens to produce must be a whole number above 0")
    if len(tokens) + wanted > settings.context_limit:
        raise BadRequestError(
            f"{len(tokens)} prompt tokens and {wanted} to produce exceed the context length "
            f"of {settings.context_limit} tokens"
        )
    return Ask(tokens, wanted, **options)


def _tokens(prompt: Any) -> tuple[int, ...]:
    if isinstance(prompt, str) and prompt.split():
        return tuple(hash(word) % 8000 + 1000 for word in prompt.split())
    if isinstance(prompt, Sequence) and prompt and all(isinstance(token, int) for token in prompt):
        return tuple(prompt)
    raise BadRequestError("the prompt must be a text or a list of token ids, and not empty")

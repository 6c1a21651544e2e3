"""Control calls to a running llama.cpp server: its settings, its tokens, its counters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests

from benchharness.errors import EngineError

TIMEOUT_S = 30.0
LEAST_POOL = 16
"""Fewest different tokens that prompts may be made of."""

_COUNTER = re.compile(r"^llamacpp:(\w+_total) (\d+)$", re.MULTILINE)
"""Whole numbers without labels: a number with an exponent has been rounded, and is no count any more."""

_TOLD = ("n_vocab", "n_ctx_train", "n_embd", "n_params", "size", "ftype")

_TEXT = """
The old harbour master wrote every arrival into a ledger: ship, cargo, captain, weather and tide. Seven
grain barges, 12 colliers, a whaler from the north. Nobody asked him why he also noted the colour of the
sky, yet in 1847 that habit settled a quarrel between two insurers, a judge and half the town. Physics
students measure light with mirrors; cooks measure salt by hand; programmers measure time and argue about
what the clock was doing. "Is it faster?" she said. "Only if you count from here," he answered, pointing at
the third line. Bread, butter, apples, rope, lamp oil, nails (two sizes), paper, ink and one green bottle
went up the hill before noon. Rivers bend where the rock is soft. Most letters arrive late, some never, and
a few before they were sent, or so the postman claims. for i in range(10): total += values[i] * 0.5; return
max(total, limit) # keep the first. Mountains, valleys, bridges, engines, violins, theories, elephants,
governments, umbrellas and quiet mornings have little in common except that each can be described, counted,
compared, doubted and forgotten. When snow falls the village sounds different; doors close, dogs listen.
"""
"""Varied words, so that any vocabulary gives a good number of different tokens for it."""


@dataclass(frozen=True)
class Settings:
    """What a server says of itself.

    Attributes:
        context_limit: most tokens of one request, prompt and output together.
        slots: requests that it works on at once.
        vocabulary: size of the model's vocabulary, in tokens.
        told: its answers worth keeping, for the record.
    """

    context_limit: int
    slots: int
    vocabulary: int
    told: Mapping[str, Any]


def settings(base_url: str) -> Settings:
    """From /props and /v1/models. Raises EngineError if they are missing or not what they were."""
    props = _json(base_url, "/props")
    models = _json(base_url, "/v1/models")
    try:
        meta = models["data"][0]["meta"]
        slot_tokens = int(props["default_generation_settings"]["n_ctx"])
        slots = int(props["total_slots"])
        vocabulary = int(meta["n_vocab"])
        trained = int(meta["n_ctx_train"])
        told = {name: meta[name] for name in _TOLD if name in meta}
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise EngineError(
            f"llama.cpp's server at {base_url} describes itself in a way not known here ({error!r})",
            "this release may be too new or too old: try another",
        ) from None
    limit = min(slot_tokens, trained) if trained > 0 else slot_tokens
    told |= {"n_ctx_slot": slot_tokens, "total_slots": slots, "build_info": props.get("build_info")}
    return Settings(limit, slots, vocabulary, told)


def text_tokens(base_url: str) -> tuple[int, ...]:
    """Ids of the tokens of a varied text: no special tokens, and no single bytes if it can be helped.

    Raises EngineError if the vocabulary gives too few.
    """
    body = {"content": _TEXT, "add_special": False, "parse_special": False, "with_pieces": True}
    tokens = _json(base_url, "/tokenize", body).get("tokens", [])
    # A piece that is not valid UTF-8 comes as a list of bytes, and one character may be a byte token too.
    texts = {token["id"]: token["piece"] for token in tokens if isinstance(token["piece"], str)}
    words = [token for token, piece in texts.items() if len(piece.strip()) > 1]
    pool = words if len(words) >= LEAST_POOL else list(texts)
    if len(pool) < LEAST_POOL:
        raise EngineError(
            f"the model's vocabulary gives only {len(pool)} tokens to make prompts of",
            "use a model with a vocabulary for English text",
        )
    return tuple(sorted(pool))


def added_tokens(base_url: str, prompt: Sequence[int]) -> int:
    """Tokens that the server puts in front of a prompt of token ids: found by sending one of them."""
    body = {"prompt": list(prompt), "n_predict": 1, "temperature": 0, "cache_prompt": False}
    answer = _json(base_url, "/completion", body)
    evaluated = answer.get("tokens_evaluated")
    if not isinstance(evaluated, int) or evaluated < len(prompt):
        raise EngineError(
            f"llama.cpp took a prompt of {len(prompt)} tokens for one of {evaluated!r}",
            "prompt lengths would not be exact with this release: try another",
        )
    return evaluated - len(prompt)


def metrics(base_url: str) -> dict[str, int]:
    """Counters of /metrics by their names without prefix and labels; none where they are turned off."""
    answer = _answer(base_url, "/metrics")
    if answer.status_code in (404, 501):
        return {}
    _refuse_status(answer, "/metrics")
    return {name: int(value) for name, value in _COUNTER.findall(answer.text)}


def _json(base_url: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """The JSON object at a path, asked for with POST if there is a body."""
    answer = _answer(base_url, path, body)
    _refuse_status(answer, path)
    try:
        fields = answer.json()
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise EngineError(f"llama.cpp's server answers {path} with something else than a JSON object")
    return fields


def _answer(base_url: str, path: str, body: Mapping[str, Any] | None = None) -> requests.Response:
    try:
        with requests.Session() as session:
            session.trust_env = False  # a proxy of the user's must not come between
            if body is None:
                return session.get(base_url + path, timeout=TIMEOUT_S)
            return session.post(base_url + path, json=body, timeout=TIMEOUT_S)
    except requests.RequestException as error:
        raise EngineError(
            f"llama.cpp's server at {base_url} does not answer {path} ({type(error).__name__})", "see its log"
        ) from None


def _refuse_status(answer: requests.Response, path: str) -> None:
    if answer.status_code != requests.codes.ok:
        text = " ".join(answer.text.split())[:200]
        raise EngineError(f"llama.cpp's server answers {path} with status {answer.status_code}: {text}")

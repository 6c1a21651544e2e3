"""A prefix cache: which beginnings of prompts were seen before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_BLOCK = 16
_MOST_BLOCKS = 1_000_000


class PrefixCache:
    """Blocks of 16 tokens, each known by all tokens up to its end; the oldest go when it is full."""

    def __init__(self) -> None:
        self._known: dict[int, None] = {}

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()

    def admit(self, prompt: Sequence[int]) -> int:
        """Remember the prompt; returns how many of its tokens were known, never the last one."""
        cached = 0
        hit = True
        for key in _keys(prompt):
            hit = hit and key in self._known
            cached += _BLOCK if hit else 0
            self._known[key] = None
        while len(self._known) > _MOST_BLOCKS:
            del self._known[next(iter(self._known))]
        return min(cached, max(len(prompt) - 1, 0))


def _keys(prompt: Sequence[int]) -> Iterator[int]:
    key = 0
    for end in range(_BLOCK, len(prompt) + 1, _BLOCK):
        key = hash((key, *prompt[end - _BLOCK : end]))
        yield key

"""`label: value, label: value ...`: the form in which most engines print their figures."""

from __future__ import annotations

import re

_FIELD = re.compile(r"\s*([^:,]+?): ?(\[[^\]]*\]|\([^)]*\)|[^,]*?)\s*(?:,|$)")
_LABEL = re.compile(r"[#A-Za-z][\w #.()/%+-]*")
_UNIT = re.compile(r"\([^)]*\)")
_OTHER = re.compile(r"[^a-z0-9]+")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?%?|nan|inf")


class DamagedError(ValueError):
    """A line that belongs to the dialect but is broken; its text says how."""


def split(text: str) -> list[tuple[str, str]]:
    """The (label, value) pairs of a comma-separated list; labels as written.

    Raises:
        DamagedError: a piece is no `label: value`, or a label comes twice.
    """
    pairs: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip(" ,.\r"))
    while position < end:
        match = _FIELD.match(text, position)
        if match is None or not match[2] or not _LABEL.fullmatch(match[1]):
            raise DamagedError(f"no `label: value` in {text[position : position + 40]!r}")
        pairs.append((match[1], match[2]))
        position = match.end()
    if len({label for label, _ in pairs}) < len(pairs):
        raise DamagedError("a label comes twice")
    return pairs


def name(label: str) -> str:
    """A label as a key: `#running-req` is running_req, `gen throughput (token/s)` is gen_throughput."""
    return _OTHER.sub("_", _UNIT.sub("", label).lower()).strip("_") or "unnamed"


def number(value: str) -> bool:
    """Whether a value is one number, with a percent sign or without."""
    return _NUMBER.fullmatch(value) is not None

"""What a stack declares under `packages`, sorted: versions, packages of the host's, packages left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

HOST = "host"
"""The word that stands for a version where the host's own package is wanted."""


@dataclass(frozen=True)
class Declared:
    """Declared packages by kind, with normalised names.

    Attributes:
        pinned: name -> version.
        host: names taken from the host, sorted.
        left_out: names that stay out, sorted.
    """

    pinned: Mapping[str, str]
    host: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """Requirement lines of the pinned ones, in the order of their declaration."""
        return tuple(f"{name}=={version}" for name, version in self.pinned.items())

    @property
    def elsewhere(self) -> frozenset[str]:
        """Names that must not be installed."""
        return frozenset(self.host + self.left_out)


def declared(packages: Mapping[str, str | None]) -> Declared:
    """Sort what `packages` says."""
    named = {normal(name): version for name, version in packages.items()}
    return Declared(
        {name: version for name, version in named.items() if version is not None and version != HOST},
        tuple(sorted(name for name, version in named.items() if version == HOST)),
        tuple(sorted(name for name, version in named.items() if version is None)),
    )


def normal(name: str) -> str:
    """The normalised name of a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()

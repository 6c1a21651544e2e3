"""What an environment must hold, as uv reads it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchharness.records import EnvironmentSpec


@dataclass(frozen=True)
class RequirementFiles:
    """A specification as uv reads it: a file of requirements, and options that name further ones."""

    requirements: Path
    options: tuple[str, ...]


@contextmanager
def requirement_files(spec: EnvironmentSpec, folder: Path) -> Iterator[RequirementFiles]:
    """The requirements as files that only their owner may read: a line may carry a password.

    What the host brings is kept out of the resolution.
    """
    options = ["--no-deps"] if spec.no_deps else []
    for place in spec.find_links:
        options += ["--find-links", place]
    for url in spec.extra_index_urls:
        options += ["--extra-index-url", url]
    for name, lines in (("overrides", spec.overrides), ("excludes", (*spec.excludes, *spec.host))):
        if lines and not spec.no_deps:
            options += [f"--{name}", str(_written(folder / f"{name}.txt", lines))]
    requirements = _written(folder / "requirements.txt", spec.requirements)
    try:
        yield RequirementFiles(requirements, tuple(options))
    finally:
        requirements.unlink()


def _written(path: Path, lines: Iterable[str]) -> Path:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path

"""SGLang's code from a repository: which release a commit follows, what it asks for, how it is run.

Only Python is run from the checkout. What a commit's build would compile comes from the wheel of the release
that the commit follows: that wheel is installed in the environment, and its compiled modules are linked into
the checkout where it has none. The kernel library, torch and all else come from wheels as for a release.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchharness.errors import InfrastructureError, UnbuildableError
from benchharness.records import Environment, Stack
from benchharness.stack.git import Git, GitFailure

PYTHON = "python"
"""The folder of a checkout that goes on PYTHONPATH."""

_LITERAL = re.compile(
    r"^(?:__version__|version)\s*(?:=|:\s*str\s*=)\s*[^'\"\n]*['\"](\d[\w.]*)['\"]", re.MULTILINE
)
_RELEASE = re.compile(r"v?(\d+\.\d+\.\d+(?:rc\d+)?(?:\.post\d+)?)")
_PIN = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*==\s*([\w.+!-]+)")


def release(stack: Stack) -> str:
    """The stack's release, or the one that its commit follows.

    Raises UnbuildableError if the commit doesn't tell.
    """
    source = stack.source
    if source.release:
        return source.release
    named = stack.packages.get("sglang")
    if named:
        return named
    if source.folder is None:
        return ""
    found = followed_release(Path(source.folder))
    if found is None:
        raise UnbuildableError(
            f"stack {stack.name}: {str(source.commit)[:12]} of {source.repo} doesn't tell which release of "
            "SGLang it follows (no version in its files, no tag v0.5.x before it)",
            "fetch the repository's tags, or name the release as `packages.sglang`",
        )
    return found


def refuse_other_code(stack: Stack) -> None:
    """Refuse a checkout that holds no SGLang; UnbuildableError."""
    folder = stack.source.folder
    if folder is not None and not (Path(folder) / PYTHON / "sglang" / "launch_server.py").is_file():
        raise UnbuildableError(
            f"stack {stack.name}: {str(stack.source.commit)[:12]} of {stack.source.repo} holds no SGLang "
            "(no python/sglang/launch_server.py)",
            "check `source.repo`",
        )


@lru_cache(maxsize=256)
def followed_release(folder: Path) -> str | None:
    """The release whose wheel serves a checkout: by its version files, else by the last tag before it."""
    for name in ("pyproject.toml", "sglang/version.py", "sglang/_version.py"):
        path = folder / PYTHON / name
        literal = (
            _LITERAL.search(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else None
        )
        told = _RELEASE.match(literal[1]) if literal and not literal[1].startswith("0.0.0") else None
        if told:
            return told[1]
    try:
        tag = Git(folder).text("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
    except GitFailure:
        return None
    tagged = _RELEASE.match(tag)
    return tagged[1] if tagged else None


@lru_cache(maxsize=256)
def pins(folder: Path) -> dict[str, str]:
    """What the checkout's own pyproject.toml pins: normalised distribution -> version."""
    try:
        project = _project(folder)
    except (OSError, ValueError):
        return {}
    optional = project.get("optional-dependencies", {})
    # Up to 0.5.2 the server's needs stand under an extra.
    lines = [*optional.get("runtime_common", ()), *optional.get("srt", ()), *project.get("dependencies", ())]
    found = (
        _PIN.match(line) for line in lines if "sys_platform" not in line and "platform_machine" not in line
    )
    return {re.sub(r"[-_.]+", "-", pin[1]).lower(): pin[2] for pin in found if pin}


def _project(folder: Path) -> dict[str, Any]:
    text = (folder / PYTHON / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text).get("project", {})
    return project


def link_compiled(folder: Path, environment: Environment) -> tuple[str, ...]:
    """Link the compiled modules of the environment's SGLang into a checkout that lacks them.

    Gives their paths within the package, also those linked before. Raises InfrastructureError where the disk
    refuses.
    """
    installed = next(iter(Path(environment.path).glob("lib/python*/site-packages/sglang")), None)
    if installed is None:
        return ()
    linked = []
    for library in sorted(installed.rglob("*.so")):
        inside = library.relative_to(installed)
        place = folder / PYTHON / "sglang" / inside
        if not place.parent.is_dir() or (place.exists() and not place.is_symlink()):
            continue
        try:
            if not place.is_symlink() or place.readlink() != library:
                place.unlink(missing_ok=True)
                place.symlink_to(library)
        except OSError as error:
            raise InfrastructureError(f"{place} can't be written: {error.strerror}") from None
        linked.append(str(inside))
    return tuple(linked)

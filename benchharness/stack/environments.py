"""One environment for each specification: built once with uv, kept by content, reused at once."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchharness.errors import InfrastructureError
from benchharness.records import Environment, EnvironmentSpec
from benchharness.stack import hostpackages, pins, uv
from benchharness.stack.requirements import requirement_files

LAYOUT = 1
"""Part of every key: raise it when environments are laid out in another way."""
MANIFEST = "environment.json"
KEY_CHARACTERS = 16

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Filling:
    """What is to be known of an environment that was filled without uv.

    Attributes:
        from_host: distributions still to be taken from the host, beside those of the specification.
        omitted: what was left out.
    """

    from_host: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()


Fill = Callable[[Path], Filling]
"""Puts packages into an empty environment."""


def ensure(
    spec: EnvironmentSpec, cache: Path, *, on_progress: Progress | None = None, fill: Fill | None = None
) -> Environment:
    """The environment that holds `spec`: reused if it stands, else built under a lock.

    Args:
        spec: what it must hold.
        cache: the harness's cache folder; environments stand in `cache/environments/KEY`.
        on_progress: called with each line that the build says.
        fill: fills the environment in place of uv, as from a bundle.

    Raises:
        UsageError: a requirement line is malformed.
        UnbuildableError: it can't be resolved, installed or imported. A result about the combination.
        InfrastructureError: network, disk or uv failed; says nothing about the combination.
    """
    spec = settled(spec)
    tell = _masking(on_progress)
    folder = _folder(spec, cache)
    ready = _standing(folder)
    if ready is not None:
        _note_use(folder)
        return ready
    try:
        with locked(folder, tell) as lock_fd:
            return _standing(folder) or _build(spec, folder, tell, lock_fd, fill)
    except OSError as error:
        raise InfrastructureError(
            f"the environment {folder} can't be written: {error.strerror}",
            "free some space or choose another cache folder",
        ) from error


def installed(cache: Path) -> tuple[Environment, ...]:
    """All finished environments of the cache, by key."""
    folders = sorted((cache.absolute() / "environments").glob(f"*/{MANIFEST}"))
    standing = (_standing(manifest.parent) for manifest in folders)
    return tuple(environment for environment in standing if environment is not None)


def found(spec: EnvironmentSpec, cache: Path) -> Environment | None:
    """The environment of `spec` if it stands."""
    return _standing(_folder(settled(spec), cache))


def _folder(spec: EnvironmentSpec, cache: Path) -> Path:
    return cache.absolute() / "environments" / key_of(spec)


def key_of(spec: EnvironmentSpec) -> str:
    """The identity of what `spec` asks for, whatever the order of its requirements."""
    content: dict[str, object] = {
        "layout": LAYOUT,
        "machine": [sys.platform, platform.machine()],
        "python": _own_version() if _is_own(spec.python) else spec.python,
        "requirements": sorted(masked(line.strip()) for line in spec.requirements),
        "no_deps": spec.no_deps,
        "find_links": [masked(place) for place in spec.find_links],
        "extra_index_urls": [masked(url) for url in spec.extra_index_urls],
        "imports": sorted(spec.imports),
    }
    # Each is left out where it says nothing, so that environments made before it came keep their keys.
    for name in ("overrides", "excludes", "host"):
        if lines := sorted(getattr(spec, name)):
            content[name] = [masked(line) for line in lines]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:KEY_CHARACTERS]


def masked(text: str) -> str:
    """The text without the user names and passwords of its URLs."""
    return re.sub(r"(\w://)[^/@\s]+@", r"\1***@", text)


def settled(spec: EnvironmentSpec) -> EnvironmentSpec:
    """The specification with absolute folders, since uv runs elsewhere."""
    places = tuple(
        place if "://" in place else str(Path(place).expanduser().absolute()) for place in spec.find_links
    )
    return replace(spec, find_links=places)


def _standing(folder: Path) -> Environment | None:
    """The environment in `folder` if it was finished and its interpreter is still there."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        found = Environment(
            key=manifest["key"],
            path=str(folder),
            python_path=str(folder / "bin" / "python"),
            python=manifest["python"],
            packages=manifest["packages"],
            from_host=tuple(manifest.get("from_host", ())),
            omitted=tuple(manifest.get("omitted", ())),
            broken_pins=manifest.get("broken_pins", {}),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if Path(found.python_path).exists() else None


def _note_use(folder: Path) -> None:
    """Set the manifest's time, by which `env gc` knows what is no longer used."""
    with suppress(OSError):
        os.utime(folder / MANIFEST)


def _build(
    spec: EnvironmentSpec, folder: Path, tell: Progress, lock_fd: int, fill: Fill | None
) -> Environment:
    began = time.monotonic()
    tell(f"building environment {folder.name} ({', '.join(spec.requirements) or 'empty'})")
    if folder.exists():
        tell("a build was left unfinished here; beginning again")
        shutil.rmtree(folder)
    log = folder.with_name(f"{folder.name}.log")
    log.write_bytes(b"")
    builder = uv.Builder(folder, log, tell, lock_fd)
    builder.create(sys.executable if _is_own(spec.python) else str(spec.python))
    hostpackages.refuse_missing(spec.host, folder)
    filling = fill(folder) if fill is not None else _install(spec, folder, builder)
    linked = hostpackages.link((*spec.host, *filling.from_host), folder, leave_out=spec.excludes)
    builder.check_imports(spec.imports)
    environment = Environment(
        key=folder.name,
        path=str(folder),
        python_path=str(folder / "bin" / "python"),
        python=_python_version(folder),
        packages=_packages(folder),
        built_s=time.monotonic() - began,
        from_host=tuple(sorted(linked)),
        omitted=filling.omitted,
        broken_pins=pins.broken(folder),
    )
    _write_manifest(environment, spec)
    return environment


def _install(spec: EnvironmentSpec, folder: Path, builder: uv.Builder) -> Filling:
    with tempfile.TemporaryDirectory(dir=folder) as scratch, requirement_files(spec, Path(scratch)) as files:
        builder.install(files.requirements, files.options)
    return Filling()


def _write_manifest(environment: Environment, spec: EnvironmentSpec) -> None:
    """Write the manifest, by rename: it is what says that the environment is finished."""
    content: dict[str, object] = {
        "layout": LAYOUT,
        "key": environment.key,
        "python": environment.python,
        "packages": dict(environment.packages),
        "built_s": round(environment.built_s, 3),
        "from_host": list(environment.from_host),
        "omitted": list(environment.omitted),
        "broken_pins": dict(environment.broken_pins),
        "spec": json.loads(masked(json.dumps(asdict(spec)))),
    }
    path = Path(environment.path) / MANIFEST
    draft = path.with_suffix(".new")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


@contextmanager
def locked(folder: Path, tell: Progress) -> Iterator[int]:
    """Hold the environment's lock; gives its descriptor, which the builder's processes hold as well."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder.with_name(f"{folder.name}.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"waiting: another process builds environment {folder.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _masking(on_progress: Progress | None) -> Progress:
    def tell(line: str) -> None:
        if on_progress is not None:
            on_progress(masked(line))

    return tell


def _own_version() -> str:
    return platform.python_version()


def _is_own(python: str | None) -> bool:
    """Whether the harness's own interpreter is one of those asked for."""
    return python is None or _own_version() == python or _own_version().startswith(f"{python}.")


def _python_version(folder: Path) -> str:
    """Full version of the environment's interpreter, as uv noted it."""
    for line in (folder / "pyvenv.cfg").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name.strip() in ("version_info", "version"):
            return value.strip()
    raise InfrastructureError(f"{folder / 'pyvenv.cfg'} names no version", f"remove {folder} and try again")


def _packages(folder: Path) -> Mapping[str, str]:
    """Normalised distribution name -> version; a package from git has its commit behind an @."""
    places = [str(place) for place in folder.glob("lib/python*/site-packages")]
    found = {}
    for distribution in importlib.metadata.distributions(path=places):
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        commit = origin.get("vcs_info", {}).get("commit_id")
        found[name] = f"{distribution.version}@{commit}" if commit else distribution.version
    return dict(sorted(found.items()))

"""Laying a bundle's environments out in the cache, where `run` finds them."""

from __future__ import annotations

import json
import lzma
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchharness.errors import InfrastructureError, UnbuildableError, UsageError
from benchharness.records import Environment, EnvironmentSpec
from benchharness.stack import environments, layers
from benchharness.stack.bundles import install

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Unpacked:
    """One environment of a bundle; without `environment`, `reason` says why it doesn't work here."""

    stacks: tuple[str, ...]
    environment: Environment | None
    reason: str = ""


def unpack(folder: Path, cache: Path, tell: Tell) -> tuple[Unpacked, ...]:
    """Lay out every environment of a bundle that doesn't stand yet; each has the key that its spec has here.

    Raises:
        UsageError: no bundle.
        InfrastructureError: the bundle is damaged or for another Python, or the disk refuses.
    """
    if not (folder / install.MANIFEST).is_file():
        raise UsageError(f"{folder} is no bundle", "give the folder that `env pack` wrote")
    try:
        manifest = install.read_manifest(folder)
        _refuse_python(manifest)
        rows = [(row, _spec(row["spec"])) for row in manifest["environments"]]
        missing = [row["owner"] for row, spec in rows if environments.found(spec, cache) is None]
        if not missing:
            return tuple(
                Unpacked(tuple(row["stacks"]), environments.found(spec, cache)) for row, spec in rows
            )
        install.verify(folder, manifest["archives"])
        with layers.held(cache) as store:
            contents = _Contents(folder, manifest["archives"], store, tell)
            return tuple(_unpacked(row, spec, cache, contents, tell) for row, spec in rows)
    except install.BundleError as error:
        raise InfrastructureError(str(error), "copy the bundle again") from None
    except (lzma.LZMAError, tarfile.TarError, KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else repr(error)
        raise InfrastructureError(f"the bundle {folder} can't be read: {what}", "make it again") from error
    except OSError as error:
        raise InfrastructureError(
            f"the environments can't be written: {error.strerror or error}",
            "free some space or choose another cache folder",
        ) from error


def _refuse_python(manifest: Mapping[str, Any]) -> None:
    here = ".".join(map(str, sys.version_info[:2]))
    wanted = manifest["target"]["python"]
    if wanted != here and any(row["spec"]["python"] is None for row in manifest["environments"]):
        raise InfrastructureError(
            f"the bundle is for Python {wanted}, and the harness runs on {here}",
            f"run the harness with Python {wanted}, or pack with --python {here}",
        )


def _spec(fields: Mapping[str, Any]) -> EnvironmentSpec:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    return EnvironmentSpec(**values)


class _Contents:
    """The contents of a bundle, in the store of layers: file number -> kept file, owner -> path -> file."""

    def __init__(self, folder: Path, archives: Sequence[Mapping[str, Any]], store: Path, tell: Tell) -> None:
        self.kept: dict[str, Path] = {}
        self.index: dict[str, dict[str, tuple[int, int]]] = {}
        for archive in archives:
            tell(f"reading {archive['name']} ({archive['plain_bytes'] / 1e6:,.0f} MB)")
            for name, content in install.members(folder, dict(archive)):
                if name == install.INDEX:
                    self.index |= json.loads(content.read())
                else:
                    self.kept[name] = layers.add(store, content)

    def lay_out(self, owner: str, environment: Path) -> None:
        """Put every file of an environment in its place."""
        for path, (number, mode) in self.index[owner].items():
            kept, target = self.kept[str(number)], install.placed(environment, path)
            if path.startswith("bin/") and kept.read_bytes().startswith(install.SHEBANG):
                install.write_script(target, kept.read_bytes(), environment)
            else:
                target.unlink(missing_ok=True)
                layers.place(kept, target, mode)


def _unpacked(
    row: Mapping[str, Any], spec: EnvironmentSpec, cache: Path, contents: _Contents, tell: Tell
) -> Unpacked:
    stacks = tuple(row["stacks"])

    def fill(folder: Path) -> environments.Filling:
        contents.lay_out(row["owner"], folder)
        return environments.Filling(tuple(row["from_host"]), tuple(row["omitted"]))

    try:
        return Unpacked(stacks, environments.ensure(spec, cache, on_progress=tell, fill=fill))
    except UnbuildableError as error:
        return Unpacked(stacks, None, str(error))

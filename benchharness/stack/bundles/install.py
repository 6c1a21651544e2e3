#!/usr/bin/env python3
"""Installs benchharness from this bundle, without a network, and unpacks its environments.

    python3 install.py --venv FOLDER [--cache FOLDER]

Needs the standard library only. The harness gets an environment of its own, which also sees the packages
of the interpreter that runs this file: a bundle leaves out what its maker said that the host has.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import lzma
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

FORMAT = 1
MANIFEST = "bundle.json"
HARNESS = "harness"
INDEX = "index.json"
"""Member of an archive with `owner -> path -> [member, mode]`; all other members are files by number."""
SHEBANG = b"#!python\n"
"""First line of scripts in a bundle, instead of an interpreter that only its maker has."""
READ_BYTES = 1 << 20


class BundleError(Exception):
    """The bundle is damaged or doesn't fit this host."""


def read_manifest(folder: Path) -> dict[str, Any]:
    """The bundle's manifest; BundleError if there is none that this version reads."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except OSError:
        raise BundleError(f"{folder} is no bundle: it has no {MANIFEST}") from None
    except ValueError:
        raise BundleError(f"{folder / MANIFEST} is damaged: it is no JSON") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BundleError(f"{folder} is of a format that this version of benchharness doesn't read")
    return manifest


def verify(folder: Path, archives: list[dict[str, Any]]) -> None:
    """Check that every part is there and whole; BundleError names all that are not."""
    wrong = []
    for archive in archives:
        for part in archive["parts"]:
            path = folder / part["file"]
            try:
                found = _sha256(path)
            except OSError:
                wrong.append(f"{part['file']} is missing")
                continue
            if found != part["sha256"]:
                wrong.append(f"{part['file']} is damaged ({path.stat().st_size} of {part['bytes']} bytes)")
    if wrong:
        raise BundleError(f"the bundle {folder} is not whole: {', '.join(wrong)}")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


class _Joined:
    """Parts of an archive, read one after the other."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = list(paths)
        self._file: IO[bytes] | None = None

    def read(self, size: int = -1) -> bytes:
        while self._file is not None or self._paths:
            if self._file is None:
                self._file = self._paths.pop(0).open("rb")
            block = self._file.read(size if size >= 0 else READ_BYTES)
            if block:
                return block
            self._file.close()
            self._file = None
        return b""


def members(folder: Path, archive: dict[str, Any]) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each member of an archive, in order; each must be read before the next."""
    joined = _Joined([folder / part["file"] for part in archive["parts"]])
    with lzma.open(joined, "rb") as plain, tarfile.open(fileobj=plain, mode="r|") as tar:  # type: ignore[call-overload]
        for member in tar:
            content = tar.extractfile(member)
            if content is not None:
                yield member.name, content


def placed(environment: Path, path: str) -> Path:
    """Where a file of a bundle goes: scripts beside the environment's interpreter, all else to packages."""
    if path.startswith("bin/"):
        return environment / path
    (site,) = environment.glob("lib/python*/site-packages")
    return site / path


def write_script(place: Path, content: bytes, environment: Path) -> None:
    """Write a script of a bundle with the environment's interpreter in its first line."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(f"#!{environment / 'bin' / 'python'}\n".encode() + content.removeprefix(SHEBANG))
    place.chmod(0o755)


def main() -> int:
    """Install the harness and have it unpack the environments; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--venv", type=Path, required=True, help="folder for the harness; must be new")
    parser.add_argument("--cache", type=Path, help="the harness's cache folder, for the environments")
    options = parser.parse_args()
    folder = Path(__file__).resolve().parent
    try:
        install(folder, options.venv.absolute())
    except (BundleError, OSError, lzma.LZMAError, tarfile.TarError) as error:
        sys.stderr.write(f"install.py: error: {error}\n")
        return 5
    sys.stderr.write(f"the harness is {options.venv.absolute()}/bin/benchharness\n")
    command = [str(options.venv.absolute() / "bin" / "python"), "-m", "benchharness", "env", "unpack"]
    cache = ["--cache", str(options.cache.absolute())] if options.cache else []
    return subprocess.run([*command, str(folder), *cache], check=False).returncode


def install(folder: Path, environment: Path) -> None:
    """Make the harness's environment; BundleError if the bundle holds none or the host doesn't fit."""
    manifest = read_manifest(folder)
    harness = manifest.get("harness")
    if harness is None:
        raise BundleError("this bundle holds no harness: make it with --with-harness")
    _refuse_host(manifest["target"]["python"], harness["from_host"])
    archives = [archive for archive in manifest["archives"] if archive["owner"] == HARNESS]
    verify(folder, archives)
    if environment.exists():
        raise BundleError(f"{environment} exists: choose another folder for --venv, or remove it")
    venv.EnvBuilder(with_pip=False, symlinks=True).create(environment)
    _show_host_packages(environment)
    files: dict[str, tuple[str, int]] = {}
    contents: dict[str, bytes] = {}
    for archive in archives:
        for name, content in members(folder, archive):
            if name == INDEX:
                files = json.loads(content.read())[HARNESS]
            else:
                contents[name] = content.read()
    for path, (number, mode) in files.items():
        _write(placed(environment, path), contents[str(number)], mode, environment)


def _refuse_host(python: str, wanted: list[str]) -> None:
    here = ".".join(platform.python_version_tuple()[:2])
    if here != python:
        raise BundleError(
            f"the bundle is for Python {python}, and this is {here}: run it with python{python}"
        )
    known = {
        re.sub(r"[-_.]+", "-", one.metadata["Name"] or "").lower()
        for one in importlib.metadata.distributions()
    }
    if missing := sorted(set(wanted) - known):
        raise BundleError(f"the bundle leaves {', '.join(missing)} to this Python, which lacks it")


def _show_host_packages(environment: Path) -> None:
    """Let the harness see the packages of this interpreter, after its own.

    `--system-site-packages` would not do: made within an environment, it shows those of the base interpreter.
    """
    places = [place for place in sys.path if place.endswith(("site-packages", "dist-packages"))]
    places += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (site,) = environment.glob("lib/python*/site-packages")
    lines = [f"{place}\n" for place in dict.fromkeys(places) if os.path.isdir(place)]  # noqa: PTH112
    (site / "_host.pth").write_text("".join(lines), encoding="utf-8")


def _write(place: Path, content: bytes, mode: int, environment: Path) -> None:
    if content.startswith(SHEBANG):
        write_script(place, content, environment)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    place.chmod(mode)


if __name__ == "__main__":
    sys.exit(main())

"""The harness itself as part of a bundle: its own files, and what it needs."""

from __future__ import annotations

import json
import shutil
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement

import benchharness
from benchharness.records import EnvironmentSpec

SCRIPT = "#!python\nimport sys\n\nfrom benchharness.cli import main\n\nsys.exit(main())\n"


def needs(python: str) -> EnvironmentSpec:
    """What the harness needs on a Python of that version, as an environment."""
    lines = []
    for line in _requirements(distribution("benchharness")):
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": "", "python_version": python}):
            requirement.marker = None
            lines.append(str(requirement))
    return EnvironmentSpec(python=python, requirements=tuple(lines))


def _requirements(installed: Distribution) -> list[str]:
    """From the project file of a checkout, which may be newer than what was noted when it was installed."""
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        file = Path(unquote(urlsplit(origin["url"]).path)) / "pyproject.toml"
        if file.is_file():
            return list(tomllib.loads(file.read_text(encoding="utf-8"))["project"]["dependencies"])
    return list(installed.requires or ())


def add_own_files(folder: Path) -> None:
    """Copy the running harness into a folder of packages, as an installation of its wheel would."""
    installed = distribution("benchharness")
    shutil.copytree(
        Path(benchharness.__file__).parent,
        folder / "benchharness",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    info = folder / f"benchharness-{installed.version}.dist-info"
    info.mkdir()
    for name in ("METADATA", "WHEEL", "entry_points.txt"):
        (info / name).write_text(installed.read_text(name) or "", encoding="utf-8")
    script = folder / "bin" / "benchharness"
    script.parent.mkdir(exist_ok=True)
    script.write_text(SCRIPT, encoding="utf-8")
    script.chmod(0o755)

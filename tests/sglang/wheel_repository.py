"""A git repository made of successive SGLang releases, one a commit, laid out as SGLang's own is."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchharness.records import Environment


def make(folder: Path, releases: Sequence[tuple[str, Environment]]) -> dict[str, str]:
    """Commit the installed wheel of each release in turn; release -> full hash.

    Compiled modules and the generated version file are left out, as git would have neither. A commit's
    `pyproject.toml` names what the release asks for; its tag is what tells the release.
    """
    folder.mkdir(parents=True)
    _git(folder, "init", "-q", "-b", "main")
    commits = {}
    for release, environment in releases:
        (site,) = Path(environment.path).glob("lib/python*/site-packages")
        python = folder / "python"
        shutil.rmtree(python, ignore_errors=True)
        without = shutil.ignore_patterns("*.so", "_version.py", "__pycache__", "test")
        shutil.copytree(site / "sglang", python / "sglang", ignore=without)
        metadata = (site / f"sglang-{release}.dist-info" / "METADATA").read_text(encoding="utf-8")
        asked = [
            line
            for line in re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
            if "extra" not in line
        ]
        lines = "".join(f"    {line!r},\n" for line in asked)
        text = f'[project]\nname = "sglang"\ndynamic = ["version"]\ndependencies = [\n{lines}]\n'
        (python / "pyproject.toml").write_text(text, encoding="utf-8")
        commits[release] = commit(folder, f"SGLang {release}")
        _git(folder, "tag", f"v{release}")
    return commits


def commit(folder: Path, subject: str) -> str:
    """Commit all that stands in the folder; the full hash."""
    _git(folder, "add", "--all", "--force")
    _git(folder, "commit", "-q", "-m", subject)
    return _git(folder, "rev-parse", "HEAD")


def _git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()

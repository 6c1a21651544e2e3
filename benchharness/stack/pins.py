"""Requirements of installed packages that the environment does not fulfil: pins that were overridden."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from benchharness.stack.packages import normal


def broken(environment: Path) -> dict[str, str]:
    """Where what is installed differs from what another installed package asks for.

    A package that is not installed at all is no difference: extras of the CUDA build are left out on purpose
    on a CPU, and a declared `null` is known anyway.

    Returns:
        Normalised name -> "requirement -> installed version", as `==0.4.2.post2 -> 0.4.4`.
    """
    site = next(iter(environment.glob("lib/python*/site-packages")))
    version = site.parent.name.removeprefix("python")
    here = {normal(one.metadata["Name"]): one for one in distributions(path=[str(site)])}
    found: dict[str, list[str]] = {}
    for one in here.values():
        for line in one.requires or ():
            requirement = _requirement(line, version)
            if requirement is None or normal(requirement.name) not in here:
                continue
            installed = here[normal(requirement.name)].version
            if not _holds(requirement, installed):
                found.setdefault(normal(requirement.name), []).append(
                    f"{requirement.specifier} -> {installed}"
                )
    return {name: "; ".join(sorted(set(lines))) for name, lines in sorted(found.items())}


def _requirement(line: str, version: str) -> Requirement | None:
    """The requirement if it holds for this Python without extras."""
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return None
    marker = requirement.marker
    return (
        requirement if marker is None or marker.evaluate({"extra": "", "python_version": version}) else None
    )


def _holds(requirement: Requirement, installed: str) -> bool:
    try:
        return requirement.specifier.contains(Version(installed), prereleases=True)
    except InvalidVersion:
        return True

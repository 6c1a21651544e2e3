"""Small wheels, made on the spot: what a package holds and asks for is what the test says."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path


def wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str | bytes],
    *,
    requires: tuple[str, ...] = (),
    scripts: Mapping[str, str] | None = None,
    tag: str = "py3-none-any",
) -> Path:
    """Write a wheel; `scripts` are console scripts, name -> module:function."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    lines = [f"Requires-Dist: {line}\n" for line in requires]
    contents: dict[str, str | bytes] = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{''.join(lines)}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    if scripts:
        entries = "".join(f"{script} = {place}\n" for script, place in scripts.items())
        contents[f"{info}/entry_points.txt"] = f"[console_scripts]\n{entries}"
    record = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in {**contents, f"{info}/RECORD": record}.items():
            archive.writestr(member, content)
    return path

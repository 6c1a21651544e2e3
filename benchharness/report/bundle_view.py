"""Bundles for hosts without a network, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from benchharness.report.console import duration, table

if TYPE_CHECKING:
    from benchharness.stack.bundles import Packed, Unpacked


def show_packed(console: Console, packed: Packed) -> None:
    """Print what is in the bundle, what is not, and how to install it."""
    listing = table("")
    for heading in ("archive", "parts", "plain MB", "packed MB"):
        listing.add_column(heading, justify="left" if heading == "archive" else "right")
    for archive in packed.manifest["archives"]:
        size = sum(part["bytes"] for part in archive["parts"])
        parts = str(len(archive["parts"]))
        listing.add_row(archive["name"], parts, _megabytes(archive["plain_bytes"]), _megabytes(size))
    console.print(listing)
    for row in packed.manifest["environments"]:
        console.print(f"{escape(', '.join(row['stacks']))}: {len(row['packages'])} packages", highlight=False)
        for words, names in (("left to the host", row["from_host"]), ("left out", row["omitted"])):
            if names:
                console.print(f"  {words}: {escape(', '.join(names))}", highlight=False)
    size = _megabytes(packed.packed_bytes)
    console.print(f"{size} MB in {escape(str(packed.folder))}, {duration(packed.took_s)}", highlight=False)
    if packed.manifest["harness"]:
        console.print("On the host: python3 install.py --venv FOLDER --cache CACHE, in the bundle's folder")
    else:
        console.print("On the host: benchharness env unpack FOLDER --cache CACHE")


def packed_document(packed: Packed) -> dict[str, Any]:
    """The same for programs."""
    return {
        "path": str(packed.folder),
        "packed_bytes": packed.packed_bytes,
        "took_s": round(packed.took_s, 1),
        **{name: packed.manifest[name] for name in ("target", "environments", "harness", "archives")},
    }


def show_unpacked(console: Console, unpacked: Sequence[Unpacked]) -> None:
    """Print one line an environment."""
    for one in unpacked:
        stacks = escape(", ".join(one.stacks))
        if one.environment is None:
            console.print(f"[red]unbuildable[/red] {stacks}: {escape(one.reason)}")
            continue
        took = duration(one.environment.built_s)
        done = f"unpacked in {took}" if one.environment.built_s else "ready"
        console.print(f"{stacks}: {one.environment.key}, {len(one.environment.packages)} packages, {done}")
        for words, names in (
            ("from the host", one.environment.from_host),
            ("left out", one.environment.omitted),
        ):
            if names:
                console.print(f"  {words}: {escape(', '.join(names))}", highlight=False)


def unpacked_document(unpacked: Sequence[Unpacked]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "environments": [
            {
                "stacks": list(one.stacks),
                "key": one.environment.key if one.environment else None,
                "path": one.environment.path if one.environment else None,
                "from_host": list(one.environment.from_host) if one.environment else [],
                "omitted": list(one.environment.omitted) if one.environment else [],
                "unbuildable": one.reason or None,
            }
            for one in unpacked
        ]
    }


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f}"

"""Environments, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from benchharness.records import Built
from benchharness.report.console import duration, table

if TYPE_CHECKING:
    from benchharness.stack.checkouts import KeptCheckout
    from benchharness.stack.shelf import Kept


def show_built(console: Console, built: Sequence[Built]) -> None:
    """Print one line a stack."""
    for one in built:
        if one.reason:
            console.print(f"[red]unbuildable[/red] {escape(one.stack)}: {escape(one.reason)}")
        elif one.environment is None:
            console.print(f"{escape(one.stack)}: the harness's own interpreter serves")
        else:
            took = f"built in {duration(one.environment.built_s)}" if one.environment.built_s else "ready"
            packages = len(one.environment.packages)
            console.print(f"{escape(one.stack)}: {one.environment.key}, {packages} packages, {took}")


def built_document(built: Sequence[Built]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "environments": [
            {
                "stack": one.stack,
                "key": one.environment.key if one.environment else None,
                "path": one.environment.path if one.environment else None,
                "built_s": one.environment.built_s if one.environment else 0.0,
                "unbuildable": one.reason or None,
            }
            for one in built
        ]
    }


def show_kept(console: Console, cache: Path, found: Sequence[Kept]) -> None:
    """Print one line an environment."""
    if not found:
        console.print(f"{cache} holds no environments.", markup=False)
        return
    listing = table("")
    for heading in ("key", "python", "packages", "own MB", "shared MB", "last used"):
        listing.add_column(heading, justify="left" if heading == "key" else "right")
    for one in found:
        listing.add_row(
            one.environment.key,
            one.environment.python,
            str(len(one.environment.packages)),
            _megabytes(one.own_bytes),
            _megabytes(one.shared_bytes),
            f"{one.last_used:%Y-%m-%d %H:%M}",
        )
    console.print(listing)
    for one in found:
        if one.environment.omitted:
            left_out = escape(", ".join(one.environment.omitted))
            console.print(
                f"{one.environment.key} lacks what its bundle left out: {left_out}", highlight=False
            )
    console.print("own: freed by removing it; shared: also held by uv's cache or another environment.")


def show_removed(
    console: Console, old: Sequence[Kept], code: Sequence[KeptCheckout], layer_bytes: int, *, dry_run: bool
) -> None:
    """Print what was removed, or would be; `layer_bytes` are of files that no environment shares any more."""
    word = "would remove" if dry_run else "removed"
    for one in old:
        used = f"last used {one.last_used:%Y-%m-%d %H:%M}"
        console.print(f"{word} {one.environment.key} ({_megabytes(one.own_bytes)} MB, {used})")
    for checkout in code:
        used = f"last used {checkout.last_used:%Y-%m-%d %H:%M}"
        name = escape(checkout.name)
        console.print(f"{word} checkout {name} ({_megabytes(checkout.size_bytes)} MB, {used})")
    if layer_bytes:
        console.print(f"{word} {_megabytes(layer_bytes)} MB of unpacked files that no environment holds")
    if not old and not code and not layer_bytes:
        console.print("Nothing to remove.")


def kept_document(found: Sequence[Kept]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "environments": [
            {
                "key": one.environment.key,
                "path": one.environment.path,
                "python": one.environment.python,
                "packages": dict(one.environment.packages),
                "from_host": list(one.environment.from_host),
                "omitted": list(one.environment.omitted),
                "own_bytes": one.own_bytes,
                "shared_bytes": one.shared_bytes,
                "last_used": one.last_used.isoformat(timespec="seconds"),
            }
            for one in found
        ]
    }


def removed_document(old: Sequence[Kept], code: Sequence[KeptCheckout], layer_bytes: int) -> dict[str, Any]:
    """The same for programs."""
    checkouts = [
        {
            "path": str(one.path),
            "bytes": one.size_bytes,
            "last_used": one.last_used.isoformat(timespec="seconds"),
        }
        for one in code
    ]
    return {**kept_document(old), "checkouts": checkouts, "layer_bytes": layer_bytes}


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f}"

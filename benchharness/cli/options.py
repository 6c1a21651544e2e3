"""Options and output that several commands share."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


def _nameable(_: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Refuse a path that is no UTF-8: Parquet can't be written there, nor the path be stored."""
    try:
        str(value).encode()
    except UnicodeEncodeError:
        raise click.BadParameter("the path is no UTF-8 text", param=parameter) from None
    return value


def results_option(function: _F) -> _F:
    """`--results DIR`."""
    return click.option(
        "--results",
        type=click.Path(path_type=Path, file_okay=False),
        callback=_nameable,
        default=Path("results"),
        envvar="BENCHHARNESS_RESULTS",
        show_default=True,
        show_envvar=True,
        help="Folder that holds the stored runs.",
    )(function)


def cache_option(function: _F) -> _F:
    """`--cache DIR`."""
    return click.option(
        "--cache",
        type=click.Path(path_type=Path, file_okay=False),
        callback=_nameable,
        default=None,
        envvar="BENCHHARNESS_CACHE",
        show_envvar=True,
        help="Folder for environments, sources and models.  [default: ~/.cache/benchharness]",
    )(function)


def json_option(function: _F) -> _F:
    """`--json`."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON object on standard output; text for people goes to standard error.",
    )(function)


def set_option(function: _F) -> _F:
    """`--set a.b=c`."""
    return click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="A.B=C",
        help="Change one value of the experiment file, as measure.launches=5. May be repeated.",
    )(function)


def cache_folder(given: Path | None) -> Path:
    """The cache folder: as given, or under the user's own cache folder."""
    if given is not None:
        return given.absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "benchharness"


def print_json(document: dict[str, Any], *, indent: int | None = 2) -> None:
    """One JSON object on standard output; figures that can't be known are null.

    Without `indent` it is one line: ten times as fast, where there is much of it.
    """
    import json

    from benchharness.report.console import silence

    try:
        click.echo(json.dumps(_finite(document), indent=indent, default=str))
    except BrokenPipeError:
        silence(sys.stdout)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

"""The matrix: every combination of the axes, less `exclude`, plus `include`, each with a name.

An axis is either a path in `base` with a list of values (`args.n_ctx: [2048, 4096]`) or a name of
the author's with labelled settings, for things that change together:
`speculation: {off: {args.n_max: 0}, draft-4: {args.n_max: 4}}`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchharness.errors import UsageError, nearest
from benchharness.spec.document import Document, SpelledFloat, SpelledInt, split
from benchharness.spec.models import BaseSpec

MOST_STACKS = 10_000


@dataclass(frozen=True)
class Combination:
    """One point of the matrix: the choice on each axis, and the settings that follow."""

    name: str
    choices: Mapping[str, str]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class _Choice:
    """One value of an axis: how it is written, how it is shown, and what it sets."""

    key: str
    label: str
    shown: str
    settings: Mapping[str, Any]


def combinations(document: Document) -> tuple[Combination, ...]:
    """Multiply out the document's matrix; UsageError for an empty or contradictory one."""
    matrix = document.data.get("matrix") or {}
    if not isinstance(matrix, dict):
        raise UsageError(f"{document.where(('matrix',))}: `matrix` must be a mapping of axes")
    axes = [
        _axis(document, key, values, matrix)
        for key, values in matrix.items()
        if key not in ("include", "exclude")
    ]
    size = 1
    for axis in axes:
        size *= len(axis)
    if size > MOST_STACKS:
        raise UsageError(f"the matrix has {size} combinations, more than {MOST_STACKS}", "split it")
    chosen = [{choice.key: choice for choice in row} for row in itertools.product(*axes)] if axes else []
    excluded = _exclude(document, matrix.get("exclude"), chosen)
    kept = [row for row in chosen if row not in excluded]
    extra: list[dict[str, Any]] = [{} for _ in kept]
    kept, extra = _include(document, matrix.get("include"), kept, extra, excluded)
    if not kept and (axes or "include" in matrix or "exclude" in matrix):
        raise UsageError(f"{document.where(('matrix',))}: the matrix is empty", "leave a combination in")
    if not kept:
        return (Combination("base", {}, {}),)
    return _named(document, kept, extra)


def _axis(document: Document, key: str, values: Any, matrix: Mapping[str, Any]) -> list[_Choice]:
    where = document.where(("matrix", key))
    if isinstance(values, dict):
        choices = [_labelled(document, key, label, settings) for label, settings in values.items()]
    elif isinstance(values, list):
        check_path(where, key)
        short = split(key)[-1].rsplit(".", 1)[-1]
        if sum(split(other)[-1].rsplit(".", 1)[-1] == short for other in matrix) > 1:
            short = key
        choices = [_Choice(key, text_of(v), f"{short}={text_of(v)}", {key: v}) for v in values]
    else:
        raise UsageError(f"{where}: the axis {key!r} needs a list of values", f"write {key}: [{values}]")
    if not choices:
        raise UsageError(
            f"{where}: the axis {key!r} has no values, so the matrix is empty", "give it a value"
        )
    labels = [choice.label for choice in choices]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"{where}: the axis {key!r} names {label!r} twice", "remove one of them")
    return choices


def _labelled(document: Document, key: str, label: str, settings: Any) -> _Choice:
    where = document.where(("matrix", key, label))
    if settings is None:
        settings = {}
    if not isinstance(settings, dict):
        raise UsageError(f"{where}: {key}: {label} needs a mapping of paths to values")
    for path in settings:
        check_path(where, path)
    return _Choice(key, label, label, settings)


def check_path(where: str, key: str) -> None:
    """Refuse a path that leads nowhere in `base`; UsageError with the nearest known name."""
    parts = split(key)
    fields = BaseSpec.model_fields
    if parts[0] not in fields:
        raise UsageError(
            f"{where}: unknown path {key!r}{nearest(parts[0], fields)}",
            "an axis with a list of values needs a path in `base`, as args.NAME or packages.NAME",
        )
    if len(parts) < 2 and parts[0] not in ("python",):
        raise UsageError(f"{where}: {key!r} names a whole section", f"name a key in it, as {key}.NAME")


def text_of(value: Any) -> str:
    """A matrix value as names show it."""
    if isinstance(value, SpelledInt | SpelledFloat):
        return value.text
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "+".join(text_of(item) for item in value)
    return str(value)


def _printable(text: str) -> str:
    """The text with line breaks and control characters spelled out: names stand in tables and in lines."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _entries(document: Document, which: str, entries: Any) -> list[tuple[str, dict[str, Any]]]:
    if entries is None:
        return []
    if not isinstance(entries, list) or not all(isinstance(e, dict) and e for e in entries):
        raise UsageError(
            f"{document.where(('matrix', which))}: `{which}` must be a list of mappings of axis to value"
        )
    return [(document.where(("matrix", which, i)), entry) for i, entry in enumerate(entries)]


def _exclude(document: Document, entries: Any, rows: list[dict[str, _Choice]]) -> list[dict[str, _Choice]]:
    excluded: list[dict[str, _Choice]] = []
    axes = list(rows[0]) if rows else []
    for where, entry in _entries(document, "exclude", entries):
        for key in entry:
            if key not in axes:
                raise UsageError(f"{where}: `exclude` names no axis {key!r}{nearest(key, axes)}")
        matches = [r for r in rows if all(r[key].label == text_of(v) for key, v in entry.items())]
        if not matches:
            shown = ", ".join(f"{key}: {text_of(value)}" for key, value in entry.items())
            raise UsageError(f"{where}: `exclude` {{{shown}}} matches no combination", "correct or remove it")
        excluded.extend(matches)
    return excluded


def _include(
    document: Document,
    entries: Any,
    kept: list[dict[str, _Choice]],
    extra: list[dict[str, Any]],
    excluded: Sequence[dict[str, _Choice]],
) -> tuple[list[dict[str, _Choice]], list[dict[str, Any]]]:
    """Add to the combinations that an entry matches, or make a new one, as GitHub Actions does."""
    original = len(kept)
    axes = _axes_of(kept, excluded)
    for where, entry in _entries(document, "include", entries):
        named = {key: text_of(value) for key, value in entry.items() if key in axes}
        settings = {key: value for key, value in entry.items() if key not in axes}
        for key in settings:
            check_path(where, key)
        hits = [
            index
            for index, row in enumerate(kept[:original])
            if all(row[key].label == label for key, label in named.items())
        ]
        if hits and settings:
            for index in hits:
                extra[index] = {**extra[index], **settings}
            continue
        if hits:
            raise UsageError(f"{where}: `include` adds a combination that is there already", "remove it")
        for row in excluded:
            if named and all(row[key].label == label for key, label in named.items()):
                raise UsageError(
                    f"{where}: `include` brings back what `exclude` takes out", "keep one of them"
                )
        kept.append({key: _chosen(where, axes, key, entry[key]) for key in named})
        extra.append(settings)
    return kept, extra


def _axes_of(*groups: Sequence[dict[str, _Choice]]) -> dict[str, dict[str, _Choice]]:
    axes: dict[str, dict[str, _Choice]] = {}
    for row in itertools.chain(*groups):
        for key, choice in row.items():
            axes.setdefault(key, {})[choice.label] = choice
    return axes


def _chosen(where: str, axes: Mapping[str, Mapping[str, _Choice]], key: str, value: Any) -> _Choice:
    """The axis value that an `include` entry names: a known one, or a new one on a path axis."""
    label = text_of(value)
    if label in axes[key]:
        return axes[key][label]
    some = next(iter(axes[key].values()))
    if key not in some.settings:
        raise UsageError(f"{where}: the axis {key!r} has no {label!r}{nearest(label, axes[key])}")
    return _Choice(key, label, some.shown.partition("=")[0] + f"={label}", {key: value})


def _named(
    document: Document, kept: Sequence[dict[str, _Choice]], extra: Sequence[dict[str, Any]]
) -> tuple[Combination, ...]:
    result: list[Combination] = []
    for row, settings in zip(kept, extra, strict=True):
        merged: dict[str, Any] = {}
        for choice in row.values():
            for path, value in choice.settings.items():
                if path in merged:
                    raise UsageError(
                        f"{document.where(('matrix', choice.key))}: two axes set {path!r} at once",
                        "set it on one axis only",
                    )
                merged[path] = value
        shown = [choice.shown for choice in row.values()]
        if not row:
            shown = [f"{split(key)[-1]}={text_of(value)}" for key, value in settings.items()]
        name = _printable(",".join(shown))
        if any(name == other.name for other in result):
            more = (f"{split(key)[-1]}={text_of(value)}" for key, value in settings.items())
            name = ",".join([name, *map(_printable, more)])
        if any(name == other.name for other in result):
            raise UsageError(f"{document.where(('matrix',))}: two combinations are both named {name!r}")
        labels = {choice.key: choice.label for choice in row.values()}
        result.append(Combination(name, labels, {**merged, **settings}))
    return tuple(result)

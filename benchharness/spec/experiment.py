"""An experiment: the file's document turned into stacks and workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchharness.records import Model, Source, Stack, Workload
from benchharness.spec import document as documents
from benchharness.spec.document import Document
from benchharness.spec.matrix import check_path, combinations, text_of
from benchharness.spec.models import BaseSpec, ExperimentSpec, MeasureSpec
from benchharness.spec.validation import validated


@dataclass(frozen=True)
class Experiment:
    """A file, understood.

    Attributes:
        name: names the folder under results/.
        stacks: one for each combination of the matrix, in the file's order.
        workloads: one for each context length.
        measure: how often and in which order.
        axes: path in `base` -> its values in order, for bisections.
        source: file name, text and `--set` arguments, kept with every run.
    """

    name: str
    stacks: tuple[Stack, ...]
    workloads: tuple[Workload, ...]
    measure: MeasureSpec
    source: dict[str, Any]
    axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def load(path: Path, sets: Sequence[str] = ()) -> Experiment:
    """Read an experiment file; UsageError with file and line for whatever is wrong with it."""
    return _understood(documents.with_sets(documents.read(path), sets))


def parse(text: str, name: str = "experiment", sets: Sequence[str] = ()) -> Experiment:
    """The same from text."""
    return _understood(documents.with_sets(documents.parse(text, name), sets))


def json_schema() -> dict[str, Any]:
    """JSON Schema of experiment files, for editors."""
    schema = ExperimentSpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _understood(document: Document) -> Experiment:
    spec = validated(ExperimentSpec, document.data, document, ())
    stacks = tuple(
        _stack(document, spec.engine, point.name, point.settings) for point in combinations(document)
    )
    warmup = None if spec.measure.warmup == "auto" else spec.measure.warmup
    declared = spec.workload.model_dump(exclude={"context_tokens", "concurrency"})
    open_loop = spec.workload.rate_rps is not None or spec.workload.trace_file is not None
    concurrency = None if open_loop else spec.workload.concurrency or 1
    workloads = tuple(
        Workload(context_tokens=context, concurrency=concurrency, warmup_requests=warmup, **declared)
        for context in spec.workload.context_tokens
    )
    source = {"file": document.name, "text": document.text, "sets": list(document.sets)}
    axes = {path: _values(path, values) for path, values in spec.axes.items()}
    return Experiment(spec.name, stacks, workloads, spec.measure, source, axes)


def _values(path: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """An axis's values: arguments as they are, all else as it was written (version 0.10 is "0.10")."""
    check_path("axes", path)
    if path.startswith("args."):
        return tuple(documents.plain(value) for value in values)
    return tuple(text_of(value) for value in values)


def _stack(document: Document, engine: str, name: str, settings: Any) -> Stack:
    base = documents.copied(document.data.get("base") or {})
    for path, value in settings.items():
        documents.put(base, documents.split(path), value)
    spec = validated(BaseSpec, base, document, ("base",), f"in stack {name}: ")
    return Stack(
        name=name,
        engine=engine,
        source=Source(**spec.source.model_dump()),
        python=spec.python,
        packages=dict(spec.packages),
        find_links=spec.find_links,
        extra_index_urls=spec.extra_index_urls,
        env=dict(spec.env),
        model=Model(**spec.model.model_dump()),
        args={key: value for key, value in spec.args.items() if value is not None},
    )

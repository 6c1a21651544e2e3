"""A thresholds file: what a gate demands, in YAML.

undecided: fail                     # or warn, pass
bounds:
  output_tok_s: ">= 80"             # absolute, in the metric's unit
  verify_ms: ["<= 21", "+3 %"]      # and against the baseline
  ttft_ms: {max: 200, context_tokens: [128, 2048], stack: eagle3}
  itl_ms: {change: +5 %, undecided: warn}
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from benchharness.errors import UsageError
from benchharness.metrics import METRICS, Direction, named
from benchharness.records.bound import Bound, Limit, Thresholds, Undecided
from benchharness.spec import document as documents
from benchharness.spec.document import Document, plain
from benchharness.spec.models import Frozen, PositiveInt, Text
from benchharness.spec.validation import validated

_ABSOLUTE = re.compile(r"(<=|>=|<|>)\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*([a-zA-Z/]*)")
_CHANGE = re.compile(r"([-+]?)\s*([\d.]+)\s*%")
Finite = Annotated[float, Field(allow_inf_nan=False)]
_HOW = 'write a bound as ">= 80", "<= 21" or "+3 %"'


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else [value]


def _as_bounds(value: Any) -> Any:
    """One bound or several, each in text or as a mapping."""
    text = (str, int, float)
    return [{"bound": str(one)} if isinstance(one, text) else one for one in _as_list(value)]


class BoundSpec(Frozen):
    """One bound of a metric."""

    bound: Text | None = Field(None, description='As text: ">= 80", "<= 21", "+3 %" (against the baseline).')
    min: Finite | None = Field(None, description="At least, in the metric's unit.")
    max: Finite | None = Field(None, description="At most, in the metric's unit.")
    change: Text | None = Field(None, description='Against the baseline: "+3 %" is at most 3 % more.')
    stack: Annotated[tuple[Text, ...], BeforeValidator(_as_list)] = Field(
        (), description="Stacks that it holds for; all by default."
    )
    context_tokens: Annotated[tuple[PositiveInt, ...], BeforeValidator(_as_list)] = Field(
        (), description="Context lengths that it holds for; all by default."
    )
    undecided: Literal["fail", "warn", "pass"] | None = Field(
        None, description="What to do where it can't be decided; as the whole file says by default."
    )

    @model_validator(mode="after")
    def _something(self) -> BoundSpec:
        if self.bound is None and self.min is None and self.max is None and self.change is None:
            raise ValueError(f"nothing is bounded: {_HOW}")
        return self


class ThresholdsSpec(Frozen):
    """A thresholds file of benchharness."""

    bounds: dict[str, Annotated[tuple[BoundSpec, ...], BeforeValidator(_as_bounds), Field(min_length=1)]] = (
        Field(description="Metric (see docs/glossary.md) -> its bound or bounds.", min_length=1)
    )
    undecided: Literal["fail", "warn", "pass"] = Field(
        "fail", description="What to do where too few launches were made to decide: fail ends 3."
    )
    require: Literal["valid", "any"] = Field(
        "valid",
        description="valid: an invalid measurement ends the gate with 4. any: its cells are left out.",
    )
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = Field(
        0.95, description="Confidence of all decisions together."
    )


def load(path: Path) -> Thresholds:
    """Read a thresholds file; UsageError with file and line for whatever is wrong with it."""
    return _understood(documents.read(path, "thresholds file"))


def parse(text: str, name: str = "thresholds") -> Thresholds:
    """The same from text."""
    return _understood(documents.parse(text, name))


def json_schema() -> dict[str, Any]:
    """JSON Schema of thresholds files, for editors."""
    schema = ThresholdsSpec.model_json_schema()
    # A bound is mostly written as text or as a list, which the model takes but its schema can't say.
    bound = schema["properties"]["bounds"]["additionalProperties"]
    single = {"anyOf": [{"type": "string"}, bound["items"]]}
    schema["properties"]["bounds"]["additionalProperties"] = {
        "anyOf": [*single["anyOf"], {"type": "array", "items": single, "minItems": 1}]
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _understood(document: Document) -> Thresholds:
    spec = validated(ThresholdsSpec, plain(document.data), document, ())
    bounds: list[Bound] = []
    for metric, several in spec.bounds.items():
        place = document.where(("bounds", metric))
        try:
            named(metric)
            for one in several:
                rule = Undecided(one.undecided or spec.undecided)
                bounds += (replace(bound, undecided=rule) for bound in _bounds(metric, one))
        except UsageError as error:
            raise UsageError(f"{place}: {error.message}", error.advice) from None
    return Thresholds(tuple(bounds), spec.require == "valid", spec.confidence)


def _bounds(metric: str, spec: BoundSpec) -> Iterator[Bound]:
    cells: Mapping[str, Any] = {"stacks": spec.stack, "contexts": spec.context_tokens}
    if spec.bound is not None:
        yield _from_text(metric, spec.bound, cells)
    if spec.min is not None:
        yield Bound(metric, Limit.AT_LEAST, float(spec.min), f">= {spec.min:g}", **cells)
    if spec.max is not None:
        yield Bound(metric, Limit.AT_MOST, float(spec.max), f"<= {spec.max:g}", **cells)
    if spec.change is not None:
        if not _CHANGE.fullmatch(spec.change.strip()):
            raise UsageError(f"{metric}: {spec.change!r} is no change", 'write it as "+3 %"')
        yield _from_text(metric, spec.change, cells)


def _from_text(metric: str, text: str, cells: Mapping[str, Any]) -> Bound:
    if found := _ABSOLUTE.fullmatch(text.strip()):
        sign, number, unit = found.groups()
        if unit and unit != METRICS[metric].unit:
            raise UsageError(
                f"{metric} is measured in {METRICS[metric].unit}, not {unit}", "leave out the unit"
            )
        limit = Limit.AT_MOST if sign.startswith("<") else Limit.AT_LEAST
        return Bound(metric, limit, _number(metric, number), text.strip(), **cells)
    if found := _CHANGE.fullmatch(text.strip()):
        sign, number = found.groups()
        change = _number(metric, number) / 100
        direction = METRICS[metric].direction
        if not sign and direction == Direction.NEITHER:
            raise UsageError(f"{metric}: neither way is better, so {text!r} says too little", 'write "+3 %"')
        upper = sign == "+" or (not sign and direction == Direction.LOWER)
        limit = Limit.CHANGE_AT_MOST if upper else Limit.CHANGE_AT_LEAST
        return Bound(metric, limit, change if upper else -change, text.strip(), **cells)
    raise UsageError(f"{metric}: {text!r} is no bound", _HOW)


def _number(metric: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{metric}: {text!r} is no number", _HOW) from None
    if not math.isfinite(value):
        raise UsageError(f"{metric}: {text!r} is no number", _HOW)
    return value

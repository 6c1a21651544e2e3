"""The differences of two stacks as factors, declared or not, and the stacks that lie between the two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from benchharness.bisect.factors.hypotheses import Combination
from benchharness.bisect.order import Declared, applied, normal
from benchharness.errors import UsageError
from benchharness.probe.masking import MASK
from benchharness.records import Attestation, Model, Source, Stack
from benchharness.spec.matrix import text_of

WHOLE = ("source", "python", "model")
"""Parts of a stack that change as one."""
HOST = "host"
PER_START = re.compile(r"^BENCHHARNESS_|_RUN_ID$")
"""Variables of the harness's own, and those that differ at every start."""
IDENTITY = ("index", "uuid", "pci_bus_id")
"""What tells one GPU from another and is no condition of a measurement."""
MOST_TOLD = 60
"""Characters of a value in a sentence."""


@dataclass(frozen=True)
class Factor:
    """One difference of two stacks that can be switched.

    Attributes:
        name: `source`, `python`, `model`, or a path such as `env.NCCL_PROTO`, `packages.torch`, `args.x`.
        good, bad: path -> value that gives a stack the good or the bad side of it; empty for `source`,
            `python` and `model`, which are taken over whole.
        shown: what people read of it: good value, bad value.
        declared: False for what no experiment said and only the launches showed.
    """

    name: str
    good: Mapping[str, Any]
    bad: Mapping[str, Any]
    shown: tuple[str, str]
    declared: bool = True

    @property
    def sentence(self) -> str:
        """One line for people."""
        good, bad = self.shown
        return f"{self.name}: {good} -> {bad}" + ("" if self.declared else " (nobody declared it)")


@dataclass(frozen=True)
class Differences:
    """What sets two stacks apart.

    Attributes:
        factors: what can be switched, numbered by position.
        fixed: path -> value that every combination gets: declared differently, effectively alike.
        unswitchable: what differs and no launch can switch, one sentence each.
    """

    factors: tuple[Factor, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    unswitchable: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Side:
    """One stack: what it declares, and what its launches showed."""

    packages: Mapping[str, str | None]
    env: Mapping[str, str]
    args: Mapping[str, Any]
    real_packages: Mapping[str, str] | None
    real_env: Mapping[str, frozenset[str]] | None


def differences(
    good: Stack,
    bad: Stack,
    good_attestation: Attestation | None = None,
    bad_attestation: Attestation | None = None,
) -> Differences:
    """The factors by which two stacks differ.

    With both attestations, packages and variables count as they really were: what differs though nobody
    declared it becomes a factor by being pinned or set, and what only one side declares is compared with
    what the other really had.

    Raises:
        UsageError: two engines, or nothing that differs.
    """
    if good.engine != bad.engine:
        raise UsageError(
            f"the stacks run {good.engine} and {bad.engine}, and no stack lies between two engines",
            "name two stacks of one engine",
        )
    attested = good_attestation is not None and bad_attestation is not None
    one = _side(good, good_attestation if attested else None)
    other = _side(bad, bad_attestation if attested else None)
    found = _Found([*_wholes(good, bad)], {}, [])
    _compare_packages(one, other, found, good)
    _compare_env(one, other, found)
    for name in sorted(one.args.keys() | other.args.keys()):
        found.add(f"args.{name}", one.args.get(name, Declared.NOT), other.args.get(name, Declared.NOT))
    if good_attestation is not None and bad_attestation is not None:
        found.unswitchable.extend(_unswitchable(good_attestation, bad_attestation))
    return Differences(tuple(found.factors), found.fixed, tuple(found.unswitchable))


def combined(good: Stack, bad: Stack, found: Differences, combination: Combination) -> Stack:
    """The good stack with some factors of the bad one; its name tells which.

    Args:
        good, bad: the stacks that `found` came from.
        found: their differences.
        combination: positions in `found.factors` that have the bad side.

    Raises:
        UsageError: a factor that there isn't.
    """
    unknown = [at for at in combination if not 0 <= at < len(found.factors)]
    if unknown:
        raise UsageError(
            f"there are {len(found.factors)} factors, numbered from 0, but {unknown[0]} is named"
        )
    settings = dict(found.fixed)
    whole: dict[str, Any] = {
        name: tuple(dict.fromkeys((*getattr(good, name), *getattr(bad, name))))
        for name in ("find_links", "extra_index_urls")
    }
    for at, factor in enumerate(found.factors):
        taken = at in combination
        if factor.name in WHOLE:
            whole[factor.name] = getattr(bad if taken else good, factor.name)
        settings |= factor.bad if taken else factor.good
    stack = replace(applied(good, settings), **whole)
    return replace(stack, name=_name(good, bad, found, combination))


def _name(good: Stack, bad: Stack, found: Differences, combination: Combination) -> str:
    taken = [factor.name for at, factor in enumerate(found.factors) if at in combination]
    left = [factor.name for at, factor in enumerate(found.factors) if at not in combination]
    if len(taken) <= len(left):
        return " + ".join([good.name, *taken])
    return " - ".join([bad.name, *left])


@dataclass
class _Found:
    """Collects what `differences` finds."""

    factors: list[Factor]
    fixed: dict[str, Any]
    unswitchable: list[str]

    def add(self, path: str, good: Any, bad: Any, *, declared: bool = True) -> None:
        """A factor, if the two sides differ."""
        if good != bad or type(good) is not type(bad):
            shown = _told(good, path), _told(bad, path)
            self.factors.append(Factor(path, {path: good}, {path: bad}, shown, declared))


def _wholes(good: Stack, bad: Stack) -> Iterator[Factor]:
    if _code(good.source) != _code(bad.source):
        yield Factor("source", {}, {}, _parts(good.source, bad.source))
    if good.python != bad.python:
        yield Factor(
            "python", {}, {}, (good.python or "the harness's own", bad.python or "the harness's own")
        )
    if good.model != bad.model:
        yield Factor("model", {}, {}, _parts(good.model, bad.model))


def _code(source: Source) -> Source:
    """A source without the folder that it happens to lie in."""
    return replace(source, folder=None)


def _parts(good: Source | Model, bad: Source | Model) -> tuple[str, str]:
    """Only what differs of two records."""
    names = [one.name for one in fields(good) if one.name != "folder"]
    names = [name for name in names if getattr(good, name) != getattr(bad, name)]
    told = [", ".join(f"{name} {_told(getattr(side, name), name)}" for name in names) for side in (good, bad)]
    return told[0], told[1]


def _compare_packages(one: _Side, other: _Side, found: _Found, good: Stack) -> None:
    """Versions as declared; where a side declares none, as its launches had it."""
    real = [side.real_packages or {} for side in (one, other)]
    own_code = {normal(good.engine)} if any(f.name == "source" for f in found.factors) else set()
    for name in sorted({*one.packages, *other.packages, *real[0], *real[1]} - own_code):
        path = f"packages.{name}"
        declared = name in one.packages, name in other.packages
        values = [
            side.packages[name] if name in side.packages else _really(side.real_packages, name)
            for side in (one, other)
        ]
        if HOST in values and values[0] == values[1]:
            if real[0].get(name) != real[1].get(name):
                found.unswitchable.append(
                    f"{path} is the host's own and was {real[0].get(name)} there, {real[1].get(name)} here: "
                    "declare two versions to make it a factor"
                )
        elif _alike(values[0], values[1]):
            if any(declared) and not all(declared):
                found.fixed[path] = values[0] if declared[0] else values[1]
        else:
            found.add(path, *values, declared=any(declared))


def _compare_env(one: _Side, other: _Side, found: _Found) -> None:
    """Variables as declared; where a side declares none, as its processes had it."""
    for name in sorted({*one.env, *other.env, *(one.real_env or {}), *(other.real_env or {})}):
        path = f"env.{name}"
        declared = name in one.env or name in other.env
        values = [_effective(side, name) for side in (one, other)]
        if not declared and any(isinstance(value, frozenset) or value == MASK for value in values):
            if values[0] != values[1]:
                found.unswitchable.append(
                    f"{path} differs between the two, but not alike in all processes or with a hidden value: "
                    "declare it to make it a factor"
                )
            continue
        sides = [Declared.NOT if isinstance(value, frozenset) else value for value in values]
        if sides[0] == sides[1]:
            if (name in one.env) != (name in other.env):
                found.fixed[path] = sides[0]
        else:
            found.add(path, *sides, declared=declared)


def _effective(side: _Side, name: str) -> Any:
    """A variable's declared value, else its real one; the set of values where processes disagree."""
    if name in side.env:
        return side.env[name]
    values = (side.real_env or {}).get(name, frozenset())
    if not values:
        return Declared.NOT
    return next(iter(values)) if len(values) == 1 else values


def _really(packages: Mapping[str, str] | None, name: str) -> Any:
    """The version that was there; None leaves it out; not declared where nobody looked."""
    return Declared.NOT if packages is None else packages.get(name)


def _alike(good: Any, bad: Any) -> bool:
    """The same version, but for a local part that one side leaves open (2.13.0 and 2.13.0+cpu)."""
    if isinstance(good, str) and isinstance(bad, str):
        return good == bad or good.partition("+")[0] == bad or bad.partition("+")[0] == good
    return bool(good == bad)


def _side(stack: Stack, attestation: Attestation | None) -> _Side:
    packages = {normal(name): version for name, version in stack.packages.items()}
    if attestation is None:
        return _Side(packages, stack.env, stack.args, None, None)
    real = {normal(name): version for name, version in attestation.packages.items()}
    seen: dict[str, set[str]] = {}
    for report in attestation.processes:
        for name, value in report.env.items():
            if not PER_START.search(name):
                seen.setdefault(name, set()).add(value)
    env = {name: frozenset(values) for name, values in seen.items()}
    return _Side(packages, stack.env, stack.args, real, env)


def _unswitchable(good: Attestation, bad: Attestation) -> Iterator[str]:
    """What the engine resolved and what the machine was, where it differs."""
    for name in sorted(good.settings.keys() | bad.settings.keys()):
        values = good.settings.get(name), bad.settings.get(name)
        if values[0] != values[1]:
            told = " there, ".join(_told(value, name) for value in values)
            yield f"the engine's {name} was {told} here: it follows from other settings"
    machines = _machine(good.machine), _machine(bad.machine)
    for name in sorted(machines[0].keys() | machines[1].keys()):
        values = machines[0].get(name), machines[1].get(name)
        if values[0] != values[1]:
            told = " there, ".join(_told(value, name) for value in values)
            yield f"the machine's {name} was {told} here: the harness can't switch it, set it alike"


def _machine(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Each fact by name; of GPUs each one's in their order."""
    flat = {name: value for name, value in machine.items() if name != "gpus"}
    gpus = machine.get("gpus", ())
    for name in sorted({name for gpu in gpus for name in gpu} - set(IDENTITY)):
        flat[f"gpus.{name}"] = [gpu.get(name) for gpu in gpus]
    return flat


def _told(value: Any, name: str) -> str:
    if value is None:
        return "left out" if name.startswith("packages.") else "none"
    if value is Declared.NOT:
        return "not set"
    text = text_of(value)
    return text if len(text) <= MOST_TOLD else f"{text[:MOST_TOLD]}..."

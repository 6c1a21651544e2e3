"""What of a run is not written down: the values of variables that look like secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from benchharness.probe.masking import MASK, is_secret
from benchharness.records import Launch, Plan, Run, Stack


def run(record: Run) -> Run:
    """The run without secrets in its stacks and in the experiment's text."""
    secrets = sorted(_secrets(record.plan), key=len, reverse=True)
    return replace(record, plan=plan(record.plan), experiment=_without(record.experiment, secrets))


def plan(record: Plan) -> Plan:
    """The plan without secrets in its stacks."""
    return replace(record, stacks=tuple(_stack(stack) for stack in record.stacks))


def launch(record: Launch) -> Launch:
    """The launch without secrets among the variables that the harness set."""
    env = {
        name: MASK if value is not None and is_secret(name, value) else value
        for name, value in record.env.items()
    }
    return replace(record, env=env)


def has_masks(record: Stack) -> list[str]:
    """Names of a stored stack's variables whose values were not written down."""
    return [name for name, value in record.env.items() if value == MASK]


def _stack(stack: Stack) -> Stack:
    env = {name: MASK if is_secret(name, value) else value for name, value in stack.env.items()}
    return replace(stack, env=env)


def _secrets(record: Plan) -> set[str]:
    return {
        value
        for stack in record.stacks
        for name, value in stack.env.items()
        if value and is_secret(name, value)
    }


def _without(data: Any, secrets: list[str]) -> Any:
    """The same data with every secret replaced, however deep it stands."""
    if isinstance(data, str):
        for secret in secrets:
            data = data.replace(secret, MASK)
        return data
    if isinstance(data, Mapping):
        return {key: _without(value, secrets) for key, value in data.items()}
    return [_without(value, secrets) for value in data] if isinstance(data, list | tuple) else data

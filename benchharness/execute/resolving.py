"""Where the code of a plan's stacks comes from, said exactly: full hashes, and the diffs on top of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from benchharness.records import Plan, Stack
from benchharness.stack import engines, sources
from benchharness.stack.engines.standin import SYNTHETIC_REPO


def resolve(plan: Plan, cache: Path, tell: Callable[[str], None]) -> Plan:
    """The plan with every commit named in full, so that a branch that moves meanwhile changes nothing.

    Raises UsageError for a repository, commit or patch that can't be used.
    """
    return replace(plan, stacks=tuple(_resolved(stack, cache, tell) for stack in plan.stacks))


def _resolved(stack: Stack, cache: Path, tell: Callable[[str], None]) -> Stack:
    if not _has_code(stack):
        return stack
    tell(f"looking up {stack.source.commit or 'the working tree'} of {_repo(stack)}")
    source = sources.pinned(stack.source, cache)
    if source.diff_sha256 and stack.source.commit is None and not stack.source.patch:
        tell(f"{_repo(stack)} has uncommitted work: it is part of the stack, and its diff is kept")
    return replace(stack, source=source)


def with_code(stack: Stack, cache: Path) -> Stack:
    """The stack of a resolved plan with its code checked out; as it is where it has no repository."""
    if not _has_code(stack):
        return stack
    checkout = sources.of_pinned(stack.source, cache)
    return replace(stack, source=replace(stack.source, folder=checkout.path))


def diffs(plan: Plan, cache: Path) -> Mapping[str, str]:
    """All diffs of a resolved plan: digest -> text."""
    patched = [stack.source for stack in plan.stacks if stack.source.diff_sha256]
    return {source.diff_sha256: sources.of_pinned(source, cache).diff for source in patched}


def _has_code(stack: Stack) -> bool:
    real = stack.source.repo not in (None, SYNTHETIC_REPO)
    return real and engines.named(stack.engine).runs_checkouts


def _repo(stack: Stack) -> str:
    return sources.without_password(str(stack.source.repo))

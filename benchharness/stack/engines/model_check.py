"""What can be seen to be wrong with a stack's model before anything is built, whatever the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchharness.errors import UsageError, nearest
from benchharness.records import Stack


def refuse(stack: Stack, recipes: Iterable[str], example: str, missing: Callable[[str], bool]) -> None:
    """Refuse a missing or contradictory model, and paths that are not there; UsageError.

    Args:
        stack: whose model.
        recipes: names of those that the engine knows.
        example: how a model of this engine is written, after `model: `.
        missing: whether a path that is given is not there.
    """
    model, known = stack.model, tuple(recipes)
    if model.recipe is not None:
        if model.recipe not in known:
            raise UsageError(
                f"stack {stack.name}: no model recipe {model.recipe!r}{nearest(model.recipe, known)}",
                "correct `model.recipe`",
            )
        if model.path or model.draft:
            raise UsageError(
                f"stack {stack.name}: a recipe makes all models, so no path can be given beside it",
                "remove `model.recipe`, or `model.path` and `model.draft`",
            )
    elif not model.path:
        raise UsageError(f"stack {stack.name}: no model is given", f"add `model: {example}`")
    for path in (path for path in (model.path, model.draft) if path):
        if missing(path):
            raise UsageError(f"stack {stack.name}: no model at {path}", "correct the path under `model:`")

"""Small models that the harness makes itself, kept by the content of their recipe."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from benchharness.errors import InfrastructureError
from benchharness.records import Command, Model, Stack
from benchharness.stack import environments
from benchharness.stack.engines.adapter import Engine
from benchharness.stack.logfile import log_tail
from benchharness.stack.processtree import ProcessTree

RECIPE_TIMEOUT_S = 900


def ensure(engine: Engine, stack: Stack, cache: Path, *, on_progress: Callable[[str], None]) -> Model:
    """The stack's model with real paths; a recipe is carried out once and its files are kept.

    Raises InfrastructureError if the recipe fails, UnbuildableError if its environment can't be built.
    """
    spec = engine.model_environment(stack)
    if stack.model.recipe is None or spec is None:
        return stack.model
    environment = environments.ensure(spec, cache, on_progress=on_progress)
    probe = engine.make_model(stack, environment, Path("MODEL"))
    script = next((Path(part) for part in probe.argv[1:] if part.endswith(".py")), None)
    content = json.dumps(
        [environment.key, asdict(stack.model), probe.argv[2:], script.read_text() if script else ""]
    )
    key = hashlib.sha256(content.encode()).hexdigest()[:16]
    folder = cache / "models" / f"{stack.model.recipe}-{key}"
    with _locked(folder):
        if not (folder / ".done").exists():
            on_progress(f"making the model {stack.model.recipe}")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            command = engine.make_model(stack, environment, folder)
            _carry_out(command, stack.model.recipe, folder.with_name(folder.name + ".log"))
            (folder / ".done").touch()
    return engine.made_model(stack, folder)


def _carry_out(command: Command, recipe: str, log_path: Path) -> None:
    """Run a recipe as a process tree of its own, which ends with the harness whatever ends that."""
    try:
        tree = ProcessTree(command, log_path)
    except OSError as error:
        raise InfrastructureError(f"the recipe {recipe} can't be carried out: {error.strerror}") from None
    try:
        tree.wait(RECIPE_TIMEOUT_S)
        in_time = not tree.alive
    finally:
        tree.stop(grace_s=1.0)
    if not in_time:
        raise InfrastructureError(f"the recipe {recipe} took longer than {RECIPE_TIMEOUT_S} s")
    if tree.exit_code != 0:
        last = next(iter(log_tail(log_path, 1)), "it printed nothing")
        raise InfrastructureError(f"the recipe {recipe} failed: {last}", f"its output is {log_path}")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder.with_name(folder.name + ".lock"), os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)

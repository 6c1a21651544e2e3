"""Wraps the engine's methods as soon as their module has been imported.

A finder in front of all others passes every name on, and looks after the modules of the hook table
only. A module keeps the loader that it would have without the probe.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from . import hooks

ENGINE = "sglang"
FOLDER = "BENCHHARNESS_PROBE_DIR"
DECLARED = "BENCHHARNESS_PROBE_ENV"
_GRAPH_ROLES = (hooks.REPLAY, hooks.DRAFT_REPLAY, hooks.EXTEND_REPLAY)


class Finder:
    """Lets the other finders find, and acts after a module of interest has been executed."""

    def __init__(self, way: str = "sitecustomize") -> None:
        self._recorder: Any = None
        self._way = way

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The other finders' spec with a loader that tells us, for the few modules of interest."""
        if name not in hooks.BY_MODULE and name != ENGINE:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self.executed)  # type: ignore[assignment]
                return spec
        return None

    def executed(self, module: ModuleType) -> None:
        """A module of interest is there now; whatever goes wrong, the import goes on."""
        try:
            if self._recorder is None:
                self._recorder = _start(self._way)
            rows = hooks.BY_MODULE.get(module.__name__)
            if rows:
                install_in(module, rows, self._recorder)
        except Exception as error:  # noqa: BLE001
            sys.stderr.write(f"benchharness probe: {module.__name__} is not timed: {error!r}\n")


class _Loader:
    """A module's own loader, and what to do afterwards."""

    def __init__(self, loader: Any, then: Any) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then(module)


def _start(way: str) -> Any:
    """The process's recorder; OSError where its file can't be made."""
    # Only a process that imports the engine pays for these.
    from .recorder import Recorder

    declared = tuple(filter(None, os.environ.get(DECLARED, "").split(",")))
    recorder = Recorder(os.environ[FOLDER], declared)
    recorder.journal.tell({"came_by": way})
    atexit.register(recorder.close)
    os.register_at_fork(after_in_child=recorder.forked)
    return recorder


def install_in(module: ModuleType, rows: Sequence[tuple[str, str, str]], recorder: Any) -> None:
    """Wrap what the module has of `rows` (class, method, role), and tell what was found and what not."""
    from .wrapping import wrap

    found: list[str] = []
    absent: list[str] = []
    for class_name, method_name, role in rows:
        name = f"{module.__name__}.{class_name}.{method_name}"
        cls = getattr(module, class_name, None)
        method: Any = getattr(cls, "__dict__", {}).get(method_name)
        if not _wrappable(method):
            absent.append(name)
            continue
        setattr(cls, method_name, wrap(method, role, recorder))
        found.append(name)
        if role in _GRAPH_ROLES:
            recorder.journal.graph_roles.add(role)
        if role in (hooks.CYCLE, hooks.TARGET):
            recorder.journal.has_cycles = True
    recorder.journal.found(found, absent)


def _wrappable(method: Any) -> bool:
    """A plain method that isn't wrapped yet."""
    if isinstance(method, (staticmethod, classmethod)) or not callable(method):
        return False
    return not getattr(method, "__benchharness__", False)


def install(way: str = "sitecustomize") -> None:
    """Wait for the engine's modules, and wrap in those that are there already.

    Called at the interpreter's start, or later as SGLang's plugin. A second call does nothing.

    Args:
        way: how the probe came in (see `benchharness_plugin.py`); told in the process's file.
    """
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    finder = Finder(way)
    sys.meta_path.insert(0, finder)
    for name in (ENGINE, *hooks.BY_MODULE):
        module = sys.modules.get(name)
        if module is not None:
            finder.executed(module)

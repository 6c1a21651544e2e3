"""Names of the kernel library that aren't written: importable, but they raise when called."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn


def placeholder(name: str) -> Callable[..., NoReturn]:
    """A function of that name that raises NotImplementedError; AttributeError for a dunder name."""
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_arguments: Any, **_named: Any) -> NoReturn:
        raise NotImplementedError(f"the CPU stand-in of sgl_kernel has no {name}")

    missing.__name__ = name
    return missing


class _Submodules(MetaPathFinder, Loader):
    """Makes `sgl_kernel.NAME` importable where there is no such file."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        # SGLang asks whether scalar_type can be imported, and has a way of its own if not.
        if package != "sgl_kernel" or not module or "." in module or module == "scalar_type":
            return None
        return importlib.util.spec_from_loader(name, self)

    def exec_module(self, module: ModuleType) -> None:
        module.__getattr__ = placeholder  # type: ignore[method-assign]
        module.__file__ = str(Path(__file__))


def install() -> None:
    """Make missing submodules importable from now on."""
    if not any(isinstance(finder, _Submodules) for finder in sys.meta_path):
        sys.meta_path.append(_Submodules())

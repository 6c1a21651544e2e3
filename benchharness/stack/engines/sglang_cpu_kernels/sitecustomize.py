# mypy: disable-error-code="import-not-found"
"""Prepares each process of SGLang for a CPU without its native kernels; runs at the interpreter's start.

This folder stands on PYTHONPATH, so Python takes this file for its site customisation. Two things are
changed, each only when the module in question is imported:

- torch: SGLang takes the CPU path that can speculate only where torch reports AMX tiles. The kernels beside
  this file are plain torch and need none, so torch is made to report them.
- torchvision: the index's wheel is built for CUDA, and its operators don't load beside a CPU torch. Those
  that its Python code refers to at import are declared here; SGLang never calls them for text models.

The site customisation that would have run without this file (the next on the path) is run as well.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_TORCHVISION_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


def report_amx_tiles(torch: ModuleType) -> None:
    """Make torch report AMX tiles, in the place where releases from 0.5.18 on ask."""
    torch.cpu._is_amx_tile_supported = lambda: True


def declare_torchvision_operators() -> None:
    """Declare the operators that torchvision registers fakes for, unless its own library has done so."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for schema in _TORCHVISION_OPERATORS:
        library.define(schema)
    torch._sglang_cpu_torchvision = library  # the declarations live as long as this object


class _After(Loader):
    """Loads a module as its own loader does, then calls `then` with it."""

    def __init__(self, loader: Loader, then: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then(module)


class _OnImport(MetaPathFinder):
    """Acts once when torch and once when torchvision is imported."""

    def __init__(self) -> None:
        self._waiting = {"torch", "torchvision"}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._waiting:
            return None
        self._waiting.remove(name)
        if name == "torchvision":
            declare_torchvision_operators()
            return None
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _After(spec.loader, report_amx_tiles)
        return spec


def run_next() -> None:
    """Run the next sitecustomize on the path, which this one has put into the shade."""
    here = Path(__file__).resolve().parent
    places = [Path(entry or ".").resolve() for entry in sys.path]
    later = sys.path[places.index(here) + 1 :] if here in places else []
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in later if Path(entry).resolve() != here])
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.meta_path.insert(0, _OnImport())
run_next()

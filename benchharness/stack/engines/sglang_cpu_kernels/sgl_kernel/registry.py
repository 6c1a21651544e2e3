# mypy: disable-error-code="import-not-found"
"""Puts the operators where SGLang looks for them: `torch.ops.sgl_kernel`.

They are plain functions and no torch operators, since one stand-in serves releases that pass different
arguments. `torch.compile` can't see through them, so SGLang must run with TORCH_COMPILE_DISABLE=1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from .missing import placeholder

Operators = Mapping[str, Callable[..., Any]]


class _Namespace:
    """`torch.ops.sgl_kernel` with the operators of the stand-in; other CPU operators raise when called.

    SGLang binds many operators by name when a module is imported, also ones that it never calls.
    """

    def __init__(self, native: Any, operators: Operators) -> None:
        self._native = native
        self.__dict__.update(operators)

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_cpu") or name == "flash_attn_varlen_func":
            return placeholder(name)
        return getattr(self._native, name)


def register(operators: Operators) -> None:
    """Make the operators reachable as `torch.ops.sgl_kernel.NAME`."""
    torch.ops.sgl_kernel = _Namespace(torch.ops.sgl_kernel, operators)

"""Which environment variables SGLang is known to change before its workers start, by release."""

from __future__ import annotations

from dataclasses import dataclass

from benchharness.stack.engines.sglang_environment import release_order


@dataclass(frozen=True)
class Override:
    """One change that SGLang makes.

    Attributes:
        variable: its name.
        first, last: releases that make it, both included; None has no end on that side.
        says: who changes it, and how.
    """

    variable: str
    first: str | None
    last: str | None
    says: str


OVERRIDES = (
    Override("NCCL_CUMEM_ENABLE", None, "0.4.10.post1", "SGLang forces it to 0"),
    Override(
        "NCCL_CUMEM_ENABLE", "0.4.10.post2", "0.5.4.post1", "SGLang sets it from its flag --enable-symm-mem"
    ),
    Override("NCCL_CUMEM_ENABLE", "0.5.4.post2", None, "SGLang sets it only where --enable-symm-mem asks"),
    Override("NCCL_NVLS_ENABLE", None, "0.5.4.post2", "SGLang sets it from its flag --enable-nccl-nvls"),
    Override("NCCL_NVLS_ENABLE", "0.5.4.post3", None, "SGLang sets it only where its flags ask"),
    Override("CUDA_DEVICE_MAX_CONNECTIONS", None, "0.5.4", "SGLang forces it to 4"),
    Override("CUDA_DEVICE_MAX_CONNECTIONS", "0.5.4.post1", None, "SGLang forces it to 8"),
    Override("NCCL_ALGO", "0.5.3", None, "SGLang sets it with --enable-deterministic-inference"),
)


def who_changes(release: str | None, variable: str) -> str:
    """Who is known to change that variable in that release; empty where nobody is."""
    order = release_order(release or "")
    for override in OVERRIDES:
        if override.variable == variable and order and _covers(override, order):
            return override.says
    return ""


def _covers(override: Override, order: tuple[int, ...]) -> bool:
    after_first = override.first is None or release_order(override.first) <= order
    return after_first and (override.last is None or order <= release_order(override.last))

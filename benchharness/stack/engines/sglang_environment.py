"""What SGLang's environment holds: on a CPU a frozen set, elsewhere what SGLang itself asks for.

SGLang's wheel asks for gigabytes that only serve CUDA. On a CPU it is therefore installed without what it
asks for, beside a frozen set of what it really imports. Its pin of torch is kept unless
`packages` says otherwise; the differences are named in `overridden_pins`, which goes into the record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from benchharness.records import EnvironmentSpec, Stack
from benchharness.stack import packages
from benchharness.stack.engines import engine_packages, sglang_source

CPU_REQUIREMENTS = Path(__file__).with_name("sglang_cpu_requirements.txt")
CPU_KERNELS = Path(__file__).with_name("sglang_cpu_kernels")
"""Folder for PYTHONPATH: a stand-in for the kernel library, in plain torch."""

KERNEL_LIBRARIES = ("sgl-kernel", "sglang-kernel", "sgl-kernel-cpu", "sglang-kernel-cpu")

PINS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("0.5.22", {"torch": "2.14.1", "transformers": "5.19.0", "tokenizers": "0.23.2"}),
    ("0.5.18", {"torch": "2.13.0", "transformers": "5.12.1"}),
    ("0.5.15", {"torch": "2.11.0", "transformers": "5.12.1"}),
    ("0.5.13", {"torch": "2.11.0", "transformers": "5.8.1"}),
    ("0.5.11", {"torch": "2.11.0", "transformers": "5.6.0"}),
    ("0.5.10", {"torch": "2.9.1", "transformers": "5.3.0"}),
    ("0.5.6", {"torch": "2.9.1", "transformers": "4.57.1", "huggingface-hub": "0.36.0"}),
    ("0.5.3.post2", {"torch": "2.8.0", "transformers": "4.57.1", "huggingface-hub": "0.36.0"}),
)
"""First release -> its own pins, as far as the frozen set doesn't serve it. Newest first."""

FIRST_WITHOUT_EXTRAS = "0.5.3rc0"
"""From here on the distribution by itself asks for what a server needs; before, its extra `all` does."""

COMMON_PINS = {"tokenizers": "0.22.2", "huggingface-hub": "1.33.0"}


def release_order(release: str) -> tuple[int, ...]:
    """A key that sorts releases as SGLang numbers them: 0.5.9 < 0.5.10 < 0.5.10.post1 < 0.5.11.

    A release candidate sorts before its release.
    """
    found = re.match(r"(\d+(?:\.\d+)*)(?:(rc)(\d+))?(?:\.post(\d+))?", release)
    if found is None:
        return ()
    numbers = [int(part) for part in found[1].split(".")]
    numbers += [0] * (4 - len(numbers))
    return (*numbers, -1 if found[2] else int(found[4] or 0), int(found[3] or 0))


def on_cpu(stack: Stack) -> bool:
    """The stack asks for the CPU by SGLang's own argument."""
    return stack.args.get("device") == "cpu"


def has_cpu_kernels(stack: Stack) -> bool:
    """The stand-in for the kernel library is used: on a CPU, unless the stack names a real one."""
    named = packages.declared(stack.packages)
    return on_cpu(stack) and not (set(named.pinned) | set(named.host)) & set(KERNEL_LIBRARIES)


def own_pins(stack: Stack) -> dict[str, str]:
    """SGLang's pins that matter on a CPU: of its commit, or of its release.

    Releases older than the oldest known have the pins of that one.
    """
    order = release_order(sglang_source.release(stack))
    known = next((pins for first, pins in PINS if release_order(first) <= order), PINS[-1][1])
    names = {name for _, pins in PINS for name in pins} | set(COMMON_PINS)
    of_commit = {name: version for name, version in commit_pins(stack).items() if name in names}
    return {**COMMON_PINS, **known, **of_commit}


def commit_pins(stack: Stack) -> dict[str, str]:
    """What the stack's own checkout pins; nothing for a release, whose wheel says it itself."""
    return sglang_source.pins(Path(stack.source.folder)) if stack.source.folder else {}


def environment(stack: Stack) -> EnvironmentSpec:
    """The specification of the stack's environment."""
    sglang_source.refuse_other_code(stack)
    release = sglang_source.release(stack)
    if on_cpu(stack):
        return engine_packages.specification(
            stack, frozen() | own_pins(stack) | {"sglang": release}, whole=True
        )
    extras = release_order(release) < release_order(FIRST_WITHOUT_EXTRAS)
    name = "sglang[all]" if extras else "sglang"
    return engine_packages.specification(stack, {name: release}, whole=False, pins=commit_pins(stack))


def frozen() -> dict[str, str]:
    """The frozen set: normalised name -> version."""
    return engine_packages.frozen(CPU_REQUIREMENTS)


def overridden_pins(stack: Stack) -> dict[str, str]:
    """What the stack declares against the pins of SGLang and of the frozen set: name -> "pin -> declared"."""
    return engine_packages.overridden(frozen() | own_pins(stack), stack) if on_cpu(stack) else {}

"""The stand-in for the kernel library against slow references; see kernel_reference.py for the cases."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchharness.records import Environment, Stack
from benchharness.stack.engines.sglang_environment import CPU_KERNELS

REFERENCE = Path(__file__).with_name("kernel_reference.py")


def python(environment: Environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"PYTHONPATH": str(CPU_KERNELS), "OMP_NUM_THREADS": "1"}
    argv = (environment.python_path, *arguments)
    return subprocess.run(argv, env=variables, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("check", "cases"),
    [
        ("decode", 60),
        ("extend", 60),
        ("build", 240),
        ("reconstruct", 240),
        ("verify", 240),
        ("slots", 60),
        ("layers", 60),
    ],
)
def test_kernels_do_what_a_slow_reference_does(
    environment: Callable[[Stack], Environment], stack: Callable[..., Stack], check: str, cases: int
) -> None:
    done = python(environment(stack()), str(REFERENCE), check)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == cases


def test_what_is_not_written_imports_and_says_so_when_called(
    environment: Callable[[Stack], Environment], stack: Callable[..., Stack]
) -> None:
    code = """
import sgl_kernel, torch
from sgl_kernel.flash_attn import flash_attn_with_kvcache
for call in (sgl_kernel.fused_thing, flash_attn_with_kvcache, torch.ops.sgl_kernel.fused_experts_cpu):
    try:
        call(1, x=2)
    except NotImplementedError as error:
        print(error)
try:
    import sgl_kernel.scalar_type
except ImportError:
    print("no scalar_type")
"""
    done = python(environment(stack()), "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "the CPU stand-in of sgl_kernel has no fused_thing",
        "the CPU stand-in of sgl_kernel has no flash_attn_with_kvcache",
        "the CPU stand-in of sgl_kernel has no fused_experts_cpu",
        "no scalar_type",
    ]

"""What the machine is, and what its GPUs do while something is measured."""

from benchharness.machine.description import describe
from benchharness.machine.gpus import GpuWatch

__all__ = ["GpuWatch", "describe"]

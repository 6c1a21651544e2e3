"""What the machine is, and what its GPUs do while something is measured."""

from benchharness.machine.description import describe
from benchharness.machine.gpus import GpuWatch
from benchharness.machine.launch_conditions import conditions

__all__ = ["GpuWatch", "conditions", "describe"]

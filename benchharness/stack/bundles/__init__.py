"""Environments as a bundle of files, for a host without a network."""

from benchharness.stack.bundles.packing import Options, Packed, Wanted, pack
from benchharness.stack.bundles.target import Target, target
from benchharness.stack.bundles.unpacking import Unpacked, unpack

__all__ = ["Options", "Packed", "Target", "Unpacked", "Wanted", "pack", "target", "unpack"]

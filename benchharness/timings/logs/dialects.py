"""The dialects by name, and which lines are worth a closer look."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from benchharness.records.logline import Value
from benchharness.timings.logs import bench_tables, llamacpp, nccl, profile, sglang, trtllm, vllm
from benchharness.timings.logs.reading import Block

if TYPE_CHECKING:
    import pyarrow as pa

Parse = Callable[[str], tuple[str, dict[str, Value]] | None]

AUTO = "auto"
PARSERS: Mapping[str, Parse] = MappingProxyType(
    {module.ENGINE: module.parse for module in (vllm, sglang, llamacpp, trtllm, nccl, profile)}
)
"""Readers of single lines. The order matters with `auto`: the first that knows a line has it."""
MARKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {module.ENGINE: module.MARKS for module in (vllm, sglang, llamacpp, trtllm, nccl, profile, bench_tables)}
)
ENGINES = tuple(MARKS)


def chosen(engine: str) -> tuple[str, ...]:
    """The dialects that are read for an `--engine`: NCCL's lines stand in any engine's log."""
    if engine == AUTO:
        return ENGINES
    return (engine, nccl.ENGINE) if engine in (sglang.ENGINE, vllm.ENGINE, trtllm.ENGINE) else (engine,)


def pattern(engines: Iterable[str]) -> str:
    """An expression that finds a mark of any of the dialects."""
    marks = dict.fromkeys(mark for engine in engines for mark in MARKS[engine])
    return "|".join(re.escape(mark).replace("\\ ", " ") for mark in marks)


def candidates(block: Block, marks: str) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """(indices of lines within the block, those lines with their ends) of lines that hold a mark.

    The marks are looked for by Arrow's RE2, all in one pass over the bytes.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    data = block.data if block.data.endswith(b"\n") else block.data + b"\n"
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    offsets = np.empty(len(ends) + 1, np.int32)
    offsets[0] = 0
    offsets[1:] = ends + 1
    lines = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    found = pc.match_substring_regex(lines, marks)
    # Not by to_numpy, which would import pandas.
    bits = np.unpackbits(np.frombuffer(found.buffers()[1], np.uint8), count=len(found), bitorder="little")
    indices = np.flatnonzero(bits)
    return indices, lines if len(indices) == len(lines) else lines.filter(found)

"""What an engine's start-up lines say, and what follows from them before anything was measured."""

from __future__ import annotations

import json
from collections import defaultdict

from benchharness.records.logline import LogLine

_FACTS = (
    *("version", "speculative_algorithm", "speculative_num_steps", "speculative_num_draft_tokens"),
    *("speculative_attention_mode", "attention_backend", "disable_cuda_graph", "decode_log_interval"),
    *("max_running_requests", "max_total_num_tokens", "context_len", "tp_size", "dp_size", "method"),
    *("num_spec_tokens", "enforce_eager", "tensor_parallel_size"),
)
_KINDS = frozenset(
    {"server_args", "limits", "graph_capture", "nccl", "nccl_env", "config", "offload", "no_gpu", "kv_buffer"}
)


class Startup:
    """Collects what start-up lines say.

    Attributes:
        facts: value by name, the last one that was said.
        graph_sizes: batch sizes that CUDA graphs were captured for, of the target's decode; None where no
            line tells.
        nccl: rank to version that was loaded.
        variables: (variable, value) that NCCL or the engine says was set, by rank.
    """

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}
        self.graph_sizes: list[int] | None = None
        self.nccl: dict[str, str] = {}
        self.variables: dict[str, dict[str, str]] = defaultdict(dict)
        self._devices: set[str] = set()
        self._offloaded: tuple[int, int] | None = None
        self._no_gpu = False

    def add(self, row: LogLine) -> None:
        """Take in a row; rows of other kinds are passed over."""
        if row.kind not in _KINDS:
            return
        for name in _FACTS:
            value = row.fields.get(name)
            if isinstance(value, str):
                self.facts[name] = value
        if row.kind == "graph_capture":
            self._graphs(row)
        rank = str(row.fields.get("rank") or row.fields.get("tp") or row.fields.get("dp") or "-")
        version = row.fields.get("nccl")
        if isinstance(version, str):
            self.nccl[rank] = version
        if row.kind == "nccl_env":
            self.variables[str(row.fields["var"])][rank] = str(row.fields["value"])
        self._device(row)

    def _graphs(self, row: LogLine) -> None:
        sizes, of = row.fields.get("graph_bs"), str(row.fields.get("graph_of") or "")
        if isinstance(sizes, str) and ("draft" not in of) and "prefill" not in of and "piecewise" not in of:
            self.graph_sizes = [int(size) for size in json.loads(sizes)]

    def _device(self, row: LogLine) -> None:
        if row.kind == "offload":
            self._offloaded = int(str(row.fields["offloaded_layers"])), int(str(row.fields["layers"]))
        if row.kind == "kv_buffer":
            self._devices.add(str(row.fields["device"]))
        self._no_gpu |= row.kind == "no_gpu"

    @property
    def draft_tokens(self) -> int | None:
        """num_draft_tokens, where the start-up lines tell it."""
        told = self.facts.get("speculative_num_draft_tokens", "")
        return int(told) if told.isdigit() else None

    def hazards(self) -> list[str]:
        """What can go wrong by these lines alone, as sentences."""
        said = []
        running = self.facts.get("max_running_requests", "")
        if self.graph_sizes and running.isdigit() and max(self.graph_sizes) < int(running):
            said.append(
                f"CUDA graphs are captured up to batch {max(self.graph_sizes)}, but {running} requests may "
                "run: above that decoding silently goes eager"
            )
        if len(set(self.nccl.values())) > 1:
            told = ", ".join(f"{version} on rank {rank}" for rank, version in sorted(self.nccl.items()))
            said.append(f"NCCL differs between ranks: {told}")
        for variable, values in self.variables.items():
            if len(set(values.values())) > 1:
                told = ", ".join(f"{value} on rank {rank}" for rank, value in sorted(values.items()))
                said.append(f"{variable} differs between ranks: {told}")
        if self.device_hazard:
            said.append(self.device_hazard)
        return said

    @property
    def device_hazard(self) -> str:
        """Why no GPU, or not all of it, is used; empty where the lines don't say so."""
        if self._offloaded is not None and self._offloaded[0] < self._offloaded[1]:
            there, layers = self._offloaded
            return f"only {there} of {layers} layers are on the GPU"
        if self._no_gpu:
            return "no usable GPU was found: the model runs on the CPU"
        if self._devices == {"CPU"}:
            return "every KV buffer is in the CPU's memory: no GPU is used"
        return ""

"""The least time of a decode step: bytes that must be read, over the bandwidth that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


@dataclass(frozen=True)
class Shape:
    """What a dense decoder reads in one step.

    Attributes:
        weights: parameters that a step reads: all layers and the output matrix, not the embedding.
        kv_values_per_token: keys and values of one token in all layers.
        weight_bytes, kv_bytes: bytes of one value.
    """

    weights: int
    kv_values_per_token: int
    weight_bytes: int
    kv_bytes: int

    @property
    def step_weight_bytes(self) -> int:
        """Bytes of weights that a step reads, whatever the context."""
        return self.weights * self.weight_bytes

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes that a step reads for each token of context of each request."""
        return self.kv_values_per_token * self.kv_bytes


def floor_ms(
    step_weight_bytes: float, kv_bytes_per_token: float, tokens: float, bytes_per_s: float, ranks: int = 1
) -> float:
    """Milliseconds to read what one step must read.

    Args:
        step_weight_bytes, kv_bytes_per_token: of the model (see `Shape`).
        tokens: context of all requests of the batch together.
        bytes_per_s: of one device.
        ranks: devices that the bytes are spread over.
    """
    return 1000 * (step_weight_bytes + tokens * kv_bytes_per_token) / ranks / bytes_per_s


def shape_of(config: Mapping[str, Any], kv_dtype: str | None = None) -> Shape | None:
    """The shape by a model's config.json; None where it is no plain dense decoder.

    Args:
        config: as Hugging Face writes it.
        kv_dtype: of the cache, as `bfloat16`; the model's own by default.
    """
    config = config.get("text_config") or config
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    if any(not isinstance(config.get(name), int) for name in names) or _is_other(config):
        return None
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    head = config.get("head_dim") or hidden // heads
    kv_heads = config.get("num_key_value_heads") or heads
    dtype = str(config.get("torch_dtype") or config.get("dtype") or "bfloat16").removeprefix("torch.")
    kv = (kv_dtype or dtype).removeprefix("torch.")
    if dtype not in BYTES or kv not in BYTES:
        return None
    attention = 2 * hidden * heads * head + 2 * hidden * kv_heads * head
    layer = attention + 3 * hidden * config["intermediate_size"]
    layers = config["num_hidden_layers"]
    return Shape(
        weights=layers * layer + hidden * config["vocab_size"],
        kv_values_per_token=2 * layers * kv_heads * head,
        weight_bytes=BYTES[dtype],
        kv_bytes=BYTES[kv],
    )


def _is_other(config: Mapping[str, Any]) -> bool:
    """Experts, compressed or linear attention, quantised weights: other bytes than a dense decoder's."""
    words = ("expert", "kv_lora_rank", "linear_attn", "mamba", "ssm", "sliding_window_pattern")
    named = any(word in name and config[name] for name in config for word in words)
    return named or bool(config.get("quantization_config"))

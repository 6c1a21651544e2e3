"""The least time of a decode step, against bytes that were counted by hand."""

from __future__ import annotations

import pytest

from benchharness.step_floor import floor_ms, shape_of

LLAMA_8B = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
}


def test_the_bytes_of_an_8b_llama() -> None:
    shape = shape_of(LLAMA_8B)
    assert shape is not None
    layer = 4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 14336
    assert shape.weights == 32 * layer + 4096 * 32000
    assert shape.kv_values_per_token == 2 * 32 * 8 * 128
    assert shape.step_weight_bytes == 2 * shape.weights
    assert shape.kv_bytes_per_token == 2 * 65536


def test_milliseconds_at_a_measured_bandwidth() -> None:
    shape = shape_of(LLAMA_8B)
    assert shape is not None
    read = (shape.step_weight_bytes, shape.kv_bytes_per_token)
    assert floor_ms(*read, 128, 4.3e12) == pytest.approx(3.31, abs=0.01)
    assert floor_ms(*read, 128, 4.3e12, ranks=2) == pytest.approx(1.655, abs=0.01)
    assert floor_ms(*read, 8192, 4.3e12) == pytest.approx(3.31 + 0.246, abs=0.01)
    half = shape_of(LLAMA_8B, kv_dtype="torch.float8_e4m3fn")
    assert half is not None and half.kv_bytes == 1


@pytest.mark.parametrize(
    "more",
    [
        {"num_local_experts": 8},
        {"kv_lora_rank": 512},
        {"quantization_config": {"bits": 4}},
        {"torch_dtype": "int3"},
        {"hidden_size": None},
    ],
)
def test_nothing_is_said_of_models_that_read_otherwise(more: dict[str, object]) -> None:
    assert shape_of(LLAMA_8B | more) is None

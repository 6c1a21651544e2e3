"""Declared arguments against what the server says that it runs with."""

from __future__ import annotations

from typing import Any

import pytest

from benchharness.records import EngineFacts, Source, Stack
from benchharness.stack import attestation
from benchharness.stack.engines import sglang_arguments


def mismatches(args: dict[str, Any], server_args: dict[str, Any]) -> list[str]:
    stack = Stack("s", "sglang", Source(release="0.5.23"), args=args)
    facts = EngineFacts(arguments=sglang_arguments.effective(args, server_args))
    taken = attestation.take(stack, {}, facts, None, (), lambda _: "")
    return [mismatch.sentence for mismatch in taken.mismatches]


@pytest.mark.parametrize(
    ("args", "server_args"),
    [
        ({"speculative-num-steps": 2}, {"speculative_num_steps": 2}),
        ({"speculative_num_steps": "2"}, {"speculative_num_steps": 2}),
        ({"mem-fraction-static": 0.6}, {"mem_fraction_static": 0.6}),
        ({"disable-radix-cache": True}, {"disable_radix_cache": True}),
        ({"cuda-graph-bs": [1, 2]}, {"cuda_graph_bs": [1, 2]}),
        ({"cuda-graph-bs": [1, 2]}, {"cuda_graph_bs": None, "cuda_graph_config": {"decode": {}}}),
        ({"cuda-graph-bs": [1, 2]}, {"cuda_graph_bs": None, "cuda_graph_bs_decode": [1, 2]}),
        ({"attention-backend": "TRITON"}, {"attention_backend": "triton"}),
        ({"kv-cache-dtype": "auto"}, {"kv_cache_dtype": "bfloat16"}),
        ({"speculative-algorithm": "NEXTN"}, {"speculative_algorithm": "EAGLE"}),
        ({"unknown-to-the-server": 3}, {}),
    ],
)
def test_equal_values_and_what_is_not_told_pass(args: dict[str, Any], server_args: dict[str, Any]) -> None:
    assert mismatches(args, server_args) == []


@pytest.mark.parametrize(
    ("args", "server_args", "said"),
    [
        (
            {"speculative-num-draft-tokens": 8},
            {"speculative_num_draft_tokens": 4},
            "engine: args.speculative-num-draft-tokens is '4', declared '8' (the engine changed it)",
        ),
        (
            {"speculative-attention-mode": "decode"},
            {"speculative_attention_mode": "prefill"},
            "engine: args.speculative-attention-mode is 'prefill', declared 'decode' (the engine changed it)",
        ),
        (
            {"disable-cuda-graph": False},
            {"disable_cuda_graph": True},
            "engine: args.disable-cuda-graph is 'True', declared 'False' (the engine changed it)",
        ),
        (
            {"cuda-graph-bs": [1, 2]},
            {"cuda_graph_bs": [1, 2, 4]},
            "engine: args.cuda-graph-bs is '[1, 2, 4]'",
        ),
        ({"speculative-algorithm": "EAGLE3"}, {"speculative_algorithm": "EAGLE"}, "is 'EAGLE or NEXTN'"),
    ],
)
def test_a_changed_argument_stops_the_launch(
    args: dict[str, Any], server_args: dict[str, Any], said: str
) -> None:
    (sentence,) = mismatches(args, server_args)
    assert said in sentence

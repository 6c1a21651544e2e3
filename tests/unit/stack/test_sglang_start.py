"""What start-up logs of real SGLang servers tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchharness.stack.engines import sglang_start

OLD = """\
[2026-11-29 12:28:04] server_args=ServerArgs(disable_custom_all_reduce=False, cuda_graph_bs=None)
[2026-11-29 12:28:27 TP0] sglang is using nccl==2.27.5
[2026-11-29 12:28:27 TP0] Custom allreduce is disabled because this process group spans across nodes.
[2026-11-29 12:28:27 TP1] Custom allreduce is disabled because this process group spans across nodes.
[2026-11-29 12:28:27 TP0] Using KV cache dtype: torch.bfloat16
[2026-11-29 12:28:28 TP0] KV Cache is allocated. #tokens: 572596, K size: 34.95 GB, V size: 34.95 GB
[2026-11-29 12:28:28 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=55.46 GB
[2026-11-29 12:28:28 TP0] Capture cuda graph bs [1, 2, 3, 4]
[2026-11-29 12:28:31 TP0] Capture cuda graph end. Time elapsed: 3.08 s. mem usage=0.04 GB. avail mem=55.42 GB.
[2026-11-29 12:28:47 TP0] Capture piecewise CUDA graph end. Time elapsed: 16.45 s. mem usage=1.38 GB.
[2026-11-29 12:28:48 TP0] KV Cache is allocated. #tokens: 99, K size: 1.09 GB, V size: 1.09 GB
[2026-11-29 12:28:54 TP0] Capture draft cuda graph end. Time elapsed: 5.77 s. mem usage=-0.34 GB.
[2026-11-29 12:28:55 TP0] Capture draft extend cuda graph end. Time elapsed: 1.25 s. mem usage=0.05 GB.
[2026-11-29 TP0] max_total_num_tokens=572596, chunked_prefill_size=8192, max_running_requests=4, context_len=9
[2026-11-29 12:28:55] The server is fired up and ready to roll!
[2026-11-29 12:28:55 TP0] Capture cuda graph bs [8]
[2026-11-29 12:28:56 TP0] Capture late cuda graph end. Time elapsed: 1.25 s.
"""
NEW = """\
[2026-11-29 12:32:21] flashinfer.comm allreduce_fusion API is not available (x), falling back
[2026-11-29 12:33:10] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 544043, K size: 1 GB
[2026-11-29 12:33:20] Capture target verify CUDA graph begin. backend=full, num_tokens_per_bs=3, bs=[1, 2, 3]
[2026-11-29 12:33:22] Capture target verify CUDA graph end. elapsed=2 s
[2026-11-29 12:33:24] Capture draft decode CUDA graph begin. backend=full, num_tokens_per_bs=1, bs=[1, 2]
"""


def facts(tmp_path: Path, text: str) -> dict[str, object]:
    log = tmp_path / "server.log"
    log.write_text(text)
    return dict(sglang_start.facts(log))


def test_the_lines_of_0_5_12_with_two_ranks(tmp_path: Path) -> None:
    assert facts(tmp_path, OLD) == {
        "kv_cache_tokens": 572596,
        "kv_cache_dtype": "torch.bfloat16",
        "max_running_requests": 4,
        "context_limit_tokens": 9,
        "chunked_prefill_tokens": 8192,
        "graph_batch_sizes": (1, 2, 3, 4),
        "graphs_captured": ("target", "piecewise", "draft", "draft extend"),
        "nccl": "2.27.5",
        "all_reduce_notes": ("Custom allreduce is disabled because this process group spans across nodes.",),
    }


def test_the_lines_of_0_5_15(tmp_path: Path) -> None:
    found = facts(tmp_path, NEW)
    assert found["graph_batch_sizes"] == (1, 2, 3)
    assert found["draft_graph_batch_sizes"] == (1, 2)
    assert found["graphs_captured"] == ("target verify",)
    assert found["kv_cache_dtype"] == "torch.bfloat16"
    assert "flashinfer.comm allreduce_fusion" in str(found["all_reduce_notes"])


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (
            "[x] Attention backend not explicitly specified. Use fa3 backend by default.",
            "attention_backend",
            "fa3",
        ),
        (
            "Attention backend not specified. Use flashinfer backend by default.",
            "attention_backend",
            "flashinfer",
        ),
        (
            "[x] Cuda graph is disabled because of using torch native attention backend",
            "graphs_off_because",
            "Cuda graph is disabled because of using torch native attention backend",
        ),
    ],
)
def test_single_facts(tmp_path: Path, line: str, name: str, value: str) -> None:
    assert facts(tmp_path, f"{line}\n") == {name: value}


def test_no_log_and_no_facts(tmp_path: Path) -> None:
    assert sglang_start.facts(tmp_path / "none") == {}
    assert facts(tmp_path, "\0\xff garbage\n" * 50) == {}

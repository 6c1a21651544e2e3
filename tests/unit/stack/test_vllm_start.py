"""What vLLM's start-up log tells: lines of 0.32.0 on a CPU, and one of its CUDA platform's messages."""

from __future__ import annotations

from pathlib import Path

from benchharness.stack.engines.vllm import ENGINE

LOG = """\
(APIServer pid=8407) WARNING 11-29 12:29:57 [vllm.py:2276] max_num_scheduled_tokens is set to 2048 based on \
the speculative decoding settings. This may lead to suboptimal performance.
(APIServer pid=8407) WARNING 11-29 12:29:57 [vllm.py:725] Model Runner V2 requires Triton; using the V1 \
model runner instead.
(EngineCore pid=9937) INFO 11-29 12:30:13 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: \
model='hf', speculative_config=SpeculativeConfig(method='draft_model', model='hf-draft', num_spec_tokens=3), \
dtype=torch.bfloat16, max_seq_len=512, disable_custom_all_reduce=True, enforce_eager=True, \
kv_cache_dtype=auto, device_config=cpu, seed=0, enable_prefix_caching=True, enable_chunked_prefill=True, \
compilation_config={'mode': <CompilationMode.NONE: 0>, 'cudagraph_mode': <CUDAGraphMode.NONE: 0>, \
'cudagraph_capture_sizes': [], 'max_cudagraph_capture_size': None}
(EngineCore pid=9937) INFO 11-29 12:31:14 [utils.py:347] Using LBHNC KV cache layout.
(EngineCore pid=9937) INFO 11-29 12:31:14 [kv_cache_utils.py:2327] CPU KV cache size: 1,048,576 tokens, \
Maximum concurrency for 512 tokens per request: 2048.00x
INFO:     Application startup complete.
(Worker) Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN']
"""
ON_CUDA = """\
(EngineCore) INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='m', seed=1, \
compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, 'cudagraph_mode': <CUDAGraphMode.FULL: 2>, \
'cudagraph_capture_sizes': [1, 2, 4, 8]}
(Worker) INFO [cuda.py:507] Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'X'].
(EngineCore) INFO [kv_cache_utils.py:2327] GPU KV cache size: 90,112 tokens, Maximum concurrency for 4,096 \
tokens per request: 22.00x
(Worker) INFO [gpu_model_runner.py:6582] Graph capturing finished in 3 secs, took 0.21 GiB
INFO:     Application startup complete.
"""


def test_what_the_start_resolved_is_read_from_its_lines(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(LOG)
    assert ENGINE.start_facts(log) == {
        "batched_tokens_limit": 2048,
        "runner": "V1",
        "dtype": "torch.bfloat16",
        "context_limit_tokens": 512,
        "custom_all_reduce_off": True,
        "enforce_eager": True,
        "kv_cache_dtype": "auto",
        "device": "cpu",
        "seed": 0,
        "chunked_prefill": True,
        "compilation_mode": "NONE",
        "graph_mode": "NONE",
        "graph_batch_sizes": (),
        "kv_cache_layout": "LBHNC",
        "kv_cache_tokens": 1_048_576,
        "max_concurrency": 2048.0,
    }


def test_graphs_and_backend_of_a_gpu_are_told(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(ON_CUDA)
    found = ENGINE.start_facts(log)
    assert found["attention_backend"] == "FLASH_ATTN"
    assert (found["graph_mode"], found["graph_batch_sizes"]) == ("FULL", (1, 2, 4, 8))
    assert (found["graph_memory_gib"], found["kv_cache_tokens"]) == (0.21, 90_112)
    assert (found["compilation_mode"], found["max_concurrency"]) == ("VLLM_COMPILE", 22.0)


def test_a_log_that_is_not_there_tells_nothing(tmp_path: Path) -> None:
    assert ENGINE.start_facts(tmp_path / "none.log") == {}

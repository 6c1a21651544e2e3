"""What a running vLLM is asked, over HTTP from a small server that answers as 0.32.0 does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import EngineError
from benchharness.records import EngineCounters, Model, Source, Stack
from benchharness.stack.engines.vllm import ENGINE

METRICS = """
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="tiny {x} 1"} 62.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="tiny {x} 1"} 1.7959743712594452e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="tiny {x} 1"} 186.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="tiny {x} 1"} 127.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny {x} 1",position="0"} 51.0
vllm:num_requests_running{engine="0",model_name="tiny {x} 1"} 0.0
vllm:generation_tokens_total{engine="0",model_name="tiny {x} 1"} 192.0
vllm:generation_tokens_total{engine="1",model_name="tiny {x} 1"} 1.2e+06
vllm:cache_config_info{_block_size_resolved="True",block_size="128",cache_dtype="auto",enable_prefix_caching="True",\
gpu_memory_utilization="0.92",kv_cache_max_concurrency="102.375",kv_cache_size_tokens="419328",num_gpu_blocks="3276",\
sliding_window="None"} 1.0
"""
DRAFT = {"method": "draft_model", "num_speculative_tokens": 3}


def stack(**args: Any) -> Stack:
    named = {name.replace("_", "-"): value for name, value in args.items()}
    return Stack(
        "s",
        "vllm",
        Source(release="0.32.0"),
        model=Model(recipe="tiny-sglang"),
        args={"device": "cpu", **named},
    )


@contextmanager
def serving(answers: dict[str, str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers.get(f"{self.command} {self.path}")
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write((body or "").encode())

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answers(model: Path, **changed: str) -> dict[str, str]:
    models = {"data": [{"id": "tiny", "root": str(model), "max_model_len": 4096}]}
    return {
        "GET /v1/models": json.dumps(models),
        "GET /version": json.dumps({"version": "0.32.0"}),
        "GET /metrics": METRICS,
    } | changed


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 40}))
    return tmp_path


def test_a_server_tells_what_it_is(model: Path) -> None:
    with serving(answers(model)) as base_url:
        endpoint, facts = ENGINE.connect(stack(max_num_seqs=8), base_url)
    assert endpoint.dialect == "vllm"
    assert endpoint.extra_body == {"model": "tiny"}
    assert (endpoint.context_limit, endpoint.slots) == (4096, 8)
    assert endpoint.token_pool == tuple(range(40))
    assert facts.version == "0.32.0"
    assert facts.settings == {
        "block_size": 128,
        "cache_dtype": "auto",
        "enable_prefix_caching": True,
        "gpu_memory_utilization": 0.92,
        "kv_cache_max_concurrency": 102.375,
        "kv_cache_size_tokens": 419328,
        "num_gpu_blocks": 3276,
    }


def test_slots_that_nobody_declared_are_not_known(model: Path) -> None:
    with serving(answers(model)) as base_url:
        assert ENGINE.connect(stack(), base_url)[0].slots is None


@pytest.mark.parametrize("body", ["{}", '{"data": []}', '{"data": [{"id": 1}]}', '{"data": ["x"]}'])
def test_a_server_that_names_no_model_is_refused(model: Path, body: str) -> None:
    with (
        serving(answers(model, **{"GET /v1/models": body})) as base_url,
        pytest.raises(EngineError, match="in a way not known here"),
    ):
        ENGINE.connect(stack(), base_url)


def test_counters_are_summed_over_engines(model: Path) -> None:
    with serving(answers(model)) as base_url:
        counted = ENGINE.counters(stack(speculative_config=DRAFT), base_url)
    assert counted == EngineCounters(
        output_tokens=1_200_192, drafted_tokens=186, accepted_tokens=127, cycles=62
    )


def test_steps_that_had_drafts_are_cycles_only_with_a_draft_model(model: Path) -> None:
    with serving(answers(model)) as base_url:
        ngram = ENGINE.counters(stack(speculative_config={"method": "ngram"}), base_url)
        plain = ENGINE.counters(stack(), base_url)
    assert (ngram.cycles, ngram.accepted_tokens) == (None, 127)
    assert plain.cycles is None


def test_without_metrics_nothing_is_counted(model: Path) -> None:
    answered = answers(model)
    del answered["GET /metrics"]
    with serving(answered) as base_url:
        assert ENGINE.counters(stack(), base_url) == EngineCounters()
        assert ENGINE.connect(stack(), base_url)[1].settings == {}


@pytest.mark.parametrize("body", ["", '{"success":true}'])
def test_the_prefix_cache_is_emptied(body: str) -> None:
    with serving({"POST /reset_prefix_cache": body}) as base_url:
        assert ENGINE.flush_cache(stack(), base_url) is True


def test_a_server_without_that_call_is_no_error_but_a_refusal_is() -> None:
    with serving({}) as base_url:
        assert ENGINE.flush_cache(stack(), base_url) is False
    with (
        serving({"POST /reset_prefix_cache": '{"success":false}'}) as base_url,
        pytest.raises(EngineError, match="did not empty its prefix cache"),
    ):
        ENGINE.flush_cache(stack(), base_url)

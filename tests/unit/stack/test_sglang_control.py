"""What a running SGLang is asked, over HTTP from a small server that answers as releases do."""

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
from benchharness.stack.engines import sglang_control
from benchharness.stack.engines.sglang import ENGINE

INFO: dict[str, Any] = {
    "model_path": "MODEL",
    "version": "0.5.23",
    "max_req_input_len": 4090,
    "max_total_num_tokens": 20000,
    "attention_backend": None,
    "speculative_algorithm": "EAGLE3",
}
STATE = {
    "attention_backend": "intel_amx",
    "decode_cuda_graph_bs": [1, 2],
    "effective_max_running_requests_per_dp": 48,
    "memory_usage": {"kvcache": 0.04},
}
METRICS = """
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{is_streaming="false",model_name="m"} 360.0
sglang:generation_tokens_total{is_streaming="true",model_name="m"} 1.2e+06
sglang:spec_verify_calls_total{model_name="m"} 91.0
sglang:gen_throughput{model_name="m"} 5.0
"""
CPU = Stack(
    "s",
    "sglang",
    Source(release="0.5.23"),
    packages={"torch": "2.13.0"},
    model=Model(recipe="tiny-sglang"),
    args={"device": "cpu"},
)


@contextmanager
def serving(answers: dict[str, str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write((body or "").encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 64}))
    vocabulary = {
        "added_tokens": [{"id": 0}, {"id": 2}],
        "model": {"vocab": [[str(token), 0] for token in range(40)]},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(vocabulary))
    return tmp_path


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info"])
@pytest.mark.parametrize("states", [[STATE], STATE])
def test_endpoint_and_facts_in_the_shapes_of_all_releases(path: str, states: Any, model: Path) -> None:
    info = INFO | {"model_path": str(model), "internal_states": states}
    with serving({path: json.dumps(info)}) as url:
        endpoint, facts = ENGINE.connect(CPU, url)
    assert (endpoint.dialect, endpoint.context_limit, endpoint.slots) == ("sglang", 4094, 48)
    assert endpoint.bos_tokens == 0
    assert facts.version == "0.5.23"
    assert facts.settings["attention_backend"] == "intel_amx"
    assert facts.settings["decode_cuda_graph_bs"] == [1, 2]
    assert facts.settings["max_total_num_tokens"] == 20000
    assert facts.settings["speculative_algorithm"] == "EAGLE3"
    assert facts.settings["kernel_library"] == "CPU stand-in"
    assert facts.settings["overridden_pins"] == {"torch": "2.14.1 -> 2.13.0"}


def test_prompts_are_made_of_ordinary_tokens_only(model: Path) -> None:
    """Neither special ones nor the padding of the embedding beyond the tokenizer's vocabulary."""
    assert sglang_control.token_pool(str(model), {}) == (1, *range(3, 40))


def test_a_published_model_is_looked_up_where_it_was_fetched(model: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--owner--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps({"text_config": {"vocab_size": 100}}))
    assert sglang_control.token_pool("owner/name", {"HF_HOME": str(tmp_path)}) == tuple(range(100))
    with pytest.raises(EngineError, match="neither as a folder nor under"):
        sglang_control.token_pool("owner/other", {"HF_HUB_CACHE": str(tmp_path / "hub")})


def test_a_vocabulary_too_small_for_prompts_is_refused(model: Path) -> None:
    (model / "config.json").write_text(json.dumps({"vocab_size": 10}))
    with pytest.raises(EngineError, match="has only 8 ordinary tokens"):
        sglang_control.token_pool(str(model), {})


def test_counters_are_summed_over_their_labels() -> None:
    with serving({"/metrics": METRICS}) as url:
        assert ENGINE.counters(CPU, url) == EngineCounters(output_tokens=1_200_360, cycles=91)


def test_no_counters_where_metrics_are_off() -> None:
    with serving({}) as url:
        assert ENGINE.counters(CPU, url) == EngineCounters()


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({}, "answers /get_server_info with status 404"),
        ({"/server_info": "[]"}, "something else than a JSON object"),
        ({"/server_info": "not json"}, "something else than a JSON object"),
        ({"/server_info": "{}"}, "no model_path"),
    ],
)
def test_a_server_that_says_something_else_is_an_engine_error(answers: dict[str, str], sentence: str) -> None:
    with serving(answers) as url, pytest.raises(EngineError, match="SGLang") as error:
        ENGINE.connect(CPU, url)
    assert sentence in error.value.message


def test_a_server_that_is_gone_is_an_engine_error() -> None:
    with serving({}) as url:
        pass
    with pytest.raises(EngineError, match="does not answer /server_info"):
        ENGINE.connect(CPU, url)

"""The real llama.cpp, newest and old, started by the adapter's command: what the harness relies on.

Environments are kept in BENCHHARNESS_TEST_CACHE (or ~/.cache/benchharness-tests) and built once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import requests

from benchharness.records import (
    Command,
    Cycle,
    Endpoint,
    Environment,
    EnvironmentSpec,
    Model,
    RequestTrace,
    Source,
    Stack,
    Workload,
)
from benchharness.stack.engines.llamacpp import ENGINE
from benchharness.timings import cycles

NEW, OLD = "2026.10.11549", "0.2.14"
CACHE = Path(os.environ.get("BENCHHARNESS_TEST_CACHE", Path.home() / ".cache" / "benchharness-tests"))
WORKLOADS = (Workload(96, 40, 3),)
READY_WITHIN_S, ENDS_WITHIN_S = 60, 20


def environment(spec: EnvironmentSpec) -> Environment:
    """The environment, built with uv if the cache doesn't have it yet."""
    key = hashlib.sha256(" ".join((sys.version, *spec.requirements)).encode()).hexdigest()[:16]
    folder = CACHE / key
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".done").exists():
            uv = (sys.executable, "-m", "uv")
            python = str(folder / "bin" / "python")
            subprocess.run((*uv, "venv", "-q", "--clear", "-p", sys.executable, str(folder)), check=True)
            subprocess.run((*uv, "pip", "install", "-q", "-p", python, *spec.requirements), check=True)
            (folder / ".done").touch()
    return Environment(key, str(folder), str(folder / "bin" / "python"), "", {})


def stack(release: str = NEW, model: Model | None = None, **args: Any) -> Stack:
    named = {name.replace("__", "."): value for name, value in args.items()}
    return Stack(
        name="s",
        engine="llamacpp",
        source=Source(release=release),
        model=model or Model(recipe="tiny-llama"),
        args=named,
    )


def recipe(folder: Path, seed: int = 0) -> Model:
    """Carry out the recipe into a new folder."""
    declared = stack(model=Model(recipe="tiny-llama", seed=seed))
    spec = ENGINE.model_environment(declared)
    assert spec is not None
    folder.mkdir()
    command = ENGINE.make_model(declared, environment(spec), folder)
    subprocess.run(command.argv, check=True, timeout=60)
    return ENGINE.made_model(declared, folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return recipe(tmp_path_factory.mktemp("models") / "seed0")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def command_of(declared: Stack, model: Model, port: int) -> Command:
    ENGINE.check(declared, WORKLOADS)
    return ENGINE.command(declared, model, environment(ENGINE.environment(declared)), port, WORKLOADS)


@dataclass
class Running:
    process: subprocess.Popen[bytes]
    log: Path
    base_url: str

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(ENDS_WITHIN_S)


@contextmanager
def running(declared: Stack, model: Model, log: Path) -> Iterator[Running]:
    """The server, once it has given its own sign."""
    port = free_port()
    command = command_of(declared, model, port)
    ready = ENGINE.readiness(declared)
    assert ready.log_line is not None
    with log.open("wb") as sink:
        process = subprocess.Popen(command.argv, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
    try:
        for _ in range(READY_WITHIN_S * 50):
            assert process.poll() is None, log.read_text()
            if ready.log_line in log.read_text():
                break
            time.sleep(0.02)
        base_url = f"http://127.0.0.1:{port}"
        assert requests.get(base_url + str(ready.health_path), timeout=10).status_code == 200
        yield Running(process, log, base_url)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def refused(declared: Stack, model: Model, port: int) -> tuple[int, str]:
    """Exit status and output of a server that must not start."""
    done = subprocess.run(
        command_of(declared, model, port).argv,
        capture_output=True,
        timeout=ENDS_WITHIN_S,
        check=False,
        text=True,
    )
    return done.returncode, done.stdout


def stream(endpoint: Endpoint, index: int) -> RequestTrace:
    """One request by the plainest of clients: prompts differ by index, tokens by the server's count."""
    workload, pool = WORKLOADS[0], endpoint.token_pool
    count = workload.context_tokens - endpoint.bos_tokens
    prompt = [pool[(place * place + 7 * index * place + index) % len(pool)] for place in range(count)]
    body = {
        "prompt": prompt,
        "n_predict": workload.output_tokens,
        "stream": True,
        "temperature": 0,
        "timings_per_token": True,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    stamps, counts, times = [], [0], []
    final: dict[str, Any] = {}
    with requests.post(f"{endpoint.base_url}/completion", json=body, stream=True, timeout=60) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line.removeprefix(b"data: "))
            if event["stop"]:
                final = event
            elif event["timings"]["predicted_n"] > counts[-1]:
                stamps.append(time.monotonic_ns())
                counts.append(event["timings"]["predicted_n"])
                times.append(event["timings"]["predicted_ms"])
    return RequestTrace(
        index=index,
        warmup=False,
        prompt_tokens=len(prompt),
        due_ns=0,
        sent_ns=0,
        finished_ns=stamps[-1],
        chunk_ns=tuple(stamps),
        chunk_tokens=tuple(after - before for before, after in pairwise(counts)),
        chunk_server_ms=tuple(times),
        output_tokens=final["tokens_predicted"],
        server_prompt_tokens=final["tokens_evaluated"],
        drafted_tokens=final["timings"].get("draft_n"),
        accepted_tokens=final["timings"].get("draft_n_accepted"),
    )


def accepted(found: tuple[Cycle, ...]) -> int:
    return sum(cycle.tokens - 1 for cycle in found)


SPECULATION = [
    (NEW, {"speculative__draft__n_max": 0}, 1),
    (NEW, {"speculative__draft__n_max": 2}, 3),
    (NEW, {"speculative__draft__n_max": 4}, 5),
    (NEW, {"speculative__n_max": 1}, 2),  # an old name
    (OLD, {"speculative__draft__n_max": 0}, 1),
    (OLD, {"speculative__draft__n_max": 4}, 5),  # a new name
]


@pytest.mark.parametrize(("release", "args", "most"), SPECULATION)
def test_tokens_are_exact_and_cycles_agree_with_the_engine_s_counters(
    release: str, args: dict[str, int], most: int, made: Model, tmp_path: Path
) -> None:
    declared = stack(release, **args)
    workload = WORKLOADS[0]
    with running(declared, made, tmp_path / "log") as server:
        endpoint, facts = ENGINE.connect(declared, server.base_url)
        before = ENGINE.counters(declared, server.base_url)
        traces = [stream(endpoint, index) for index in range(workload.requests)]
        after = ENGINE.counters(declared, server.base_url)
        log = server.log.read_text()
        assert server.end() == 0

    assert (endpoint.slots, endpoint.bos_tokens, endpoint.context_limit) == (1, 0, 256)
    assert facts.version == release
    for trace in traces:
        made_cycles = cycles.from_trace(trace)
        assert trace.output_tokens == sum(trace.chunk_tokens) == workload.output_tokens
        assert trace.server_prompt_tokens == workload.context_tokens
        assert 1 + sum(cycle.tokens for cycle in made_cycles) == trace.output_tokens
        assert accepted(made_cycles) == (trace.accepted_tokens or 0)
        assert all(cycle.total_ms > 0 and cycle.source == "server-timing" for cycle in made_cycles)
    found = tuple(cycle for trace in traces for cycle in cycles.from_trace(trace))
    assert max(cycle.tokens for cycle in found) == most
    if most > 1:
        # Partly, not hardly ever and not always: otherwise speculation would show nothing.
        assert 0.3 * most < sum(cycle.tokens for cycle in found) / len(found) < 0.95 * most
    assert ("draft.gguf" in log) == (most > 1)

    assert after.output_tokens is not None
    assert before.output_tokens is not None
    assert after.output_tokens - before.output_tokens == workload.requests * workload.output_tokens
    if release == NEW and most > 1:
        assert after.accepted_tokens is not None
        assert before.accepted_tokens is not None
        assert after.accepted_tokens - before.accepted_tokens == accepted(found)
    if release == OLD:
        assert after.accepted_tokens is None


@pytest.mark.parametrize("release", [NEW, OLD])
def test_prompts_for_any_model_are_made_of_text_tokens(release: str, made: Model, tmp_path: Path) -> None:
    declared = stack(release, model=Model(path=made.path))
    with running(declared, declared.model, tmp_path / "log") as server:
        endpoint, _ = ENGINE.connect(declared, server.base_url)
        trace = stream(endpoint, 1)
        assert server.end(signal.SIGINT) == 0
    assert min(endpoint.token_pool) > 2  # unknown, begin and end are special
    assert len(endpoint.token_pool) >= 16
    assert trace.server_prompt_tokens == WORKLOADS[0].context_tokens


def test_a_seed_gives_the_same_files_and_another_seed_others(made: Model, tmp_path: Path) -> None:
    def digests(model: Model) -> list[str]:
        return [
            hashlib.sha256(Path(path or "").read_bytes()).hexdigest() for path in (model.path, model.draft)
        ]

    assert digests(recipe(tmp_path / "again")) == digests(made)
    assert not set(digests(recipe(tmp_path / "other", seed=1))) & set(digests(made))


@pytest.mark.parametrize("release", [NEW, OLD])
def test_a_taken_port_ends_the_process_with_a_line(release: str, made: Model) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        status, output = refused(stack(release), made, port)
    assert (status, f"port {port} is taken" in output) == (3, True)


@pytest.mark.parametrize(
    ("release", "args", "line"),
    [
        (NEW, {"n_paralel": 2}, f"xllamacpp {NEW} has no setting 'n_paralel' (did you mean 'n_parallel'?)"),
        (OLD, {"moe_cache_size": 2}, f"xllamacpp {OLD} has no setting 'moe_cache_size'"),
        (NEW, {"n_batch": "many"}, "n_batch=many: wants a whole number"),
        (NEW, {"cache_type_k": "F17"}, "cache_type_k=F17: wants one of GGML_TYPE_F32, GGML_TYPE_F16"),
        (NEW, {"warmup": "perhaps"}, "warmup=perhaps: wants true or false"),
        (NEW, {"speculative__draft": "x"}, "speculative.draft=x: is a group of settings"),
    ],
)
def test_a_setting_that_the_release_lacks_is_refused_before_a_model_is_read(
    release: str, args: dict[str, Any], line: str
) -> None:
    nowhere = Model(path="/nowhere/target.gguf", draft="/nowhere/draft.gguf")
    status, output = refused(stack(release, **args), nowhere, free_port())
    assert status == 2
    assert f"llamacpp_server: refused: {line}" in output
    assert "nowhere" not in output


def test_values_of_every_kind_are_set(made: Model, tmp_path: Path) -> None:
    declared = stack(
        cache_type_k="F16",
        cache_type_v="BF16",
        sampling__temp=0.5,
        model_alias=["tiny"],
        warmup=False,
        speculative__types=["DRAFT_SIMPLE"],
        speculative__synth_rates=[1.0, 1.0],
        speculative__draft__n_max=2,
    )
    with running(declared, made, tmp_path / "log") as server:
        endpoint, _ = ENGINE.connect(declared, server.base_url)
        props = requests.get(f"{server.base_url}/props", timeout=10).json()
        found = cycles.from_trace(stream(endpoint, 0))
        server.end()
    assert props["model_alias"] == "tiny"
    assert props["default_generation_settings"]["params"]["temperature"] == 0.5
    assert {cycle.tokens for cycle in found[:-1]} == {3}  # every draft is accepted, by declaration


def test_a_file_that_is_no_model_ends_the_process_with_a_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF, but not really")
    status, output = refused(stack(model=Model(path=str(broken))), Model(path=str(broken)), free_port())
    assert status == 1
    assert "llamacpp_server: llama.cpp did not start" in output
    assert "Traceback" not in output

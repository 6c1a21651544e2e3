"""The stand-in engine as what it is: a real process that speaks real HTTP, driven through its adapter."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchharness.errors import EngineError, UsageError
from benchharness.records import Model, Source, Stack, Workload
from benchharness.stack.engines import named
from benchharness.stack.engines.standin_process.noise import Noise
from benchharness.stack.engines.standin_process.server import FineSelector
from benchharness.stack.engines.standin_process.settings import FAULTS, KNOWN, declared

ENGINE = named("standin")
PATIENCE_S = 20.0


def stack(**args: Any) -> Stack:
    return Stack(name="s", engine="standin", args=args)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Running:
    stack: Stack
    port: int
    process: subprocess.Popen[bytes]
    log_path: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self.log_path.read_bytes().decode(errors="replace")

    def wait_for(self, text: str) -> None:
        """Until the log holds the text; fails when the process ends first or patience is over."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            if text in self.log:
                return
            assert not ended, f"ended with {self.process.returncode}: {self.log}"
            time.sleep(0.005)
        pytest.fail(f"{text!r} never came: {self.log}")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """`start(setting=value, ...)` gives a running engine; all are killed by their group's id at the end."""
    with contextlib.ExitStack() as ends:

        def begin(*, wait: bool = True, port: int | None = None, **args: Any) -> Running:
            declared_stack = stack(**args)
            port = port or free_port()
            command = ENGINE.command(declared_stack, Model(), None, port, ())
            log_path = tmp_path / f"{port}.log"
            with log_path.open("ab") as log:
                process = subprocess.Popen(
                    command.argv, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                )
            ends.callback(kill, process)
            running = Running(declared_stack, port, process, log_path)
            line = ENGINE.readiness(declared_stack).log_line
            if wait:
                assert line is not None
                running.wait_for(line)
            return running

        yield begin


def kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE_S)


@dataclass
class Reply:
    """What came back on one connection, to its very end."""

    status: int
    head: str
    body: bytes
    complete: bool
    ended_by: str
    reads: int

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = [line for line in self.body.split(b"\n") if line.startswith(b"data: {")]
        return [json.loads(line[6:]) for line in lines]

    @property
    def truths(self) -> list[dict[str, Any]]:
        return [event["standin"] for event in self.events if "standin" in event]


def request(path: str, body: Any, method: str = "POST", keep: bool = False) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = "keep-alive" if keep else "close"
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: x",
        f"Connection: {connection}",
        f"Content-Length: {len(data)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + data


def exchange(port: int, path: str, body: Any, method: str = "POST", silence_s: float = PATIENCE_S) -> Reply:
    received, ended_by, reads = b"", "eof", 0
    with socket.create_connection(("127.0.0.1", port), timeout=silence_s) as connection:
        connection.sendall(request(path, body, method))
        try:
            while data := connection.recv(1 << 20):
                received += data
                reads += 1
        except ConnectionResetError:
            ended_by = "reset"
        except TimeoutError:
            ended_by = "silence"
    head, _, payload = received.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1]) if head else 0
    if b"Transfer-Encoding: chunked" in head:
        payload, complete = dechunk(payload)
    else:
        complete = ended_by == "eof"
    return Reply(status, head.decode("latin-1"), payload, complete, ended_by, reads)


def dechunk(payload: bytes) -> tuple[bytes, bool]:
    body = b""
    while True:
        size, found, rest = payload.partition(b"\r\n")
        if not found:
            return body, False
        length = int(size, 16)
        if length == 0:
            return body, rest == b"\r\n"
        body, payload = body + rest[:length], rest[length + 2 :]


def generate(running: Running, prompt: Sequence[int] = (5, 6, 7), tokens: int = 20, **options: Any) -> Reply:
    body = {"input_ids": list(prompt), "stream": True, "sampling_params": {"max_new_tokens": tokens}}
    return exchange(running.port, "/generate", body, **options)


def at_once(*calls: Any) -> list[Reply]:
    replies: list[Any] = [None] * len(calls)

    def store(index: int) -> None:
        replies[index] = calls[index]()

    threads = [threading.Thread(target=store, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies


def cycles_ms(reply: Reply) -> list[float]:
    return [truth["cycle_ms"] for truth in reply.truths if "cycle_ms" in truth]


# --- what the adapter refuses


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"verify_mss": 1}, "did you mean 'verify_ms'"),
        ({"verify-ms": 1}, "did you mean 'verify_ms'"),
        ({"verify_ms": -1}, "verify_ms must be a number from 0"),
        ({"verify_ms": float("nan")}, "verify_ms must be a number"),
        ({"verify_ms": True}, "verify_ms must be a number"),
        ({"max_running": 1.5}, "max_running must be a whole number"),
        ({"speculation": "yes"}, "speculation must be true or false"),
        ({"fault": "fire"}, "fault must be one of none"),
        ({"accept_probabilities": [1.2]}, "accept_probabilities must be a number from 0 to 1"),
        ({"accept_length": 2, "accept_probabilities": [0.5]}, "exclude each other"),
        ({"accept_length": 4, "draft_tokens": 2}, "2 drafts can't give accept_length 4"),
        ({"draft_tokens": 2}, "draft_tokens needs accept_length"),
        ({"position_factors": [[10, 1], [5, 2]]}, "position_factors must be a list"),
        ({"speed_by": {"package.x": {"1": {"verify_ms": 1}}}}, "no field of a stack"),
        ({"speed_by": {"python": {"3.12": 7}}}, "speed_by must map"),
        ({"launch_count_file": "x"}, "launch_count_file needs noise_seed"),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused(args: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        ENGINE.check(stack(**args), ())


def test_workload_beyond_the_limit_and_model_recipe_are_refused() -> None:
    workload = Workload(context_tokens=90, output_tokens=11, requests=1)
    with pytest.raises(UsageError, match="exceed the stand-in's limit of 100"):
        ENGINE.check(stack(context_limit=100), [workload])
    ENGINE.check(stack(context_limit=101, verify_ms=None), [workload])
    with pytest.raises(UsageError, match="no model"):
        ENGINE.check(Stack(name="s", engine="standin", model=Model(recipe="tiny")), ())


def test_every_setting_is_described_and_its_default_is_valid() -> None:
    standard = declared({})
    for name, item in KNOWN.items():
        assert len(item.metadata["text"]) > 10
        if name != "accept_length":
            assert declared({name: getattr(standard, name)} if name != "draft_tokens" else {}) == standard


def test_declared_versions_drive_speed() -> None:
    by = {
        "packages.sgl-kernel": {"0.3.20": {"verify_ms": 29}},
        "source.release": {"0.5.12": {"draft_ms": 2, "verify_ms": 7}},
        "packages.sgl-kernel & env.NCCL_ALGO": {"0.3.20 & Tree": {"rest_ms": 9}},
    }

    def settings(**fields: Any) -> dict[str, Any]:
        declared_stack = Stack(name="s", engine="standin", args={"speed_by": by, "verify_ms": 19}, **fields)
        settings: dict[str, Any] = json.loads(ENGINE.command(declared_stack, Model(), None, 1, ()).argv[-1])
        return settings

    assert settings() == {"verify_ms": 19}
    assert settings(packages={"sgl-kernel": "0.3.19"}) == {"verify_ms": 19}
    assert settings(packages={"sgl-kernel": "0.3.20"}) == {"verify_ms": 29}
    both = settings(packages={"sgl-kernel": "0.3.20"}, env={"NCCL_ALGO": "Tree"})
    assert both == {"verify_ms": 29, "rest_ms": 9}
    later = settings(packages={"sgl-kernel": "0.3.20"}, source=Source(release="0.5.12"))
    assert later == {"verify_ms": 7, "draft_ms": 2, "version": "0.5.12"}
    with pytest.raises(UsageError, match="verify_mss is unknown"):
        ENGINE.check(stack(version="1", speed_by={"name": {"s": {"verify_mss": 1}}}), ())


# --- the process


def imported(*arguments: str) -> set[str]:
    """Top-level modules that the interpreter imports when started with these arguments."""
    traced = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, timeout=PATIENCE_S
    )
    rows = [line.split("|") for line in traced.stderr.splitlines() if line.count("|") == 2]
    return {row[2].strip().partition(".")[0] for row in rows}


def test_process_imports_nothing_but_the_standard_library() -> None:
    command = ENGINE.command(stack(fault="die-at-start"), Model(), None, 1, ()).argv
    assert command[:2] == (sys.executable, "-I")
    site = imported("-I", "-c", "import copy")  # what a venv's own start-up pulls in is not its doing
    own = imported(*command[1:]) - site
    assert "asyncio" in own
    assert own - set(sys.stdlib_module_names) == {"standin_process"}


def test_connect_says_what_it_is(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # must not come between
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    running = start(max_running=3, context_limit=500, dialect="llamacpp", verify_ms=7)
    endpoint, facts = ENGINE.connect(running.stack, running.url)
    assert (endpoint.dialect, endpoint.slots, endpoint.context_limit) == ("llamacpp", 3, 500)
    assert endpoint.extra_body == {}
    assert endpoint.token_pool == tuple(range(1000, 9000))
    assert facts.settings["synthetic"] is True
    assert facts.settings["verify_ms"] == 7
    assert f"noise seed={facts.settings['noise_seed']}" in running.log
    assert ENGINE.synthetic
    kill(running.process)
    with pytest.raises(EngineError, match="does not answer"):
        ENGINE.connect(running.stack, running.url)


def test_sigterm_ends_it_cleanly_in_the_middle_of_a_stream(start: Any) -> None:
    running = start(verify_ms=50)
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S) as connection:
        body = {"input_ids": [1], "stream": True, "sampling_params": {"max_new_tokens": 5000}}
        connection.sendall(request("/generate", body))
        assert connection.recv(100)
        running.process.terminate()
        assert running.process.wait(PATIENCE_S) == 0
    assert "Traceback" not in running.log


def test_sigterm_ends_it_while_it_starts(start: Any) -> None:
    running = start(wait=False, start_s=60)
    running.wait_for("max_total_num_tokens")
    running.process.terminate()
    assert running.process.wait(PATIENCE_S) == 0
    assert "ready to roll" not in running.log


def test_taken_port_is_reported(start: Any) -> None:
    first = start()
    second = start(wait=False, port=first.port)
    assert second.process.wait(PATIENCE_S) == 1
    assert "address already in use" in second.log
    assert "Traceback" not in second.log


# --- timing


def test_deadlines_are_absolute_and_phases_are_as_declared(start: Any) -> None:
    reply = generate(start(draft_ms=1, verify_ms=3, draft_extend_ms=0.5, rest_ms=0.25), tokens=60)
    truths = reply.truths
    assert {truth["cycle_ms"] for truth in truths[1:]} == {4.75}
    assert {(t["draft_ms"], t["verify_ms"], t["draft_extend_ms"]) for t in truths[1:]} == {(1, 3, 0.5)}
    # However late single events were sent, the schedule is the sum of the cycles and nothing else.
    span_ms = (truths[-1]["due_ns"] - truths[0]["due_ns"]) / 1e6
    assert span_ms == pytest.approx(4.75 * (len(truths) - 1), abs=0.001)
    assert all(truth["sent_ns"] >= truth["due_ns"] for truth in truths)


def test_context_and_plain_steps(start: Any) -> None:
    speculative = start(verify_ms=1, verify_ms_per_1k_context=2, draft_ms=0, draft_extend_ms=0, rest_ms=0)
    near = cycles_ms(generate(speculative, [1] * 99, tokens=4))[0]
    far = cycles_ms(generate(speculative, [1] * 1099, tokens=4))[0]
    assert (near, far) == (pytest.approx(1.2), pytest.approx(3.2))
    plain = start(speculation=False, step_ms=2, step_ms_per_1k_context=1, cycle_factor=1.5)
    reply = generate(plain, [1] * 999, tokens=4)
    assert cycles_ms(reply)[0] == pytest.approx(1.5 * 3)
    assert len(reply.events) == 4
    assert "verify_ms" not in reply.truths[-1]
    assert "spec_verify_ct" not in reply.events[-1]["meta_info"]
    assert ENGINE.counters(plain.stack, plain.url).drafted_tokens is None
    assert "accept len" not in plain.log


def test_warmup_and_speed_by_position(start: Any) -> None:
    args = {"speculation": False, "step_ms": 1}
    warming = start(warmup_cycles=5, warmup_factor=3, **args)
    assert cycles_ms(generate(warming, tokens=9)) == pytest.approx([3, 3, 3, 3, 3, 1, 1, 1])
    assert cycles_ms(generate(warming, tokens=9)) == pytest.approx([1] * 8)
    shaped = start(position_factors=[[1, 1], [5, 3]], **args)
    assert cycles_ms(generate(shaped, tokens=8)) == pytest.approx([1, 1.5, 2, 2.5, 3, 3, 3])


def test_prefill_takes_what_its_length_costs(start: Any) -> None:
    running = start(prefill_ms=1, prefill_ms_per_1k=40)
    body = {"prompt": [1] * 500, "n_predict": 1}
    timings = json.loads(exchange(running.port, "/completion", body).body)["timings"]
    assert timings["prompt_ms"] == pytest.approx(21)
    assert timings["prompt_n"] == 500


def test_timers_are_finer_than_a_millisecond() -> None:
    selector = FineSelector()
    spans = []
    for _ in range(200):
        before = time.monotonic()
        selector.select(0.0002)
        spans.append(time.monotonic() - before)
    selector.close()
    assert 0.0002 <= min(spans) < 0.0009  # plain epoll can't be under 1 ms


def test_many_streams_cost_little(start: Any) -> None:
    running = start(speculation=False, step_ms=5)
    replies = at_once(*[lambda: generate(running, tokens=100)] * 64)
    assert [len(reply.events) for reply in replies] == [100] * 64
    spent = sum(psutil.Process(running.process.pid).cpu_times()[:2])
    assert spent / 6400 < 100e-6  # measured: about 20 us an event; 78 us would be all of one core at 5 ms


# --- noise: many draws, so the pure part by itself


def cv(values: Sequence[float]) -> float:
    return statistics.stdev(values) / statistics.fmean(values)


def test_noise_within_requests_and_launches() -> None:
    noise = Noise(declared({"cycle_cv": 0.05, "noise_seed": 1}))
    cycles = [noise.request(0).cycle_factor(index) for index in range(1)]
    one = noise.request(1)
    cycles = [one.cycle_factor(index) for index in range(4000)]
    assert cv(cycles) == pytest.approx(0.05, rel=0.1)
    assert statistics.fmean(cycles) == pytest.approx(1, abs=0.005)
    requests = Noise(declared({"request_cv": 0.03, "autocorrelation": 0.72, "noise_seed": 2}))
    effects = [requests.request(index).factor for index in range(4000)]
    assert cv(effects) == pytest.approx(0.03, rel=0.15)
    assert statistics.correlation(effects, effects[1:] + effects[:1]) == pytest.approx(0.72, abs=0.06)
    one = requests.request(4000)
    assert one.cycle_factor(0) == one.cycle_factor(9) == one.factor


def test_noise_between_launches_and_slow_mode() -> None:
    args = {"launch_cv": 0.1, "slow_mode_probability": 0.6, "slow_mode_factor": 1.62}
    launches = [Noise(declared(args | {"noise_seed": seed})) for seed in range(2000)]
    assert cv([launch.launch_factor for launch in launches]) == pytest.approx(0.1, rel=0.1)
    assert statistics.fmean(launch.slow_mode for launch in launches) == pytest.approx(0.6, abs=0.05)
    for launch in launches[:20]:
        request = launch.request(0)
        expected = launch.launch_factor * (1.62 if launch.slow_mode else 1)
        assert request.cycle_factor(0) == pytest.approx(expected)
        assert request.factor == pytest.approx(launch.launch_factor)


def test_tails_and_drift() -> None:
    one = Noise(declared({"tail_share": 0.1, "tail_factor": 7, "noise_seed": 3})).request(0)
    factors = [one.cycle_factor(index) for index in range(3000)]
    assert set(factors) == {1.0, 7.0}
    assert factors.count(7.0) / 3000 == pytest.approx(0.1, abs=0.03)
    an_hour_ago = time.time() - 3600
    drifted = Noise(declared({"drift_per_hour": 0.05, "drift_origin_s": an_hour_ago})).request(0)
    assert drifted.factor == pytest.approx(1.05, abs=0.001)
    assert Noise(declared({"drift_per_hour": 0.05})).request(0).factor == pytest.approx(1, abs=0.001)


def test_seeds_repeat_and_launches_differ(tmp_path: Path) -> None:
    def draws(**more: Any) -> list[float]:
        noise = Noise(declared({"cycle_cv": 0.1, "request_cv": 0.1, "launch_cv": 0.1, **more}))
        return [noise.request(index).cycle_factor(0) for index in range(5)]

    assert draws(noise_seed=4) == draws(noise_seed=4)
    assert draws(noise_seed=4) != draws(noise_seed=5)
    assert draws() != draws()
    counted = [
        [draws(noise_seed=4, launch_count_file=str(tmp_path / name)) for _ in range(3)] for name in ("a", "b")
    ]
    assert counted[0] == counted[1]
    assert len({tuple(launch) for launch in counted[0]}) == 3


def test_draws_of_a_request_do_not_depend_on_the_others(start: Any) -> None:
    args = {"cycle_cv": 0.2, "noise_seed": 6, "draft_ms": 0.2, "verify_ms": 0.5}
    alone = start(**args)
    in_turn = [cycles_ms(generate(alone, tokens=30)) for _ in range(3)]
    crowded = start(**args)
    together = [cycles_ms(reply) for reply in at_once(*[lambda: generate(crowded, tokens=30)] * 3)]
    assert sorted(in_turn) == sorted(together)
    assert len({cycles[0] for cycles in in_turn}) == 3


# --- acceptance and counts


@pytest.mark.parametrize("length", [1, 2, 3, 8, 2.6])
def test_accept_length_is_exact_and_counters_agree(start: Any, length: float) -> None:
    running = start(accept_length=length, draft_ms=0, verify_ms=0.5, draft_extend_ms=0, rest_ms=0)
    cycles = 25
    reply = generate(running, tokens=1 + round(cycles * length))
    meta = [event["meta_info"] for event in reply.events]
    tokens = [b["completion_tokens"] - a["completion_tokens"] for a, b in pairwise(meta)]
    assert len(tokens) == cycles
    assert set(tokens) <= {int(length), int(length) + 1}
    assert statistics.fmean(tokens) == pytest.approx(length, abs=0.5 / cycles)
    counters = ENGINE.counters(running.stack, running.url)
    last = meta[-1]
    assert counters.cycles == last["spec_verify_ct"] == cycles
    assert counters.accepted_tokens == last["spec_num_correct_drafts"]
    assert counters.drafted_tokens == last["spec_num_proposed_drafts"]
    assert counters.output_tokens == last["completion_tokens"] == 1 + cycles + last["spec_num_correct_drafts"]


def test_acceptance_by_position(start: Any) -> None:
    running = start(accept_probabilities=[0.9, 0.5], verify_ms=0.1, draft_ms=0, draft_extend_ms=0, rest_ms=0)
    replies = at_once(*[lambda: generate(running, tokens=1000)] * 4)
    tokens = []
    for reply in replies:
        counts = [event["meta_info"]["completion_tokens"] for event in reply.events]
        tokens += [after - before for before, after in pairwise(counts)]
    assert set(tokens) == {1, 2, 3}
    assert tokens.count(1) / len(tokens) == pytest.approx(0.1, abs=0.04)
    assert tokens.count(3) / len(tokens) == pytest.approx(0.45, abs=0.06)
    assert ENGINE.counters(running.stack, running.url).output_tokens == 4000


def test_openai_interface(start: Any) -> None:
    running = start(accept_length=2, verify_ms=1)
    wanted = {"include_usage": True, "continuous_usage_stats": True}
    body = {"prompt": [1, 2, 3], "max_tokens": 7, "stream": True, "stream_options": wanted}
    reply = exchange(running.port, "/v1/completions", body)
    assert [event["usage"]["completion_tokens"] for event in reply.events] == [1, 3, 5, 7, 7]
    assert reply.events[-1]["choices"] == []
    assert reply.events[-2]["choices"][0]["finish_reason"] == "length"
    assert reply.body.endswith(b"data: [DONE]\n\n")
    final = exchange(running.port, "/v1/completions", body | {"stream_options": {"include_usage": True}})
    assert ["usage" in event for event in final.events] == [False] * 4 + [True]
    unasked = exchange(running.port, "/v1/completions", {**body, "stream_options": None})
    assert not any("usage" in event for event in unasked.events)


def test_llamacpp_interface(start: Any) -> None:
    running = start(accept_length=2, timings_from="schedule", draft_ms=1, verify_ms=2)
    body = {"prompt": [1, 2, 3], "n_predict": 7, "stream": True, "timings_per_token": True}
    reply = exchange(running.port, "/completion", body)
    told = [(e["timings"]["predicted_n"], round(e["timings"]["predicted_ms"], 6)) for e in reply.events]
    assert told == [(1, 0), (2, 4), (3, 4), (4, 8), (5, 8), (6, 12), (7, 12), (7, 12)]
    assert reply.events[-1]["stop"] is True
    last = reply.events[-1]["timings"]
    assert (last["draft_n"], last["draft_n_accepted"], last["prompt_n"], last["cache_n"]) == (3, 3, 3, 0)
    assert b"[DONE]" not in reply.body
    chunked = start(accept_length=2, stream="chunk", verify_ms=1)
    assert len(exchange(chunked.port, "/completion", body).events) == 5


def test_predicted_ms_follows_the_clock_unless_told_otherwise(start: Any) -> None:
    running = start(accept_length=2)
    body = {"prompt": [1], "n_predict": 21, "stream": True, "timings_per_token": True}
    events = exchange(running.port, "/completion", body).events
    told = [event["timings"]["predicted_ms"] for event in events]
    by_clock = [(event["standin"]["sent_ns"] - events[0]["standin"]["due_ns"]) / 1e6 for event in events[:-1]]
    assert all(a <= b + 0.001 for a, b in zip(told[1:-1], by_clock[1:], strict=True))
    assert told[-1] > 60  # ten cycles of 6 ms, and never early


def test_token_events_and_usage_modes(start: Any) -> None:
    by_token = generate(start(accept_length=3, stream="token", verify_ms=1), tokens=7)
    assert [event["meta_info"]["completion_tokens"] for event in by_token.events] == list(range(1, 8))
    final = generate(start(accept_length=3, usage="final", verify_ms=1), tokens=7)
    assert ["completion_tokens" in event["meta_info"] for event in final.events] == [False, False, True]
    absent = start(usage="absent", verify_ms=1)
    assert "completion_tokens" not in generate(absent).body.decode()
    body = {"prompt": [1], "n_predict": 5, "stream": True, "timings_per_token": True}
    assert b"predicted" not in exchange(absent.port, "/completion", body).body


def test_text_that_retokenises_into_less(start: Any) -> None:
    running = start(text_share=887 / 2048, verify_ms=0, draft_ms=0, draft_extend_ms=0, rest_ms=0)
    reply = generate(running, tokens=2048)
    assert reply.events[-1]["meta_info"]["completion_tokens"] == 2048
    assert len("".join(event["text"] for event in reply.events).split()) == 887
    repeated = generate(start(cumulative_text=True, verify_ms=1), tokens=10)
    assert len(repeated.events[-1]["text"].split()) == 10


@pytest.mark.parametrize(
    ("path", "body", "shown"),
    [
        ("/generate", {"input_ids": [1], "sampling_params": {"max_new_tokens": 5}}, "text"),
        ("/completion", {"prompt": "three little words", "n_predict": 5}, "content"),
        ("/v1/completions", {"prompt": ["three little words"], "max_tokens": 5}, "choices"),
    ],
)
def test_answers_in_one_piece(start: Any, path: str, body: dict[str, Any], shown: str) -> None:
    answer = json.loads(exchange(start(verify_ms=1).port, path, body).body)
    text = answer[shown][0]["text"] if shown == "choices" else answer[shown]
    assert len(text.split()) == 5


# --- cache, compiler, graphs, slots


def test_prefix_cache(start: Any) -> None:
    running = start(prefix_cache=True, prefill_ms=1, prefill_ms_per_1k=100, dialect="llamacpp")
    assert ENGINE.connect(running.stack, running.url)[0].extra_body == {"cache_prompt": True}
    prompt = list(range(1000, 1640))

    def prefill(tokens: list[int], **more: Any) -> tuple[int, float]:
        body = {"prompt": tokens, "n_predict": 1, **more}
        timings = json.loads(exchange(running.port, "/completion", body).body)["timings"]
        assert timings["cache_n"] + timings["prompt_n"] == len(tokens)
        return timings["cache_n"], round(timings["prompt_ms"], 6)

    assert prefill(prompt) == (0, 65)
    assert prefill(prompt) == (639, 1.1)  # the last token is always computed
    assert prefill(prompt[:320] + [1] * 320) == (320, 33)
    assert prefill([1, *prompt[1:]])[0] == 0
    assert prefill(prompt, cache_prompt=False) == (0, 65)
    assert exchange(running.port, "/flush_cache", b"").status == 200
    assert prefill(prompt) == (0, 65)
    assert generate(running, prompt, 2).events[-1]["meta_info"]["cached_tokens"] == 639
    assert "#new-token: 1, #cached-token: 639" in running.log
    uncached = start()
    assert [generate(uncached, prompt, 2).events[-1]["meta_info"]["cached_tokens"] for _ in "ab"] == [0, 0]


def test_first_request_of_each_length_is_compiled(start: Any) -> None:
    running = start(jit_s=0.2, prefill_ms=1, prefill_ms_per_1k=0)

    def prompt_ms(length: int) -> float:
        body = {"prompt": [1] * length, "n_predict": 1}
        timings: dict[str, float] = json.loads(exchange(running.port, "/completion", body).body)["timings"]
        return round(timings["prompt_ms"], 6)

    assert [prompt_ms(length) for length in (7, 7, 9, 7, 9)] == [201, 1, 201, 1, 1]
    assert running.log.count("JIT compilation during inference") == 2


def test_batches_without_a_graph_are_slow_and_say_so(start: Any) -> None:
    running = start(graph_max_batch=2, eager_factor=3, speculation=False, step_ms=2, log_interval=5)
    few = at_once(*[lambda: generate(running, tokens=40)] * 2)
    assert {c for reply in few for c in cycles_ms(reply)} == {2.0}
    assert running.log.count("Decode batch") in range(7, 11)  # 39 steps of both, not 78 of one
    short, long = (lambda: generate(running, tokens=40)), (lambda: generate(running, tokens=120))
    many = at_once(short, short, long, long)
    assert {c for reply in many for c in cycles_ms(reply)} == {2.0, 6.0}
    assert all(t["graph"] == (t["cycle_ms"] == 2) for r in many for t in r.truths if "graph" in t)
    info = json.loads(exchange(running.port, "/server_info", b"", "GET").body)
    eager = sum(not truth["graph"] for reply in many for truth in reply.truths if "graph" in truth)
    assert info["counters"]["eager_cycles"] == eager > 0
    assert "Capture cuda graph bs [1, 2]\n" in running.log
    decode = [line for line in running.log.splitlines() if "Decode batch" in line]
    assert any("#running-req: 4," in line and "cuda graph: False" in line for line in decode)
    assert any("#running-req: 2," in line and "cuda graph: True" in line for line in decode)


def test_requests_beyond_the_slots_wait(start: Any) -> None:
    running = start(max_running=2, prefill_ms=0, verify_ms=2)
    replies = at_once(*[lambda: generate(running, tokens=20)] * 4)
    spans = sorted((reply.truths[0]["due_ns"], reply.truths[-1]["due_ns"]) for reply in replies)
    events = sorted([(first, 1) for first, _ in spans] + [(last, -1) for _, last in spans])
    level, highest = 0, 0
    for _, change in events:
        level += change
        highest = max(highest, level)
    assert highest == 2
    assert "max_running_requests=2" in running.log


def test_slot_of_a_client_that_left_is_free_again(start: Any) -> None:
    running = start(max_running=1, verify_ms=20)
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S) as connection:
        body = {"input_ids": [1], "stream": True, "sampling_params": {"max_new_tokens": 9000}}
        connection.sendall(request("/generate", body))
        assert connection.recv(100)
    assert generate(running, tokens=3).complete
    assert ENGINE.counters(running.stack, running.url).output_tokens < 1000


# --- transport


@pytest.mark.parametrize("args", [{"tcp": "split"}, {"tcp": "merge"}, {"framing": "close"}])
def test_delivery_does_not_change_content(start: Any, args: dict[str, Any]) -> None:
    common = {"accept_length": 2, "truth": False, "verify_ms": 2}
    whole, other = generate(start(**common), tokens=31), generate(start(**common, **args), tokens=31)
    assert other.complete
    assert other.body == whole.body
    assert len(whole.events) == 16
    assert ("chunked" in other.head) == ("framing" not in args)
    if args.get("tcp") == "merge":
        assert other.reads < 14  # head, eight pairs, the end: 10
    if args.get("tcp") == "split":
        assert other.reads > 19  # head, 16 events, [DONE] and the end, had nothing been cut


def test_requests_in_one_packet_are_answered_in_turn(start: Any) -> None:
    running = start(verify_ms=1)
    health = request("/health", b"", "GET", keep=True)
    body = {"input_ids": [1], "stream": True, "sampling_params": {"max_new_tokens": 9}}
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S) as connection:
        connection.sendall(health * 2000 + request("/generate", body, keep=True) + request("/nowhere", b""))
        received = b""
        while data := connection.recv(1 << 20):
            received += data
    statuses = re.findall(rb"HTTP/1.1 (\d+)", received)
    assert statuses == [b"200"] * 2001 + [b"404"]
    assert received.index(b"[DONE]") < received.index(b"nothing at /nowhere")


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/generate", b"{", 400, "Expecting"),
        ("/generate", {"input_ids": []}, 400, "not empty"),
        ("/generate", {"input_ids": [1], "sampling_params": {"max_new_tokens": 0}}, 400, "above 0"),
        ("/completion", {"prompt": [1] * 90, "n_predict": 11}, 400, "exceed the context length of 100"),
        ("/else", {}, 404, "nothing at"),
    ],
)
def test_bad_requests(start: Any, path: str, body: Any, status: int, words: str) -> None:
    running = start(context_limit=100)
    reply = exchange(running.port, path, body)
    assert reply.status == status
    assert words in reply.body.decode()
    assert generate(running).complete


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"x" * 70_000, 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n", 413),
    ],
)
def test_requests_that_are_none(start: Any, sent: bytes, status: int) -> None:
    running = start()
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S) as connection:
        connection.sendall(sent)
        assert connection.recv(100).startswith(b"HTTP/1.1 %d" % status)
    assert generate(running).complete


# --- logs


def test_sglang_log_counts_and_its_flaw(start: Any) -> None:
    running = start(accept_length=2, draft_ms=0.5, verify_ms=1, rest_ms=0, draft_extend_ms=0)
    for _ in range(2):
        generate(running, tokens=1 + 2 * 100)
        time.sleep(0.5)
    lines = [line for line in running.log.splitlines() if "Decode batch" in line]
    assert len(lines) == 5  # 200 cycles, one line in 40, across the gap
    assert all("accept len: 2.00, accept rate: 1.00, cuda graph: True" in line for line in lines)
    pattern = (
        r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] Decode batch, #running-req: 1, #token: (\d+), .*#queue-req: 0$"
    )
    held = [int(match[1]) for line in lines if (match := re.match(pattern, line))]
    assert [after - before for before, after in pairwise(held)] == [80, -120, 80, 80]
    speeds = [float(re.findall(r"gen throughput \(token/s\): ([\d.]+)", line)[0]) for line in lines]
    assert speeds[2] < 0.5 * speeds[1]  # its window holds the pause: 80 tokens in over 0.5 s
    assert speeds[2] < 160
    old = start(accept_length=2, old_accept_rate=True, draft_tokens=3, verify_ms=0.5)
    generate(old, tokens=101)
    assert "accept len: 2.00, accept rate: 0.50," in old.log


def test_llamacpp_log_agrees_with_the_answer(start: Any) -> None:
    running = start(
        log_dialect="llamacpp", accept_length=2.5, draft_ms=1, verify_ms=1, timings_from="schedule"
    )
    body = {"prompt": [1] * 50, "n_predict": 51}
    timings = json.loads(exchange(running.port, "/completion", body).body)["timings"]
    log = running.log
    evaluated = re.search(r"\|        eval time =\s+([\d.]+) ms /\s+(\d+) tokens", log)
    assert evaluated is not None
    assert (float(evaluated[1]), int(evaluated[2])) == (pytest.approx(timings["predicted_ms"], abs=0.01), 51)
    accepted = re.search(r"draft acceptance = [\d.]+ \(\s*(\d+) accepted /\s*(\d+) generated\)", log)
    assert accepted is not None
    assert (int(accepted[1]), int(accepted[2])) == (timings["draft_n_accepted"], timings["draft_n"])
    calls = re.search(r"#gen drafts =\s+(\d+),.*dur\(b,g,a\) = [\d.]+, ([\d.]+), ", log)
    assert calls is not None
    assert float(calls[2]) / int(calls[1]) == pytest.approx(1.0)
    assert re.match(r"0\.\d\d\.\d{3}\.\d{3} I srv ", log)
    assert "offloaded 33/33 layers to GPU" in log
    assert "offloaded 0/33 layers to GPU" in start(log_dialect="llamacpp", on_cpu=True).log


def test_no_log(start: Any) -> None:
    running = start(wait=False, log_dialect="none")
    readiness = ENGINE.readiness(running.stack)
    assert (readiness.log_line, readiness.health_path) == (None, "/health")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(ConnectionRefusedError):
            assert generate(running, tokens=100).complete
            break
        time.sleep(0.01)
    assert running.log == ""


# --- faults


def test_die_and_crash_at_start(start: Any) -> None:
    dies, crashes = start(wait=False, fault="die-at-start"), start(wait=False, fault="crash-signal")
    assert dies.process.wait(PATIENCE_S) == 3
    assert dies.log.rstrip().endswith("(fault: die-at-start)")
    assert dies.log.count("\n") > 4
    assert crashes.process.wait(PATIENCE_S) == -signal.SIGSEGV


def test_hang_at_start(start: Any) -> None:
    running = start(wait=False, fault="hang-at-start", ready_timeout_s=0.5)
    running.wait_for("max_total_num_tokens")
    time.sleep(0.3)
    assert running.process.poll() is None
    assert "ready to roll" not in running.log
    with pytest.raises(ConnectionRefusedError):
        generate(running)
    assert ENGINE.readiness(running.stack).timeout_s == 0.5
    running.process.terminate()
    assert running.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(("fault", "status"), [("die-mid-stream", 1), ("crash-mid-stream", -signal.SIGSEGV)])
def test_end_of_the_process_in_a_stream(start: Any, fault: str, status: int) -> None:
    running = start(fault=fault, fault_after_tokens=5, accept_length=2, verify_ms=1)
    reply = generate(running)
    assert running.process.wait(PATIENCE_S) == status
    assert not reply.complete
    assert reply.events[-1]["meta_info"]["completion_tokens"] == 5


@pytest.mark.parametrize(
    ("fault", "ended_by"), [("reset-mid-stream", "reset"), ("half-close", "eof"), ("stall", "silence")]
)
def test_broken_streams(start: Any, fault: str, ended_by: str) -> None:
    running = start(fault=fault, fault_after_tokens=5, accept_length=2, verify_ms=1, fault_after_requests=1)
    assert generate(running).complete
    reply = generate(running, silence_s=0.5 if fault == "stall" else PATIENCE_S)
    assert reply.ended_by == ended_by
    assert not reply.complete
    assert reply.events[-1]["meta_info"]["completion_tokens"] == 5
    assert running.process.poll() is None
    assert exchange(running.port, "/health", b"", "GET").status == 200


def test_half_close_leaves_the_other_half_open(start: Any) -> None:
    running = start(fault="half-close", fault_after_tokens=0)
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S) as connection:
        body = {"input_ids": [1], "stream": True, "sampling_params": {"max_new_tokens": 5}}
        connection.sendall(request("/generate", body))
        while connection.recv(4096):
            pass
        time.sleep(0.05)
        status = [c.status for c in psutil.Process(running.process.pid).net_connections("tcp")]
        assert psutil.CONN_FIN_WAIT2 in status


def test_error_event(start: Any) -> None:
    running = start(fault="error-event", fault_after_tokens=5, accept_length=2, verify_ms=1)
    reply = generate(running)
    assert reply.complete
    assert "error" in reply.events[-1]
    assert len(reply.events) == 4
    body = {"prompt": [1], "n_predict": 9, "stream": True}
    assert b'\nerror: {"code": 500' in exchange(running.port, "/completion", body).body


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        ("http-500", 500, "application/json"),
        ("http-429", 429, "Retry-After: 1"),
        ("redirect", 307, "Location: /elsewhere"),
        ("wrong-content-type", 200, "Content-Type: text/html"),
    ],
)
def test_answers_that_are_no_stream(start: Any, fault: str, status: int, words: str) -> None:
    running = start(fault=fault, fault_after_requests=1)
    assert generate(running).events[-1]["meta_info"]["completion_tokens"] == 20
    for _ in range(2):
        reply = generate(running)
        assert reply.status == status
        assert words in reply.head
        assert len(reply.body) > 5
        assert reply.events == []
    assert exchange(running.port, "/health", b"", "GET").status == 200


def test_ignored_sigterm(start: Any) -> None:
    running = start(fault="ignore-sigterm")
    for number in (signal.SIGTERM, signal.SIGINT):
        running.process.send_signal(number)
    time.sleep(0.2)
    assert generate(running).complete
    running.process.kill()
    assert running.process.wait(PATIENCE_S) == -signal.SIGKILL


def test_orphan(start: Any) -> None:
    running = start(fault="orphan")
    pid = int(re.findall(r"orphan pid=(\d+)", running.log)[0])
    try:
        orphan = psutil.Process(pid)
        assert os.getsid(pid) not in (pid, running.process.pid)
        assert orphan.ppid() != running.process.pid
        assert pid not in [
            child.pid for child in psutil.Process(running.process.pid).children(recursive=True)
        ]
        running.process.terminate()
        assert running.process.wait(PATIENCE_S) == 0
        assert orphan.is_running()
    finally:
        os.kill(pid, signal.SIGKILL)


def test_garbage_log(start: Any) -> None:
    running = start(fault="garbage-log")
    assert generate(running, tokens=200).complete
    raw = running.log_path.read_bytes()
    assert b"\0" in raw
    assert max(map(len, raw.split(b"\n"))) > 70_000
    with pytest.raises(UnicodeDecodeError):
        raw.decode()
    assert b"] Decode batch, #running-req: 1," in raw


def test_slow_health(start: Any) -> None:
    running = start(fault="slow-health", fault_delay_s=0.4)
    before = time.monotonic()
    assert exchange(running.port, "/health", b"", "GET").status == 200
    assert time.monotonic() - before >= 0.4
    assert generate(running).complete


def test_every_fault_has_its_test() -> None:
    source = Path(__file__).read_text()
    assert [fault for fault in FAULTS if f'"{fault}"' not in source] == []

"""The real SGLang served on the CPU by the adapter's command: several releases, with and without drafts."""

from __future__ import annotations

import concurrent.futures
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from benchharness.records import Endpoint, EngineCounters, EngineFacts, Environment, Stack, Workload
from benchharness.stack import models, server
from benchharness.stack.engines.sglang import ENGINE

Stacks = Callable[..., Stack]
Environments = Callable[[Stack], Environment]
WORK = (Workload(context_tokens=256, output_tokens=64, requests=3, concurrency=3),)
OUTPUT, PROMPTS = 48, 3
DRAFTED = {"speculative_algorithm": "STANDALONE", "speculative_num_steps": 3}
CHAIN = {**DRAFTED, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
TREE = {**DRAFTED, "speculative_eagle_topk": 3, "speculative_num_draft_tokens": 8}


@dataclass
class Served:
    """A running server with what it said of itself."""

    stack: Stack
    url: str
    endpoint: Endpoint
    facts: EngineFacts

    def counters(self) -> EngineCounters:
        return ENGINE.counters(self.stack, self.url)

    def generate(self, prompt: list[int]) -> dict[str, Any]:
        sampling = {"max_new_tokens": OUTPUT, "temperature": 0, "ignore_eos": True}
        body = {"input_ids": prompt, "sampling_params": sampling}
        answer = requests.post(f"{self.url}/generate", json=body, timeout=120)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def prompts(self, tokens: int = 200) -> list[list[int]]:
        rng = random.Random(7)
        return [[rng.choice(self.endpoint.token_pool) for _ in range(tokens)] for _ in range(PROMPTS)]


@contextmanager
def serving(stack: Stack, environment: Environment, cache: Path, log: Path) -> Iterator[Served]:
    ENGINE.check(stack, WORK)
    model = models.ensure(ENGINE, stack, cache, on_progress=lambda _: None)
    port = server.free_port()
    command = ENGINE.command(stack, model, environment, port, WORK)
    url = f"http://127.0.0.1:{port}"
    with server.running(command, ENGINE.readiness(stack), base_url=url, log_path=log):
        yield Served(stack, url, *ENGINE.connect(stack, url))


@pytest.fixture(scope="module")
def plain(
    stack: Stacks, environment: Environments, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[dict[str, Any]], EngineFacts, Endpoint, tuple[EngineCounters, EngineCounters]]:
    """Answers of the newest release without speculation, and what the server said."""
    declared = stack()
    log = tmp_path_factory.mktemp("plain") / "server.log"
    with serving(declared, environment(declared), cache, log) as served:
        before = served.counters()
        answers = [served.generate(prompt) for prompt in served.prompts()]
        return answers, served.facts, served.endpoint, (before, served.counters())


def test_the_tiny_model_says_many_different_tokens(plain: Any) -> None:
    for answer in plain[0]:
        assert len(answer["output_ids"]) == OUTPUT
        assert len(set(answer["output_ids"])) > OUTPUT // 2
        assert len(answer["text"].split()) > OUTPUT // 2


def test_the_server_tells_its_limits_and_what_its_start_resolved(plain: Any) -> None:
    _, facts, endpoint, _ = plain
    assert facts.version == "0.5.23"
    assert facts.settings["attention_backend"] == "intel_amx"
    assert facts.settings["kernel_library"] == "CPU stand-in"
    assert facts.settings["overridden_pins"] == {"torch": "2.14.1 -> 2.13.0"}
    assert facts.settings["random_seed"] == 1
    assert facts.settings["memory_usage"]["kvcache"] > 0
    assert endpoint.context_limit == 4094
    assert endpoint.slots is not None and endpoint.slots >= 3
    assert len(endpoint.token_pool) > 1000 and min(endpoint.token_pool) == 3


def test_the_servers_counter_moves_by_what_it_sent(plain: Any) -> None:
    before, after = plain[3]
    assert after.output_tokens - before.output_tokens == PROMPTS * OUTPUT


@pytest.mark.parametrize("release", ["0.5.18", "0.5.12", "0.5.9"])
def test_older_releases_say_the_same(
    release: str, plain: Any, stack: Stacks, environment: Environments, cache: Path, tmp_path: Path
) -> None:
    declared = stack(release)
    with serving(declared, environment(declared), cache, tmp_path / "server.log") as served:
        assert served.facts.version == release
        assert served.endpoint.context_limit == 4094
        answers = [served.generate(prompt) for prompt in served.prompts()]
    assert [a["output_ids"] for a in answers] == [a["output_ids"] for a in plain[0]]


def test_drafting_changes_the_speed_and_not_the_text(
    plain: Any, stack: Stacks, environment: Environments, cache: Path, tmp_path: Path
) -> None:
    """Trees of drafts, several requests in one batch: greedy answers stay those of the target alone."""
    declared = stack(**TREE)
    with serving(declared, environment(declared), cache, tmp_path / "server.log") as served:
        before = served.counters()
        with concurrent.futures.ThreadPoolExecutor(PROMPTS) as pool:
            answers = list(pool.map(served.generate, served.prompts()))
        after = served.counters()
        assert served.facts.settings["speculative_algorithm"] == "STANDALONE"
    assert [a["output_ids"] for a in answers] == [a["output_ids"] for a in plain[0]]
    cycles = [answer["meta_info"]["spec_verify_ct"] for answer in answers]
    assert all(OUTPUT / 4 <= count < OUTPUT / 1.5 for count in cycles)
    assert after.cycles - before.cycles == sum(cycles)


def test_an_older_release_drafts_too(
    stack: Stacks, environment: Environments, cache: Path, tmp_path: Path
) -> None:
    """Its text is not compared: up to 0.5.18 SGLang's CPU attention forgets the draft tokens' places."""
    declared = stack("0.5.18", **CHAIN)
    with serving(declared, environment(declared), cache, tmp_path / "server.log") as served:
        for prompt in served.prompts():
            answer = served.generate(prompt)
            assert len(answer["output_ids"]) == OUTPUT
            assert answer["meta_info"]["spec_verify_ct"] < OUTPUT - 1

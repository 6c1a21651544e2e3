"""The llama.cpp adapter: what it refuses, what it tells the server, what it reads from it."""

from __future__ import annotations

import ast
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import EngineError, UsageError
from benchharness.records import Environment, Model, Source, Stack, Workload
from benchharness.stack.engines import llamacpp_settings, named
from benchharness.stack.engines.llamacpp import ENGINE

RELEASE = "2026.10.11549"
WORKLOADS = (Workload(128, 64, 4), Workload(2048, 64, 4))
ENVIRONMENT = Environment("key", "/e", "/e/bin/python", "3.11.7", {"xllamacpp": RELEASE})
MADE = Model(recipe="tiny-llama", path="/m/target.gguf", draft="/m/draft.gguf")


def stack(**given: Any) -> Stack:
    fields: dict[str, Any] = {"source": Source(release=RELEASE), "model": Model(recipe="tiny-llama")}
    return Stack(name="s", engine="llamacpp", **(fields | given))


def told(
    declared: Stack, model: Model = MADE, workloads: tuple[Workload, ...] = WORKLOADS
) -> dict[str, dict[str, str]]:
    """The command's settings: {"--default": {name: text}, "--set": {name: text}}."""
    argv = ENGINE.command(declared, model, ENVIRONMENT, 8123, workloads).argv
    found: dict[str, dict[str, str]] = {"--default": {}, "--set": {}}
    for option, setting in zip(argv[2::2], argv[3::2], strict=True):
        name, _, text = setting.partition("=")
        found[option][name] = text
    return found


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message", "advice"),
    [
        ({"source": Source()}, "no release", "2026.10.11549"),
        ({"source": Source(repo="r", commit="c")}, "not a repository", "release"),
        ({"source": Source(release=RELEASE, patch="p")}, "not a repository", "release"),
        ({"model": Model()}, "no model is given", "tiny-llama"),
        ({"model": Model(recipe="tiny-lama")}, "did you mean 'tiny-llama'", "model.recipe"),
        ({"model": Model(recipe="tiny-llama", path="x")}, "makes all models", "remove"),
        ({"model": Model(path="/nowhere/x.gguf")}, "no model at /nowhere/x.gguf", "path"),
        ({"model": Model(recipe="tiny-llama", tp=2)}, "tp", "split_mode"),
        ({"args": {"model.path": "x"}}, "args.model.path", "remove"),
        ({"args": {"hostname": "0.0.0.0"}}, "loopback", "remove"),  # noqa: S104
        ({"args": {"--n-ctx": 1}}, "no name of a llama.cpp setting", "CommonParams"),
        ({"args": {"speculative": {"n_max": 2}}}, "mapping", "speculative.n_max"),
        ({"args": {"n_parallel": 0}}, "n_parallel", "1 or more"),
        ({"args": {"speculative.draft.n_max": "two"}}, "'two'", "whole number"),
        ({"args": {"n_ctx": True}}, "n_ctx", "whole number"),
    ],
)
def test_what_can_be_seen_to_be_wrong_is_refused(given: dict[str, Any], message: str, advice: str) -> None:
    with pytest.raises(UsageError) as refused:
        ENGINE.check(stack(**given), WORKLOADS)
    assert message in refused.value.message
    assert advice in refused.value.advice


def test_drafting_without_a_draft_model_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "t.gguf"
    target.touch()
    alone = Model(path=str(target))
    with pytest.raises(UsageError, match="no draft model"):
        ENGINE.check(stack(model=alone, args={"speculative.draft.n_max": 2}), WORKLOADS)
    ENGINE.check(stack(model=alone, args={"speculative.draft.n_max": 0}), WORKLOADS)
    ENGINE.check(stack(model=alone, args={"speculative.types": "NGRAM_SIMPLE"}), WORKLOADS)


@pytest.mark.parametrize(
    ("context", "args", "limit"),
    [
        (4033, {}, "4096 of the model tiny-llama"),
        (961, {"n_ctx": 1024}, "1024 of a slot"),
        (449, {"n_ctx": 1024, "n_parallel": 2}, "512 of a slot"),
    ],
)
def test_a_request_of_one_token_too_many_is_refused(context: int, args: dict[str, Any], limit: str) -> None:
    ENGINE.check(stack(args=args), [Workload(context - 1, 64, 1)])
    with pytest.raises(UsageError) as refused:
        ENGINE.check(stack(args=args), [Workload(context, 64, 1)])
    assert limit in refused.value.message


def test_the_adapter_is_found_by_its_name() -> None:
    assert named("llamacpp") is ENGINE


# --- environments and commands --------------------------------------------------------------------


def test_packages_join_and_override_the_release() -> None:
    spec = ENGINE.environment(stack(packages={"numpy": "2.4.6"}))
    assert spec.requirements == (f"xllamacpp=={RELEASE}", "numpy==2.4.6")
    assert spec.imports == ("xllamacpp",)
    override = ENGINE.environment(stack(packages={"xllamacpp": "0.2.14"}, python="3.12"))
    assert (override.requirements, override.python) == (("xllamacpp==0.2.14",), "3.12")


def test_the_recipe_s_environment_is_pinned_and_its_command_writes_what_is_then_served() -> None:
    declared = stack(model=Model(recipe="tiny-llama", seed=7))
    spec = ENGINE.model_environment(declared)
    assert spec is not None
    assert all("==" in line for line in spec.requirements)
    command = ENGINE.make_model(declared, ENVIRONMENT, Path("/f"))
    assert command.argv[0] == ENVIRONMENT.python_path
    assert Path(command.argv[1]).is_file()
    assert command.argv[2:] == ("/f", "7")
    made = ENGINE.made_model(declared, Path("/f"))
    assert (made.path, made.draft, made.seed) == ("/f/target.gguf", "/f/draft.gguf", 7)
    assert ENGINE.model_environment(stack(model=Model(path="x"))) is None


def test_what_the_adapter_knows_of_the_recipe_is_what_the_recipe_says() -> None:
    recipe = llamacpp_settings.RECIPES["tiny-llama"]
    constants = {
        target.id: eval(compile(ast.Expression(node.value), "", "eval"))  # noqa: S307
        for node in ast.parse(recipe.script.read_text()).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in ("CONTEXT", "SPECIALS")
    }
    assert constants == {"CONTEXT": recipe.context_tokens, "SPECIALS": recipe.first_text_token}


def test_a_draft_model_is_served_with_one_thread_and_room_for_the_longest_request() -> None:
    settings = told(stack(args={"speculative.draft.n_max": 4}))
    assert settings["--set"] == {
        "port": "8123",
        "model.path": "/m/target.gguf",
        "speculative.draft.mparams.path": "/m/draft.gguf",
        "speculative.draft.n_max": "4",
    }
    assert settings["--default"] == {
        "n_parallel": "1",
        "n_ctx": "2304",
        "cpuparams.n_threads": "1",
        "cpuparams_batch.n_threads": "1",
        "cache_ram_mib": "0",
        "endpoint_metrics": "true",
        "endpoint_props": "true",
        "speculative.types": "DRAFT_SIMPLE",
        "speculative.draft.p_min": "0",
        "speculative.draft.cpuparams.n_threads": "1",
        "speculative.draft.cpuparams_batch.n_threads": "1",
    }


@pytest.mark.parametrize(
    "args",
    [
        {"speculative.draft.n_max": 0, "speculative.types": "DRAFT_SIMPLE", "speculative.draft.p_min": 0.5},
        {"speculative.n_max": 0},
        {"speculative.types": ["none"], "speculative.draft.n_max": 4},
    ],
)
def test_speculation_off_leaves_nothing_of_it(args: dict[str, Any]) -> None:
    settings = told(stack(args=args))
    assert not [name for part in settings.values() for name in part if "speculative" in name]


def test_another_kind_of_speculation_needs_no_draft_model() -> None:
    settings = told(stack(args={"speculative.types": ["NGRAM_SIMPLE"]}))
    assert settings["--set"]["speculative.types"] == '["NGRAM_SIMPLE"]'
    assert "speculative.draft.mparams.path" not in settings["--set"]


def test_the_stack_s_arguments_win_and_the_port_is_the_one_given_to_the_command() -> None:
    settings = told(
        stack(args={"cpuparams.n_threads": 2, "n_ctx": 4096, "port": 99, "endpoint_metrics": False})
    )
    assert settings["--set"] == {
        "port": "8123",
        "model.path": "/m/target.gguf",
        "speculative.draft.mparams.path": "/m/draft.gguf",
        "cpuparams.n_threads": "2",
        "n_ctx": "4096",
        "endpoint_metrics": "false",
    }
    assert settings["--default"]["cpuparams_batch.n_threads"] == "2"
    assert not settings["--default"].keys() & settings["--set"].keys()


@pytest.mark.parametrize(
    ("workloads", "slots", "tokens"),
    [
        ((Workload(100, 28, 1, concurrency=3), Workload(200, 10, 1)), "3", 3 * 256),
        ((Workload(225, 0, 1, concurrency=None, rate_rps=2.0),), "4", 4 * 512),
        ((Workload(4000, 96, 1, concurrency=2),), "2", 2 * 4096),
    ],
)
def test_there_is_a_slot_for_each_stream(workloads: tuple[Workload, ...], slots: str, tokens: int) -> None:
    settings = told(stack(), workloads=workloads)
    assert (settings["--default"]["n_parallel"], settings["--default"]["n_ctx"]) == (slots, str(tokens))


def test_variables_go_to_the_process() -> None:
    command = ENGINE.command(stack(env={"A": "b"}), MADE, ENVIRONMENT, 1, WORKLOADS)
    assert command.env == {"A": "b"}


# --- a running server -----------------------------------------------------------------------------

Answer = tuple[int, str]
PROPS = {"default_generation_settings": {"n_ctx": 1024}, "total_slots": 2, "build_info": "b0-unknown"}
MODELS = {"data": [{"meta": {"n_vocab": 575, "n_ctx_train": 4096, "n_params": 9}}]}


def working() -> dict[str, Callable[[Any], Answer]]:
    """Answers of a server, as llama.cpp gives them; a body of None is a GET."""
    return {
        "/props": lambda _: (200, json.dumps(PROPS)),
        "/v1/models": lambda _: (200, json.dumps(MODELS)),
        "/completion": lambda body: (200, json.dumps({"tokens_evaluated": len(body["prompt"])})),
        "/metrics": lambda _: (501, "not enabled"),
    }


@contextmanager
def serving(answers: dict[str, Callable[[Any], Answer]]) -> Iterator[str]:
    """A real HTTP server on loopback that gives these answers; its base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            status, text = answers[self.path](body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Keep the test's output quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_connect_takes_slots_limit_and_tokens_from_the_server() -> None:
    with serving(working()) as base_url:
        endpoint, facts = ENGINE.connect(stack(), base_url)
    assert (endpoint.base_url, endpoint.dialect) == (base_url, "llamacpp")
    assert (endpoint.context_limit, endpoint.slots, endpoint.bos_tokens) == (1024, 2, 0)
    assert endpoint.token_pool == tuple(range(259, 575))
    assert facts.version == RELEASE
    assert facts.settings["n_ctx_slot"] == 1024
    assert facts.settings["n_params"] == 9


def test_tokens_that_the_server_adds_are_counted() -> None:
    answers = working()
    answers["/completion"] = lambda body: (200, json.dumps({"tokens_evaluated": len(body["prompt"]) + 1}))
    with serving(answers) as base_url:
        assert ENGINE.connect(stack(), base_url)[0].bos_tokens == 1


def test_the_model_s_own_limit_counts_where_it_is_less_than_the_slot() -> None:
    answers = working()
    answers["/v1/models"] = lambda _: (
        200,
        json.dumps({"data": [{"meta": {"n_vocab": 575, "n_ctx_train": 512}}]}),
    )
    with serving(answers) as base_url:
        assert ENGINE.connect(stack(), base_url)[0].context_limit == 512


def test_of_other_models_prompts_are_made_of_a_text_s_tokens_without_bytes() -> None:
    asked: list[Any] = []

    def tokenize(body: Any) -> Answer:
        asked.append(body)
        pieces = [{"id": 40 - place, "piece": f"w{place}"} for place in range(20)] * 2
        return 200, json.dumps({"tokens": [*pieces, {"id": 7, "piece": [195]}, {"id": 8, "piece": "\n"}]})

    with serving(working() | {"/tokenize": tokenize}) as base_url:
        endpoint, _ = ENGINE.connect(stack(model=Model(path="x.gguf")), base_url)
    assert endpoint.token_pool == tuple(range(21, 41))
    assert asked[0]["add_special"] is False
    assert asked[0]["parse_special"] is False


def test_letters_will_do_where_there_are_no_words() -> None:
    pieces = [{"id": place, "piece": chr(place)} for place in range(65, 91)]
    answers = working() | {"/tokenize": lambda _: (200, json.dumps({"tokens": pieces}))}
    with serving(answers) as base_url:
        endpoint, _ = ENGINE.connect(stack(model=Model(path="x.gguf")), base_url)
    assert endpoint.token_pool == tuple(range(65, 91))


def test_a_vocabulary_of_too_few_tokens_is_refused() -> None:
    answers = working() | {"/tokenize": lambda _: (200, '{"tokens": [{"id": 5, "piece": "a"}]}')}
    with serving(answers) as base_url, pytest.raises(EngineError, match="only 1 tokens"):
        ENGINE.connect(stack(model=Model(path="x.gguf")), base_url)


@pytest.mark.parametrize(
    ("path", "answer", "message"),
    [
        ("/props", (200, "{}"), "describes itself"),
        ("/props", (200, "oops"), "something else than a JSON object"),
        ("/v1/models", (200, '{"data": []}'), "describes itself"),
        ("/completion", (500, '{"error":\n "no slot"}'), 'status 500: {"error": "no slot"}'),
        ("/completion", (200, '{"tokens_evaluated": 3}'), "a prompt of 8 tokens for one of 3"),
    ],
)
def test_a_server_that_answers_otherwise_is_an_engine_error(path: str, answer: Answer, message: str) -> None:
    answers = working() | {path: lambda _: answer}
    with serving(answers) as base_url, pytest.raises(EngineError) as refused:
        ENGINE.connect(stack(), base_url)
    assert message in refused.value.message


def test_a_server_that_is_gone_is_an_engine_error() -> None:
    with serving(working()) as base_url:
        pass
    with pytest.raises(EngineError, match="does not answer /metrics"):
        ENGINE.counters(stack(), base_url)


METRICS = """# HELP llamacpp:tokens_predicted_total Number of generation tokens processed.
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 24
llamacpp:tokens_predicted_seconds_total 0.056523
"""
SPECULATIVE = """llamacpp:spec_decode_num_draft_tokens_total 1.5e+07
llamacpp:spec_decode_num_accepted_tokens_total 14
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 6
"""


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((200, METRICS + SPECULATIVE), (24, None, 14)),
        ((200, METRICS), (24, None, None)),
        ((501, "no"), (None, None, None)),
    ],
)
def test_counters_are_read_where_they_are_and_exact(answer: Answer, expected: tuple[int | None, ...]) -> None:
    with serving(working() | {"/metrics": lambda _: answer}) as base_url:
        counters = ENGINE.counters(stack(), base_url)
    assert (counters.output_tokens, counters.drafted_tokens, counters.accepted_tokens) == expected
    assert counters.cycles is None

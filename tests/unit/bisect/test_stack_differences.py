"""The differences of two stacks as factors, and the stacks between the two."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from benchharness.bisect.factors import Differences, combined, differences
from benchharness.bisect.order import Declared
from benchharness.errors import UsageError
from benchharness.records import Attestation, Model, ProcessReport, Source, Stack

GOOD = Stack(
    "good",
    "sglang",
    source=Source(repo="/clone", commit="aaa", diff_sha256="d1", folder="/one"),
    packages={"sgl-kernel": "0.3.19", "torch": "2.9.0"},
    env={"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring"},
    model=Model(path="/m", tp=8),
    args={"attention": "prefill", "graphs": True},
    find_links=("/wheels",),
)
BAD = Stack(
    "bad",
    "sglang",
    source=Source(repo="/clone", commit="bbb", folder="/two"),
    python="3.12",
    packages={"sgl_kernel": "0.3.20", "torch": "2.9.0"},
    env={"NCCL_PROTO": "LL128", "NCCL_ALGO": "Ring", "CUDA_X": "1"},
    model=Model(path="/m", tp=4),
    args={"attention": "decode"},
    find_links=("/more", "/wheels"),
)


def names(found: Differences) -> list[str]:
    return [factor.name for factor in found.factors]


def attested(
    packages: dict[str, str], *envs: dict[str, str], machine: dict[str, object] | None = None, **told: object
) -> Attestation:
    processes = tuple(ProcessReport(pid, env=env) for pid, env in enumerate(envs))
    return Attestation(packages=packages, processes=processes, settings=told, machine=machine or {})


def test_one_factor_for_each_declared_difference() -> None:
    found = differences(GOOD, BAD)
    whole = ["source", "python", "model"]
    assert names(found) == [
        *whole,
        "packages.sgl-kernel",
        "env.CUDA_X",
        "env.NCCL_PROTO",
        "args.attention",
        "args.graphs",
    ]
    told = {factor.name: factor.sentence for factor in found.factors}
    assert told["model"] == "model: tp 8 -> tp 4"
    assert told["packages.sgl-kernel"] == "packages.sgl-kernel: 0.3.19 -> 0.3.20"
    assert told["env.CUDA_X"] == "env.CUDA_X: not set -> 1"
    assert told["args.graphs"] == "args.graphs: true -> not set"


def test_ends_are_the_two_stacks() -> None:
    found = differences(GOOD, BAD)
    places = {"find_links": ("/wheels", "/more")}
    first = combined(GOOD, BAD, found, frozenset())
    last = combined(GOOD, BAD, found, frozenset(range(len(found.factors))))
    assert first == replace(GOOD, packages={"torch": "2.9.0", "sgl-kernel": "0.3.19"}, **places)
    assert last == replace(BAD, packages={"torch": "2.9.0", "sgl-kernel": "0.3.20"}, **places)
    assert last.source.diff_sha256 == "" and first.source.diff_sha256 == "d1"


def test_every_combination_has_each_factor_from_its_side() -> None:
    found = differences(GOOD, BAD)
    seen = set()
    for size in range(len(found.factors) + 1):
        for members in itertools.combinations(range(len(found.factors)), size):
            stack = combined(GOOD, BAD, found, frozenset(members))
            taken = {found.factors[at].name for at in members}
            assert stack.source == (BAD if "source" in taken else GOOD).source
            assert stack.model.tp == (4 if "model" in taken else 8)
            assert stack.packages["sgl-kernel"] == ("0.3.20" if "packages.sgl-kernel" in taken else "0.3.19")
            assert ("CUDA_X" in stack.env) == ("env.CUDA_X" in taken)
            assert ("graphs" in stack.args) == ("args.graphs" not in taken)
            seen.add(stack.name)
    assert len(seen) == 2 ** len(found.factors)


def test_names_tell_the_shorter_way() -> None:
    found = differences(GOOD, BAD)
    everything = frozenset(range(len(found.factors)))
    assert combined(GOOD, BAD, found, frozenset({0, 5})).name == "good + source + env.NCCL_PROTO"
    assert combined(GOOD, BAD, found, everything - {6}).name == "bad - args.attention"
    with pytest.raises(UsageError, match="8 factors, numbered from 0, but 8"):
        combined(GOOD, BAD, found, frozenset({8}))


def test_what_nobody_declared_becomes_a_factor() -> None:
    stack = Stack("a", "sglang", args={"x": 1})
    found = differences(
        stack,
        replace(stack, name="b"),
        attested({"Flash_Infer": "0.5.2", "gone": "1", "same": "2"}, {"NCCL_NVLS": "0"}, {"NCCL_NVLS": "0"}),
        attested({"flash-infer": "0.5.3", "same": "2"}, {"OMP_NUM_THREADS": "4"}),
    )
    assert [(factor.name, factor.declared) for factor in found.factors] == [
        ("packages.flash-infer", False),
        ("packages.gone", False),
        ("env.NCCL_NVLS", False),
        ("env.OMP_NUM_THREADS", False),
    ]
    assert found.factors[1].sentence == "packages.gone: 1 -> left out (nobody declared it)"
    mixed = combined(stack, stack, found, frozenset({1, 3}))
    assert mixed.packages == {"flash-infer": "0.5.2", "gone": None}
    assert mixed.env == {"NCCL_NVLS": "0", "OMP_NUM_THREADS": "4"}


def test_one_side_declares_what_the_other_really_had() -> None:
    good = Stack("a", "sglang", packages={"k": "1"}, env={"NCCL_ALGO": "Ring"})
    bad = Stack("b", "sglang", packages={"same": "3"}, env={})
    found = differences(
        good,
        bad,
        attested({"k": "1", "same": "3"}, {"NCCL_ALGO": "Ring"}),
        attested({"k": "2", "same": "3"}, {"NCCL_ALGO": "Ring"}),
    )
    (factor,) = found.factors
    assert (factor.good, factor.bad) == ({"packages.k": "1"}, {"packages.k": "2"})
    assert factor.declared
    # Declared on one side and alike on both: a mixture must not lose it.
    assert found.fixed == {"packages.same": "3", "env.NCCL_ALGO": "Ring"}
    stack = combined(good, bad, found, frozenset({0}))
    assert (stack.packages, stack.env) == ({"k": "2", "same": "3"}, {"NCCL_ALGO": "Ring"})


def test_without_attestations_an_open_side_is_left_to_the_engine() -> None:
    (factor,) = differences(Stack("a", "sglang", packages={"k": "1"}), Stack("b", "sglang")).factors
    assert factor.bad == {"packages.k": Declared.NOT}
    assert factor.sentence == "packages.k: 1 -> not set"


@pytest.mark.parametrize("swapped", [False, True])
def test_a_local_part_that_is_left_open_is_no_difference(swapped: bool) -> None:
    stacks = [Stack("a", "sglang", packages={"torch": "2.9.0"}), Stack("b", "sglang")]
    one, other = stacks[::-1] if swapped else stacks
    found = differences(one, other, attested({"torch": "2.9.0+cpu"}), attested({"torch": "2.9.0+cpu"}))
    assert found.factors == ()
    assert found.fixed == {"packages.torch": "2.9.0"}


def test_where_the_code_lies_is_no_difference() -> None:
    moved = replace(GOOD, name="b", source=replace(GOOD.source, folder="/elsewhere"))
    assert differences(GOOD, moved).factors == ()


def test_the_engines_own_package_goes_with_the_source() -> None:
    one = Stack("a", "sglang", source=Source(release="0.5.11"))
    other = Stack("b", "sglang", source=Source(release="0.5.12"))
    found = differences(one, other, attested({"sglang": "0.5.11"}), attested({"sglang": "0.5.12"}))
    assert names(found) == ["source"]
    assert found.factors[0].sentence == "source: release 0.5.11 -> release 0.5.12"


def test_what_cannot_be_switched_is_told() -> None:
    stack = Stack("a", "sglang", packages={"torch": "host"})
    found = differences(
        stack,
        replace(stack, name="b"),
        attested(
            {"torch": "2.9.0"},
            {"HF_TOKEN": "***", "NCCL_X": "1"},
            {"HF_TOKEN": "***", "NCCL_X": "2"},
            machine={"driver": "570", "gpus": [{"uuid": "u1", "power_w": 700}]},
            attention_backend="fa3",
        ),
        attested(
            {"torch": "2.10.0"},
            {"NCCL_X": "1"},
            machine={"driver": "580", "gpus": [{"uuid": "u2", "power_w": 700}]},
            attention_backend="flashinfer",
        ),
    )
    assert found.factors == ()
    told = "\n".join(found.unswitchable)
    assert "packages.torch is the host's own and was 2.9.0 there, 2.10.0 here" in told
    assert "env.HF_TOKEN differs" in told and "env.NCCL_X differs" in told
    assert "the engine's attention_backend was fa3 there, flashinfer here" in told
    assert "the machine's driver was 570 there, 580 here: the harness can't switch it" in told
    assert len(found.unswitchable) == 5


def test_variables_of_a_single_start_are_no_difference() -> None:
    stack = Stack("a", "sglang")
    one, other = ({"BENCHHARNESS_X": at, "TORCHELASTIC_RUN_ID": at} for at in "12")
    assert differences(stack, stack, attested({}, one), attested({}, other)) == Differences(())


def test_values_of_another_kind_differ() -> None:
    found = differences(Stack("a", "x", args={"n": 1}), Stack("b", "x", args={"n": True}))
    assert names(found) == ["args.n"]


def test_two_engines_have_nothing_between_them() -> None:
    with pytest.raises(UsageError, match="run sglang and vllm"):
        differences(Stack("a", "sglang"), Stack("b", "vllm"))

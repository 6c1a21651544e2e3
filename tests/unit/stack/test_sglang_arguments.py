"""Declared arguments to SGLang's command line, in the spelling of the release that is installed."""

from __future__ import annotations

import pytest

from benchharness.errors import UsageError
from benchharness.stack.engines.sglang_arguments import RENAMED, command_line
from benchharness.stack.engines.sglang_options import Option


def options(*found: Option) -> dict[str, Option]:
    return {name: option for option in found for name in option.names}


NEW = options(
    Option(("--speculative-num-steps",), "value"),
    Option(("--speculative-algorithm",), "value", ("EAGLE", "EAGLE3", "NGRAM")),
    Option(("--tensor-parallel-size", "--tp-size"), "value"),
    Option(("--cuda-graph-bs-decode",), "list"),
    Option(("--disable-cuda-graph",), "switch"),
    Option(("--enable-lora",), "both-ways"),
    Option(("--json-model-override-args",), "value"),
    Option(("--hybrid-kvcache-ratio",), "withdrawn", None, "Use --swa-full-tokens-ratio instead."),
    Option(("--random-seed",), "value"),
)
OLD = options(Option(("--cuda-graph-bs",), "list"))


def line(
    declared: dict[str, object], chosen: dict[str, object] | None = None, known: object = NEW
) -> list[str]:
    return command_line(declared, chosen or {}, known, "stack s: SGLang 1.2.3")  # type: ignore[arg-type]


def test_flags_are_written_as_sglang_writes_them() -> None:
    assert line({"speculative_num_steps": 3}) == ["--speculative-num-steps", "3"]
    assert line({"speculative-num-steps": 3}) == ["--speculative-num-steps", "3"]


def test_switches_are_given_or_left_out() -> None:
    assert line({"disable-cuda-graph": True}) == ["--disable-cuda-graph"]
    assert line({"disable-cuda-graph": False}) == []
    assert line({"enable-lora": True}) == ["--enable-lora"]
    assert line({"enable-lora": False}) == ["--no-enable-lora"]


def test_a_switch_takes_no_value() -> None:
    with pytest.raises(UsageError, match="is a switch, but"):
        line({"disable-cuda-graph": 3})


def test_lists_and_mappings() -> None:
    assert line({"cuda-graph-bs-decode": [1, 2, 4]}) == ["--cuda-graph-bs-decode", "1", "2", "4"]
    assert line({"json-model-override-args": {"a": 1}}) == ["--json-model-override-args", '{"a": 1}']
    with pytest.raises(UsageError, match="takes one value"):
        line({"random-seed": [1, 2]})


def test_a_value_that_looks_like_a_flag_stays_a_value() -> None:
    assert line({"random-seed": -1}) == ["--random-seed=-1"]


def test_a_renamed_flag_goes_out_in_the_installed_spelling() -> None:
    assert line({"cuda-graph-bs": [1, 2]}) == ["--cuda-graph-bs-decode", "1", "2"]
    assert line({"cuda-graph-bs-decode": [1, 2]}, known=OLD) == ["--cuda-graph-bs", "1", "2"]


def test_no_name_has_two_meanings() -> None:
    names = [name for group in RENAMED for name in group]
    assert len(names) == len(set(names))


def test_a_flag_that_the_release_lacks_is_refused_by_name() -> None:
    with pytest.raises(UsageError) as refused:
        line({"speculative-num-step": 3})
    assert "SGLang 1.2.3 has no argument --speculative-num-step" in refused.value.message
    assert "did you mean 'speculative-num-steps'?" in refused.value.message
    assert "choose a release that has it" in refused.value.advice


def test_a_flag_that_does_nothing_any_more_is_refused_with_what_sglang_says() -> None:
    with pytest.raises(UsageError, match="ignores --hybrid-kvcache-ratio; it says: Use --swa-full"):
        line({"hybrid-kvcache-ratio": 0.5})


def test_a_value_that_the_release_does_not_take_is_refused() -> None:
    with pytest.raises(UsageError, match=r"doesn't take 'EAGEL'.*did you mean 'EAGLE'"):
        line({"speculative-algorithm": "EAGEL"})


def test_what_the_harness_would_like_gives_way() -> None:
    chosen = {"random-seed": 1, "tp-size": 2, "no-such-flag": 5}
    assert line({}, chosen) == ["--random-seed", "1", "--tp-size", "2"]
    assert line({"random-seed": 7, "tensor-parallel-size": 4}, chosen) == [
        *("--random-seed", "7"),
        *("--tensor-parallel-size", "4"),
    ]

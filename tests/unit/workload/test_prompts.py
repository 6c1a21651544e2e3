"""Prompts: exact lengths, no shared beginnings unless asked for, the same on every machine; T6."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sse_server import Connection, SseServer, sglang_event

from benchharness import validity
from benchharness.errors import UsageError
from benchharness.records import Endpoint, Trial, Workload
from benchharness.workload import client
from benchharness.workload.dialects import dialect
from benchharness.workload.prompts import Prompt, check, for_workload, prompt_ids

POOL = tuple(range(1000, 1600))
ENDPOINT = Endpoint("http://127.0.0.1:1", "sglang", token_pool=POOL, bos_tokens=1, context_limit=4096)
WORK = Workload(64, 16, 6, warmup_requests=2)


def common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Length of the beginning that two prompts share."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def test_lengths_are_exact_with_what_the_engine_adds() -> None:
    for length in (2, 3, 128, 2048):
        ids = prompt_ids(ENDPOINT, length, seed=1, salt="s", request=0)
        assert len(ids) == length - 1
        assert set(ids) <= set(POOL)
    with pytest.raises(UsageError, match="leaves none to send"):
        prompt_ids(ENDPOINT, 1, seed=1, salt="s", request=0)
    with pytest.raises(UsageError, match="no tokens to make prompts of"):
        prompt_ids(replace(ENDPOINT, token_pool=()), 8, seed=1, salt="s", request=0)


def test_nothing_is_shared_between_seeds_salts_contexts_and_requests() -> None:
    prompts = [
        prompt_ids(ENDPOINT, context, seed=seed, salt=salt, request=request)
        for context in (128, 2048)
        for seed in (1, 2)
        for salt in ("a", "b")
        for request in range(20)
    ]
    shared = [common(one, other) for place, one in enumerate(prompts) for other in prompts[:place]]
    assert max(shared) <= 3, "no more than chance gives"


def test_prompts_never_change() -> None:
    ids = prompt_ids(ENDPOINT, 6, seed=1, salt="salt", request=0)
    assert ids == prompt_ids(ENDPOINT, 6, seed=1, salt="salt", request=0) == (1571, 1283, 1513, 1097, 1463)


def prompts_of(workload: Workload, endpoint: Endpoint = ENDPOINT, salt: str = "s") -> list[Prompt]:
    make = for_workload(endpoint, workload, seed=3, salt=salt)
    count = workload.requests + (workload.warmup_requests or 0)
    return [make(index) for index in range(count)]  # type: ignore[misc]


def test_a_shared_prefix_is_shared_to_its_length_and_no_further() -> None:
    prompts = prompts_of(replace(WORK, shared_prefix_tokens=40))
    assert {len(prompt.ids) for prompt in prompts} == {63}
    for place, one in enumerate(prompts):
        for other in prompts[:place]:
            assert 40 <= common(one.ids, other.ids) <= 43
    other_run = prompts_of(replace(WORK, shared_prefix_tokens=40), salt="t")
    assert common(prompts[0].ids, other_run[0].ids) <= 3
    with pytest.raises(UsageError, match="leaves nothing"):
        prompts_of(replace(WORK, shared_prefix_tokens=63))


def test_turns_begin_with_what_was_said_before() -> None:
    prompts = prompts_of(replace(WORK, turns=3))
    assert [prompt.after for prompt in prompts] == [None, None, None, 2, 3, None, 5, 6]
    first, second, third = (prompts[place].ids for place in (2, 3, 4))
    assert [len(ids) for ids in (first, second, third)] == [63, 63 + 16 + 64, 63 + 2 * (16 + 64)]
    assert second[:63] == first
    assert third[: len(second)] == second
    assert common(first, prompts[5].ids) <= 3, "another conversation"
    with pytest.raises(UsageError, match="more than the engine's 200"):
        prompts_of(replace(WORK, turns=3), replace(ENDPOINT, context_limit=200))


def test_a_trace_file_sets_the_lengths(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("at_s,input_tokens,output_tokens\n0,10,5\n1,20,6\n")
    workload = Workload(64, 16, 2, warmup_requests=1, trace_file=str(path))
    assert [(len(p.ids), p.tokens, p.output_tokens) for p in prompts_of(workload)] == [
        (63, 64, None),
        (9, 10, 5),
        (19, 20, 6),
    ]


SHAREGPT = [
    {"id": "1", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"},
                                  {"from": "human", "value": "Bye"}]},
    {"id": "2", "conversations": [{"from": "gpt", "value": "only me"}]},
]  # fmt: skip


def test_prompts_from_files_are_salted(tmp_path: Path) -> None:
    lines = tmp_path / "p.jsonl"
    lines.write_text('{"prompt": "One"}\n\n{"text": "Two", "output_tokens": 9}\n')
    workload = Workload(64, 16, 4, warmup_requests=0, prompts_file=str(lines))
    prompts = prompts_of(workload)
    assert sorted(prompt.text[11:] for prompt in prompts) == ["One", "One", "Two", "Two"]
    assert len({prompt.text for prompt in prompts}) == 4, "each begins with a word of its own"
    assert {prompt.text for prompt in prompts}.isdisjoint(
        prompt.text for prompt in prompts_of(workload, salt="t")
    )
    assert {prompt.output_tokens for prompt in prompts} == {None, 9}
    body = json.loads(dialect("openai-completions").body(prompts[0], 5, {}))
    assert body["prompt"] == prompts[0].text


def test_sharegpt_files_and_their_turns(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(SHAREGPT))
    workload = Workload(64, 16, 2, warmup_requests=0, prompts_file=str(path), turns=2)
    first, second = prompts_of(workload)
    assert [role for role, _ in first.messages] == ["user"]
    assert [role for role, _ in second.messages] == ["user", "assistant", "user"]
    assert second.messages[0] == first.messages[0], "the same beginning, so that a cache can help"
    body = json.loads(dialect("openai-chat").body(second, 5, {"model": "m"}))
    assert [message["content"] for message in body["messages"]][1:] == ["Hello", "Bye"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no prompts"),
        ("{", "line 1: not JSON"),
        ("7", "not a JSON object"),
        ("[", "is not JSON"),
        ('{"question": "x"}', "no prompt, text, messages or conversations"),
        ('{"prompt": "x", "output_tokens": 0}', "output_tokens is 0"),
        ('{"messages": [{"role": "user"}]}', "a message has no"),
        ('[{"conversations": [{"from": "gpt", "value": "x"}]}]', "has no prompts"),
    ],
)
def test_broken_prompt_files_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "p"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        prompts_of(replace(WORK, prompts_file=str(path)))
    with pytest.raises(UsageError, match="can't read"):
        prompts_of(replace(WORK, prompts_file=str(tmp_path / "missing")))


TRACE = "at_s,input_tokens,output_tokens\n1,20,3\n2,8,3\n"


def test_a_workload_that_can_be_driven_passes_the_check(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text(TRACE)
    (tmp_path / "prompts").write_text('{"prompt": "hello"}\n')
    traced = replace(WORK, concurrency=None, trace_file=str(tmp_path / "trace"), requests=2)
    texts = replace(WORK, prompts_file=str(tmp_path / "prompts"), shared_prefix_tokens=0)
    for workload in (WORK, traced, texts, replace(WORK, concurrency=2, requests=4, turns=3)):
        check(workload)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompts_file": "missing"}, "can't read the prompts file"),
        ({"prompts_file": "empty"}, "has no prompts"),
        ({"prompts_file": "broken"}, "line 1"),
        ({"trace_file": "missing"}, "can't read the trace file"),
        ({"trace_file": "trace", "requests": 3}, "has 2 requests, 3 are wanted"),
        ({"trace_file": "columns"}, "no known columns among a, b"),
        ({"trace_file": "trace", "shared_prefix_tokens": 10}, "of the 8 tokens of request 2"),
        ({"trace_file": "trace", "concurrency": 2}, "names concurrency and trace_file"),
        ({"prompts_file": "texts", "shared_prefix_tokens": 4}, "no shared_prefix_tokens"),
        ({"prompts_file": "texts", "trace_file": "trace"}, "no trace_file"),
        ({"shared_prefix_tokens": 64}, "leaves nothing of a context of 64"),
        ({"turns": 0}, "at least one turn"),
        ({"concurrency": 3}, "can't keep 3 streams open; ask for at least 3 requests"),
        ({"concurrency": 2, "turns": 2}, "2 a conversation.*at least 3 requests"),
        ({"concurrency": None, "rate_rps": 0.0}, "rate_rps"),
    ],
)
def test_what_would_fail_later_is_refused_before_an_engine_starts(
    tmp_path: Path, changes: dict, said: str
) -> None:
    files = {
        "trace": TRACE,
        "columns": "a,b\n1,2\n",
        "empty": "\n",
        "broken": "{\n",
        "texts": '{"prompt": "a"}',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    placed = {
        key: str(tmp_path / value) if key.endswith("_file") else value for key, value in changes.items()
    }
    workload = replace(WORK, **({"context_tokens": 64, "requests": 2} | placed))
    with pytest.raises(UsageError, match=said) as error:
        check(workload)
    assert error.value.advice


def test_bodies_name_what_the_engines_expect() -> None:
    prompt = Prompt(ids=(5, 6), tokens=2)
    llama = json.loads(dialect("llamacpp").body(prompt, 7, {"cache_prompt": True}))
    assert (llama["prompt"], llama["n_predict"], llama["cache_prompt"], llama["stream"]) == (
        [5, 6],
        7,
        True,
        True,
    )
    assert (llama["ignore_eos"], llama["timings_per_token"], llama["temperature"]) == (True, True, 0)
    sglang = json.loads(dialect("sglang").body(prompt, 7, {"sampling_params": {"top_k": 1}}))
    assert sglang["input_ids"] == [5, 6]
    assert sglang["sampling_params"] == {
        "max_new_tokens": 7,
        "temperature": 0,
        "ignore_eos": True,
        "top_k": 1,
    }
    openai = json.loads(dialect("openai-completions").body(prompt, 7, {"model": "m"}))
    assert (openai["prompt"], openai["model"], openai["max_tokens"]) == ([5, 6], "m", 7)
    assert openai["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    with pytest.raises(UsageError, match="can't send token ids"):
        dialect("openai-chat").body(prompt, 7, {})


# --- T6 ---


class PrefixCache:
    """A server that keeps every prompt and says how much of a new one it had."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, ...]] = []

    def __call__(self, connection: Connection) -> None:
        ids = tuple(connection.body["input_ids"])
        cached = max((common(ids, other) for other in self.kept), default=0)
        self.kept.append(ids)
        more = {"prompt_tokens": len(ids) + 1, "cached_tokens": cached}
        events = [sglang_event(count, last=count == 16, **more) for count in range(1, 17)]
        connection.stream([*events, b"data: [DONE]\n\n"])


def cache_findings(runs: list[tuple[str, int]]) -> list[bool]:
    """For each (salt, context), driven in this order on one server: whether a cache hit was found."""
    found = []
    with SseServer(PrefixCache()) as server:
        endpoint = replace(ENDPOINT, base_url=server.url)
        for salt, context in runs:
            workload = replace(WORK, context_tokens=context)
            prompts = for_workload(endpoint, workload, seed=3, salt=salt)
            traces = client.drive(endpoint, workload, prompts=prompts)
            assert all(trace.failure is None for trace in traces)
            findings = validity.findings(Trial(0, 0, workload, traces, ()))
            found.append(any(one.check == "no-prefix-hits" and one.grave for one in findings))
    return found


def test_a_second_run_on_one_seed_is_invalid_and_a_salted_one_is_not() -> None:
    assert cache_findings([("a", 64), ("a", 64), ("b", 64)]) == [False, True, False]


def test_the_order_of_cells_does_not_matter() -> None:
    cells = [("a", 64), ("a", 128), ("a", 256)]
    assert cache_findings(cells) == cache_findings(cells[::-1]) == [False] * 3

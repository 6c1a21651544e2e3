"""The other dialects: real logs, and forms that older and newer releases print."""

from __future__ import annotations

from pathlib import Path

import pytest
from loglines import lines, rows, summarised

LOGS = Path(__file__).parents[2] / "data" / "logs"
VLLM = "(APIServer pid=1) INFO 11-29 12:16:54 [loggers.py:335] "
SPEED = "(    8.95 ms per token,   111.71 tokens per second)"
PROFILE = """
  Draft generate:     0.45 ms/cyc  (  1.5%)
  Target verify:     28.96 ms/cyc  ( 97.0%)
  Draft extend:       0.44 ms/cyc  (  1.5%)
  TOTAL:             29.85 ms/cyc  (100.0%)
"""


def test_vllm_windows_say_why_they_are_no_speed() -> None:
    found = summarised((LOGS / "vllm_0.32_ngram.log").read_bytes())
    assert found.engine == "vllm"
    assert found.damaged == 0
    (group,) = found.groups.values()
    assert (group.rank, group.count, group.kept) == ("engine 000", 3, 0)
    assert group.accept_len.mean == pytest.approx(3.88)
    assert group.reasons["idle time in it"] == 3
    assert found.startup.facts["version"] == "0.32.0"
    assert found.startup.facts["enforce_eager"] == "True"


def test_vllm_counts_what_newer_releases_add() -> None:
    text = VLLM + (
        "2 Engines Aggregated: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, "
        "Running: 3 reqs, Waiting: 4 reqs, Deferred: 5 reqs, Preemptions: 6, GPU KV cache usage: 7.0%, "
        "Prefix cache hit rate: 8.0%, MM cache hit rate: 9.0%"
    )
    (row,) = rows(text)
    wanted = {"engines": "2", "deferred": "5", "preemptions": "6", "kv_usage": "7.0%", "mm_hit": "9.0%"}
    assert {key: row.fields[key] for key in wanted} == wanted


def test_vllm_iterations_with_an_engine_and_a_cache() -> None:
    text = VLLM + (
        "Engine 003: Iteration(7): 1 context requests, 9 context tokens, 2 generation requests, 3 generation "
        "tokens, iteration elapsed time: 10.91 ms, GPU KV cache usage: 4.1%"
    )
    (row,) = rows(text)
    wanted = {
        "engine_index": "003",
        "iter": "7",
        "ms": "10.91",
        "kv_usage": "4.1%",
        "dummy": False,
        "keep": False,
    }
    assert {key: row.fields[key] for key in wanted} == wanted


@pytest.mark.parametrize(
    "text",
    [
        VLLM + "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: tokens/s",
        VLLM + "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg gener",
        VLLM + "SpecDecoding metrics: Mean acceptance length: 4.05, Accepted throughput: 73",
        VLLM + "Iteration(7): 1 context requests, 9 context tokens, iteration elapsed time: 10.91 ms",
        "llama_print_timings:        eval time =   44120.43 ms /   668 ru",
        "llama_print_timings:        eval time =",
        "slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 acc",
        'I1218 03:35:37.688135 20559 x.cc:1205] {"Active Request Count":1,"Iteration Counter":0,"Timest',
        "iter = 3, global_rank = 0, rank = 0, host_step_time = ms, num_scheduled_requests: 16",
        "node-a:2001:2101 [2] NCCL INFO ",
        "  Target verify:     ms/cyc  ( 97.0%)",
    ],
)
def test_damaged_lines_are_refused(text: str) -> None:
    assert [row.damaged for row in rows(text)] == [True]


def test_llama_cpp_answers() -> None:
    found = summarised((LOGS / "llamacpp_b11549.log").read_bytes())
    (group,) = found.groups.values()
    assert (found.engine, group.rank, group.what, group.count, found.damaged) == (
        "llamacpp",
        "slot 0",
        "answer",
        4,
        0,
    )
    assert group.accept_len.mean == pytest.approx((2.48 + 3 * 2.70) / 4)
    assert group.tok_s.median == pytest.approx((11.40 + 109.98) / 2)


def test_llama_cpp_at_verbosity_5() -> None:
    read = rows((LOGS / "llamacpp_b11549_verbosity5.log.gz").read_bytes())
    kinds = {
        kind: sum(row.kind == kind for row in read)
        for kind in ("draft_accepted", "draft_generated", "statistics")
    }
    assert kinds == {"draft_accepted": 138, "draft_generated": 141, "statistics": 3}
    first = next(row for row in read if row.kind == "draft_accepted")
    assert [first.fields[key] for key in ("timestamp", "slot", "task", "accepted", "generated")] == [
        "0.01.161.707", "0", "0", "3", "4",
    ]  # fmt: skip
    assert not any(row.damaged for row in read)


def test_llama_cpp_on_the_cpu_is_named() -> None:
    """T18: the whole model on the CPU, by accident."""
    (said,) = summarised((LOGS / "llamacpp_b11549_verbosity5.log.gz").read_bytes()).startup.hazards()
    assert "no GPU is used" in said
    (partly,) = summarised("load_tensors: offloaded 0/33 layers to GPU\n").startup.hazards()
    assert "0 of 33 layers" in partly


@pytest.mark.parametrize(
    "text",
    [
        f"       eval time =    2291.72 ms /   256 tokens {SPEED}",
        f"slot print_timing: id  1 | task 0 |        eval time =    2291.72 ms /   256 tokens {SPEED}",
        f"llama_perf_context_print:        eval time =    2291.72 ms /   256 runs   {SPEED}",
        f'INFO [ x] generation eval time =    2291.72 ms /   256 runs   {SPEED} | tid="1" id_slot=0',
        f'{{"tid":"1","msg":"generation eval time =    2291.72 ms /   256 runs   {SPEED}","id_slot":0}}',
    ],
)  # fmt: skip
def test_llama_cpp_times_of_all_ages(text: str) -> None:
    (row,) = rows(text)
    assert (row.engine, row.kind) == ("llamacpp", "eval")
    assert [row.fields[key] for key in ("eval_ms", "ms_per_token", "tps")] == ["2291.72", "8.95", "111.71"]


def test_llama_cpp_statistics_of_all_ages() -> None:
    old, longer = rows(
        lines(
            [
                "statistics ngram_simple: #calls = 5, #gen drafts = 4, #acc drafts = 3, #gen tokens = 2, "
                "#acc tokens = 1",
                "statistics mtp: #calls(b,g,a) = 1 2 3, #gen drafts = 4, #acc drafts = 3, #gen tokens = 2, "
                "#acc tokens = 1, dur(b,g,a,s,sf,sd) = 0.1, 0.2, 0.3, 0.4, 0.5, 0.6 ms",
            ]
        )
    )
    assert (old.fields["calls"], old.fields["dur_ms"]) == ("5", None)
    assert longer.fields["dur_ms"] == "0.1, 0.2, 0.3, 0.4, 0.5, 0.6"


def test_tensorrt_llm_rows_behind_its_newer_prefix() -> None:
    text = (
        "0: [08/04/2026-19:08:13] [TRT-LLM] [I] [_torch][RANK 0] iter = 5, global_rank = 0, rank = 0, "
        "num_scheduled_requests = 3, kv_cache_util = 0.125, currank_total_requests = 1/8, host_step_time = "
        "7.25ms, prev_device_step_time = N/Ams, timestamp = 2026-08-04 19:08:13, "
        "states = {'num_ctx_requests': 1, 'num_ctx_tokens': 9, 'num_generation_tokens': 6, "
        "'cached_kv_tokens': 63821}"
    )
    (row,) = rows(text)
    wanted = {
        "iter": "5", "scheduled": "3", "host_ms": "7.25", "prev_device_ms": None, "kv_cache_util": "0.125",
        "timestamp": "2026-08-04 19:08:13", "cached_kv_tokens": "63821", "keep": False,
    }  # fmt: skip
    assert {key: row.fields[key] for key in wanted} == wanted


def test_tensorrt_llm_json_over_several_lines() -> None:
    text = (
        'I1218 03:35:37.688135 20559 x.cc:1205] {"Active Request Count":1,\n"Iteration Counter":7,\n'
        '"Total Context Tokens":2048,"Used KV cache blocks":1}\nother\n'
    )
    (row,) = rows(text)
    assert (row.number, row.fields["iter"], row.fields["ctx_tokens"]) == (1, "7", "2048")


def test_nccl_says_more_than_variables() -> None:
    version, comm = rows(
        lines(
            [
                "host:1:1 [0] NCCL INFO NCCL version 2.27.3+cuda12.9",
                "host:1:9 [3] NCCL INFO ncclCommInitRank comm 0x5 rank 3 nranks 8 cudaDev 3 - Init COMPLETE",
            ]
        )
    )
    assert (version.kind, version.fields["nccl"], version.fields["cuda"]) == ("nccl", "2.27.3", "12.9")
    assert (comm.fields["comm_rank"], comm.fields["nranks"]) == ("3", "8")


def test_a_hand_made_profile() -> None:
    read = rows(PROFILE)
    assert [(row.fields["phase"], row.fields["ms"], row.fields["percent"]) for row in read] == [
        ("draft", "0.45", "1.5"), ("verify", "28.96", "97.0"),
        ("draft_extend", "0.44", "1.5"), ("total", "29.85", "100.0"),
    ]  # fmt: skip
    assert {group.what for group in summarised(PROFILE).groups.values()} == {
        "draft a cycle", "verify a cycle", "draft_extend a cycle", "total a cycle",
    }  # fmt: skip


def test_profiles_of_other_hands() -> None:
    read = rows("[12:00:01 TP0] verify = 5.8 ms/step\nDraft  : 1.25 ms/iter\nTOTAL cycle: 7.1 ms per cycle\n")
    assert [(row.fields["phase"], row.fields["ms"]) for row in read] == [
        ("verify", "5.8"), ("draft", "1.25"), ("total", "7.1"),
    ]  # fmt: skip


def test_a_table_ends_where_it_ends() -> None:
    text = (
        "noise\n============ Serving Benchmark Result ============\nSuccessful requests:      3   \n"
        "Max reqeuest concurrency:   8\n-----Speculative Decoding-----\nAcceptance length:   2.5\n"
        "Per-position acceptance (%):\n  Position 0:    80.00\n"
        "==================================================\n[2026-11-29 12:00:00] "
        "Decode batch, #running-req: 1, #token: 1, token usage: 0.0, "
        "gen throughput (token/s): 1.0, #queue-req: 0\n"
    )
    table, window = rows(text)
    wanted = {
        "successful": "3",
        "failed": None,
        "max_concurrency": "8",
        "accept_len": "2.5",
        "position_0": "80.00",
    }
    assert {key: table.fields[key] for key in wanted} == wanted
    assert (table.number, window.kind, window.number) == (2, "decode", 10)


def test_engines_are_told_apart_in_one_log() -> None:
    text = lines(["node-a:1:1 [2] NCCL INFO NCCL_ALGO set by environment to Ring"] * 9) + PROFILE
    assert summarised(text).engine == "profile"
    assert summarised(text, "nccl").engine == "nccl"
    assert summarised("nothing\n").engine is None

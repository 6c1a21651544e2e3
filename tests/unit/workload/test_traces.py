"""From bytes to a trace: the recorded corpus, cut and damaged in every way, and what each dialect says."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sse_server import END, HEAD, answer, chunk, event, sglang_event, sglang_stream

from benchharness.records import Failure, RequestTrace
from benchharness.workload import clock, traces
from benchharness.workload.dialects import dialect
from benchharness.workload.traces import Sent, trace_of
from benchharness.workload.transport import Recording

CORPUS = Path(__file__).with_name("corpus")
FILES = {
    "llamacpp_completion": "llamacpp",
    "llamacpp_openai_completions": "openai-completions",
    "llamacpp_openai_chat": "openai-chat",
    "shape_sglang_0512_generate": "sglang",
    "shape_vllm_completions": "openai-completions",
}


def trace(pieces: list[bytes], name: str, stamps: list[int] | None = None, gaps: tuple = ()) -> RequestTrace:
    """The trace of a response that came in these pieces, all of it before the connection was closed."""
    recording = Recording("test", sent_ns=1, ended_ns=10**9)
    recording.reads = [
        ((), (stamps or range(10, 10**6))[number], piece) for number, piece in enumerate(pieces)
    ]
    recording.feed_http()
    recording.http.end_of_file()
    return trace_of(recording, dialect(name), Sent(0, False, 0), gaps)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False) if start < end]


def recorded(name: str) -> bytes:
    return (CORPUS / f"{name}.http").read_bytes()


def stream(*events: bytes) -> list[bytes]:
    return [HEAD, *(chunk(one) for one in events), END]


# --- the corpus ---


def test_llamacpp_counts_and_cycles() -> None:
    seen = trace([recorded("llamacpp_completion")], "llamacpp")
    assert (seen.failure, seen.output_tokens, seen.tokens_estimated, seen.tokens_mismatch) == (
        None,
        24,
        False,
        False,
    )
    assert seen.chunk_tokens == (1,) * 24, "each token is a chunk of its own"
    assert (seen.server_prompt_tokens, seen.cached_tokens) == (6, 0)
    cycles = len(set(seen.chunk_server_ms)) - 1  # the first token came from the prompt
    assert 0 < cycles < 23
    assert list(seen.chunk_server_ms) == sorted(seen.chunk_server_ms)
    assert seen.accepted_tokens is not None
    assert seen.accepted_tokens >= 24 - 1 - cycles


def test_llamacpp_through_its_openai_interfaces() -> None:
    """Only the last event has a count here; each token has a chunk of text, so nothing is in doubt."""
    for name in ("llamacpp_openai_completions", "llamacpp_openai_chat"):
        seen = trace([recorded(name)], FILES[name])
        assert (seen.failure, seen.output_tokens, seen.text_chunks) == (None, 6, 6)
        assert (seen.tokens_estimated, seen.tokens_mismatch) == (False, False)
        assert seen.drafted_tokens is not None


def test_sglang_and_vllm_shapes() -> None:
    sglang = trace([recorded("shape_sglang_0512_generate")], "sglang")
    assert (sglang.failure, sglang.output_tokens, sglang.chunk_tokens) == (None, 8, (1, 2, 2, 2, 1))
    assert (sglang.verify_cycles, sglang.drafted_tokens, sglang.accepted_tokens) == (4, 8, 4)
    vllm = trace([recorded("shape_vllm_completions")], "openai-completions")
    assert (vllm.failure, vllm.output_tokens, vllm.chunk_tokens) == (None, 6, (1, 2, 1, 2))
    assert (vllm.cached_tokens, vllm.tokens_mismatch, vllm.text_chunks) == (4, False, 4)


def test_a_refusal_is_told_in_the_servers_words() -> None:
    seen = trace([recorded("llamacpp_bad_prompt")], "llamacpp")
    assert seen.failure == Failure.HTTP_STATUS
    assert "HTTP 400: Prompt contains invalid tokens" in seen.failure_text


@pytest.mark.parametrize("name", FILES)
@given(places=st.lists(st.integers(0, 20_000), max_size=40))
@settings(max_examples=40)
def test_cuts_change_nothing_but_the_stamps(name: str, places: list[int]) -> None:
    whole, cut_up = trace([recorded(name)], FILES[name]), trace(cut(recorded(name), places), FILES[name])
    for attribute in ("failure", "output_tokens", "chunk_tokens", "text_chunks", "events", "accepted_tokens"):
        assert getattr(whole, attribute) == getattr(cut_up, attribute)
    assert list(cut_up.chunk_ns) == sorted(cut_up.chunk_ns)


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@settings(max_examples=60)
def test_damage_never_crashes_and_a_lost_end_is_seen(name: str, data: st.DataObject) -> None:
    raw = bytearray(recorded(name))
    until = data.draw(st.integers(0, len(raw) - 1))
    assert trace([bytes(raw[:until])], FILES[name]).failure is not None
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    trace(cut(bytes(raw), data.draw(st.lists(st.integers(0, 9999), max_size=5))), FILES[name])


@given(
    st.lists(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.text(max_size=5)
            | st.floats(allow_nan=False, allow_infinity=False),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "meta_info",
                            "usage",
                            "choices",
                            "timings",
                            "predicted_n",
                            "completion_tokens",
                            "finish_reason",
                            "text",
                            "content",
                            "delta",
                            "stop",
                            "error",
                            "tokens_predicted",
                            "predicted_ms",
                        ]
                    ),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        ),
        max_size=4,
    ),
    st.sampled_from(sorted(set(FILES.values()))),
)
def test_events_of_any_shape_never_crash(fields: list, name: str) -> None:
    assert trace(stream(*(event(one) for one in fields)), name).failure is not None or fields


# --- T4 and T5: counting ---


@pytest.mark.parametrize("a_chunk", [1, 2, 3, 8])
def test_tokens_are_counted_by_the_server_not_by_chunks(a_chunk: int) -> None:
    seen = trace(stream(*sglang_stream(48, a_chunk)), "sglang")
    assert (seen.output_tokens, seen.chunk_tokens) == (48, (a_chunk,) * (48 // a_chunk))
    assert not seen.tokens_mismatch


def openai(text: str | None, usage: int | None = None, reason: str | None = None) -> bytes:
    choices = [] if text is None else [{"index": 0, "text": text, "finish_reason": reason}]
    return event({"choices": choices, "usage": usage and {"completion_tokens": usage, "prompt_tokens": 3}})


def test_a_total_that_differs_from_the_chunks_wins_and_is_flagged() -> None:
    """887 chunks of text, 2048 tokens by the server's count."""
    chunks = [openai("w") for _ in range(886)]
    seen = trace(stream(*chunks, openai("w", reason="length"), openai(None, 2048)), "openai-completions")
    assert (seen.output_tokens, seen.text_chunks, seen.tokens_mismatch) == (2048, 887, True)
    assert not seen.tokens_estimated
    assert sum(seen.chunk_tokens) == 2048


def test_without_any_count_there_is_an_estimate_and_it_is_flagged() -> None:
    chunks = [openai("w") for _ in range(886)]
    seen = trace(stream(*chunks, openai("w", reason="length")), "openai-completions")
    assert (seen.failure, seen.output_tokens, seen.tokens_estimated) == (None, 887, True)


def test_counts_in_the_last_text_chunk_only_are_no_counts_of_chunks() -> None:
    events = [openai("a"), openai("b"), openai("c", 6, "length")]
    seen = trace(stream(*events), "openai-completions")
    assert (seen.output_tokens, seen.chunk_tokens, seen.tokens_mismatch) == (6, (2, 2, 2), True)


def test_tokens_of_a_last_chunk_without_text_came_with_it_where_every_chunk_counts() -> None:
    texts = [openai(text, total) for text, total in (("a", 2), ("b", 4), ("c", 6), ("d", 8))]
    events = [*texts, openai("", 10, "length"), openai(None, 10)]
    seen = trace(stream(*events), "openai-completions", [0, 10, 20, 30, 40, 50, 60, 70])
    assert (seen.chunk_tokens, seen.tokens_mismatch) == ((2, 2, 2, 2, 2), False)
    assert seen.chunk_ns == (10, 20, 30, 40, 50), "the last ones came with the final chunk"
    chat = [
        event({"choices": [{"delta": {"content": text}}], "usage": {"completion_tokens": total}})
        for text, total in (("a", 2), ("b", 4))
    ]
    final = {"choices": [{"delta": {}, "finish_reason": "length"}], "usage": {"completion_tokens": 6}}
    seen = trace(stream(*chat, event(final)), "openai-chat")
    assert (seen.chunk_tokens, seen.tokens_mismatch) == ((2, 2, 2), False)


def test_a_total_that_comes_with_the_end_alone_is_no_chunk() -> None:
    events = [openai("a"), openai("b"), openai("", 2, "length")]
    seen = trace(stream(*events), "openai-completions", [0, 10, 20, 30, 40])
    assert (seen.chunk_tokens, seen.chunk_ns, seen.tokens_mismatch) == ((1, 1), (10, 20), False)
    events = [openai("a", 1), openai("b"), openai("", 4, "length")]
    seen = trace(stream(*events), "openai-completions", [0, 10, 20, 30, 40])
    assert (seen.chunk_tokens, seen.chunk_ns) == ((2, 2), (10, 20)), "the server missed a chunk before"


def test_counts_that_fall_are_flagged() -> None:
    seen = trace(stream(sglang_event(4), sglang_event(2), sglang_event(6, last=True)), "sglang")
    assert (seen.output_tokens, seen.tokens_mismatch) == (6, True)


def test_server_time_is_nan_where_none_is_given() -> None:
    seen = trace(stream(*sglang_stream(4)), "sglang")
    assert all(math.isnan(ms) for ms in seen.chunk_server_ms)


# --- failures inside of the stream ---


@pytest.mark.parametrize(
    ("pieces", "failure", "text"),
    [
        (
            stream(sglang_event(1), event({"error": {"message": "CUDA out of memory"}})),
            Failure.ENGINE_ERROR,
            "CUDA out",
        ),
        (stream(sglang_event(1), b'error: {"message":"slot gone"}\n\n'), Failure.ENGINE_ERROR, "slot gone"),
        (stream(sglang_event(1), b"data: {broken\n\n"), Failure.MALFORMED, "not JSON"),
        (stream(sglang_event(1), b"data: 7\n\n"), Failure.MALFORMED, "not a JSON object"),
        (stream(event({"meta_info": {"completion_tokens": "x"}})), Failure.MALFORMED, "wrong kind"),
        (stream(sglang_event(1)), Failure.TRUNCATED, "without its final event"),
        (stream(b"data: [DONE]\n\n"), Failure.TRUNCATED, "without a single token"),
        (stream(), Failure.TRUNCATED, "without its final event"),
        ([HEAD, chunk(sglang_event(1))], Failure.TRUNCATED, "mid-stream"),
        ([HEAD[:40]], Failure.TRUNCATED, "headers"),
        ([], Failure.TRUNCATED, "headers"),
        ([b"220 smtp ready\r\n"], Failure.MALFORMED, "not HTTP"),
        ([HEAD, b"zz\r\n"], Failure.MALFORMED, "not HTTP"),
        ([answer("200 OK", b'{"error":"busy"}')], Failure.CONTENT_TYPE, "busy"),
        ([answer("200 OK", b"<html>", "text/html")], Failure.CONTENT_TYPE, "text/html in place of"),
        ([answer("204 No Content")], Failure.HTTP_STATUS, "HTTP 204"),
        ([answer("307 Temporary Redirect", more="Location: /v2\r\n")], Failure.REDIRECT, "HTTP 307 to /v2"),
        (
            [answer("503 Service Unavailable", b"overloaded", "text/plain")],
            Failure.HTTP_STATUS,
            "503: overloaded",
        ),
        ([answer("500 Oops", b"")], Failure.HTTP_STATUS, "(no body)"),
    ],
)
def test_what_does_not_count_says_why(pieces: list[bytes], failure: Failure, text: str) -> None:
    seen = trace(pieces, "sglang")
    assert seen.failure == failure
    assert text in seen.failure_text
    assert "\n" not in seen.failure_text


def test_an_aborted_answer_fails() -> None:
    last = event(
        {
            "text": "",
            "meta_info": {"completion_tokens": 1, "finish_reason": {"type": "abort", "message": "bye"}},
        }
    )
    seen = trace(stream(sglang_event(1), last), "sglang")
    assert (seen.failure, seen.failure_text) == (Failure.ENGINE_ERROR, "aborted by the engine: bye")


def test_an_event_beyond_the_limit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces.SseParser.__init__, "__defaults__", (1000,))
    seen = trace(stream(sglang_event(1), sglang_event(2, "w" * 2000, last=True)), "sglang")
    assert seen.failure == Failure.TOO_LARGE


# --- stamps ---


def test_an_event_has_the_stamp_of_the_read_that_completed_it() -> None:
    first, second, last = sglang_event(1), sglang_event(2), sglang_event(3, last=True)
    body = HEAD + chunk(first) + chunk(second) + chunk(last) + END
    inside = len(HEAD) + len(chunk(first)) + 20
    seen = trace([body[:inside], body[inside : inside + 5], body[inside + 5 :]], "sglang", [100, 200, 300])
    assert seen.chunk_ns == (100, 300, 300)
    assert (seen.reads, seen.events, seen.crowded_reads, seen.unstamped_reads) == (3, 3, 1, 3)


def test_a_clock_that_moved_spoils_kernel_stamps_only() -> None:
    def seen(stamped: bool, shift_ns: int) -> RequestTrace:
        recording = Recording("test", sent_ns=1, ended_ns=10)
        recording.offset_start = clock.Offset(0, 100)
        recording.offset_end = clock.Offset(shift_ns, 100)
        stamp = [(1, 35, (1).to_bytes(8, "little") + (5).to_bytes(8, "little"))] if stamped else []
        recording.reads = [(stamp, 2_000_000_000, b"".join(stream(*sglang_stream(2))))]
        return trace_of(recording, dialect("sglang"), Sent(0, False, 0))

    assert seen(True, 10_000_000).failure == Failure.CLOCK
    assert "moved by 10.000 ms" in seen(True, 10_000_000).failure_text
    assert seen(True, -10_000_000).failure == Failure.CLOCK
    assert seen(True, 20_000).failure is None
    assert seen(False, 10_000_000).failure is None
    assert seen(True, 0).chunk_ns == (1_000_000_005,) * 2
    assert seen(True, 0).read_delay_max_ns == 999_999_995


def test_late_reads_are_those_whose_stamps_suffer() -> None:
    """With kernel stamps a read of one event is right however late it comes; one of several is not."""

    def late(events: int, delay_ns: int, gaps: tuple = ()) -> int:
        recording = Recording("test", sent_ns=1, ended_ns=10)
        stamp = [(1, 35, (1).to_bytes(8, "little") + (0).to_bytes(8, "little"))]
        head = (stamp, 1_000_000_000, HEAD)
        body = b"".join(chunk(one) for one in sglang_stream(events))
        recording.reads = [head, (stamp, 1_000_000_000 + delay_ns, body + END)]
        return trace_of(recording, dialect("sglang"), Sent(0, False, 0), gaps).late_reads

    assert late(1, 50_000_000) == 0
    assert late(3, 50_000_000) == 1
    assert late(3, 100_000) == 0
    assert late(3, 100_000, ((999_000_000, 1_000_090_000),)) == 1
    assert late(3, 100_000, ((100, 900_000_000),)) == 0
    assert late(1, 100_000, ((999_000_000, 1_000_090_000),)) == 0

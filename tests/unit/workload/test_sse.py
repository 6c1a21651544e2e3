"""Server-sent events: whatever the cuts, the same events; nothing crashes; memory is bounded."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchharness.workload.sse import SseParser

PIECES = st.sampled_from(
    [
        *(b"data: ", b"data:", b"data", b"\n", b"\n\n", b"\r\n", b"\r", b": ping", b"event: error", b"id: 7"),
        *(b"\xef\xbb\xbf", b'{"a":1}', b"[DONE]", "grüße 你好".encode(), b"x", b" "),
    ]
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def parse(pieces: list[bytes]) -> list[tuple[bytes, bytes]]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.finish()


@given(st.lists(PIECES, max_size=60), st.lists(st.integers(0, 2000), max_size=30))
def test_cuts_change_nothing(pieces: list[bytes], places: list[int]) -> None:
    data = b"".join(pieces)
    assert parse(cut(data, places)) == parse([data])
    assert parse([data[i : i + 1] for i in range(len(data))]) == parse([data])


@given(
    st.lists(st.text(max_size=40), min_size=1),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 5000)),
)
def test_no_event_is_lost_and_none_is_invented(texts: list[str], newline: str, places: list[int]) -> None:
    """Multi-line data, comments between, every kind of line end, cuts inside of characters."""
    texts = [text.replace("\r", "") for text in texts]
    stream = ""
    for text in texts:
        stream += (
            f": comment{newline}" + "".join(f"data: {line}{newline}" for line in text.split("\n")) + newline
        )
    raw = stream.encode("utf-8", "surrogatepass")
    wanted = [text.encode("utf-8", "surrogatepass") for text in texts if text]
    assert [data for _, data in parse(cut(raw, places))] == wanted
    assert [data for _, data in parse([raw[i : i + 1] for i in range(len(raw))])] == wanted


@given(st.binary(max_size=3000), st.lists(st.integers(0, 3000), max_size=10))
def test_arbitrary_bytes_never_crash(data: bytes, places: list[int]) -> None:
    assert parse(cut(data, places)) == parse([data])


def test_a_line_end_cut_in_two_is_one_line_end() -> None:
    raw = b"data: a\r\ndata: b\r\n\r\n"
    assert parse([raw[i : i + 1] for i in range(len(raw))]) == [(b"", b"a\nb")]


def test_each_event_belongs_to_the_piece_that_completed_it() -> None:
    parser = SseParser()
    pieces = [b"data: a\n", b"\ndata: b\n\ndata: c", b"\n", b"\n", b": ping\n\n", b"data: d\r\n\r", b"\n"]
    assert [[data for _, data in parser.feed(piece)] for piece in pieces] == [
        [],
        [b"a", b"b"],
        [],
        [b"c"],
        [],
        [b"d"],
        [],
    ]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_named_events_and_fields(newline: bytes) -> None:
    lines = [
        b"event: error",
        b"data: {}",
        b"",
        b'error: {"code":500}',
        b"",
        b"retry: 3",
        b"id: 1",
        b"",
        b"data",
        b"",
        b"",
    ]
    assert parse([newline.join(lines)]) == [(b"error", b"{}"), (b"error", b'{"code":500}')]


def test_an_event_without_end_stays_within_its_limit() -> None:
    parser = SseParser(limit=100_000)
    tracemalloc.start()
    for _ in range(1000):
        assert parser.feed(b"data: " + b"x" * 10_000) == []
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert parser.too_large
    assert most < 1_000_000
    assert parser.feed(b"\n\ndata: late\n\n") == []


def test_one_large_event_in_one_piece_is_refused() -> None:
    parser = SseParser(limit=1000)
    assert parser.feed(b"data: " + b"x" * 2000 + b"\n\n") == []
    assert parser.too_large


def test_small_pieces_of_a_large_event_cost_linear_work() -> None:
    """Counted, not timed: the bytes that are joined must stay near the bytes that came."""
    parser = SseParser()
    size = 200_000
    for _ in range(size):
        parser.feed(b"x")
    assert len(parser._rest) == size, "pieces are kept apart until the event is complete"

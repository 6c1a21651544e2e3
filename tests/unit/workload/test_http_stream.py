"""HTTP responses: all framings, any cuts, no byte lost, no crash, headers bounded."""

from hypothesis import given
from hypothesis import strategies as st

from benchharness.workload.http_stream import HEADER_LIMIT, HttpStream, may_end

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False) if start < end]


def parse(pieces: list[bytes], closed: bool = False) -> HttpStream:
    stream = HttpStream()
    for index, piece in enumerate(pieces):
        stream.feed(index, piece)
    if closed:
        stream.end_of_file()
    return stream


def body_of(stream: HttpStream) -> bytes:
    return b"".join(body for _, body in stream.bodies)


bodies = st.lists(st.binary(min_size=1, max_size=200), max_size=20)
places = st.lists(st.integers(0, 6000), max_size=25)


@given(bodies, places, st.booleans(), st.booleans())
def test_chunked(parts: list[bytes], cuts: list[int], trailer: bool, extension: bool) -> None:
    chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(p), b";a=b" if extension else b"", p) for p in parts)
    data = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    data += b"0\r\nX-Trailer: y\r\n\r\n" if trailer else b"0\r\n\r\n"
    stream = parse(cut(data, cuts))
    assert (stream.complete, stream.error, body_of(stream)) == (True, "", b"".join(parts))
    assert may_end(data[-5:])
    for until in (1, 3, 4):
        assert not parse(cut(data[:-until], cuts), closed=True).complete


@given(st.binary(max_size=500), places, st.binary(max_size=20))
def test_content_length(body: bytes, cuts: list[int], surplus: bytes) -> None:
    data = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    stream = parse([*cut(data, cuts), surplus])
    assert (stream.complete, stream.error, body_of(stream)) == (True, "", body)
    assert stream.surplus == len(surplus)
    if body:
        assert not parse(cut(data[:-1], cuts), closed=True).complete


@given(st.binary(max_size=500), places)
def test_ended_by_close(body: bytes, cuts: list[int]) -> None:
    pieces = cut(HEAD + b"\r\n" + body, cuts)
    assert not parse(pieces).complete
    stream = parse(pieces, closed=True)
    assert (stream.complete, stream.error, body_of(stream)) == (True, "", body)


@given(bodies, places)
def test_bytes_belong_to_the_read_that_brought_them(parts: list[bytes], cuts: list[int]) -> None:
    data = HEAD + b"\r\n" + b"".join(parts)
    pieces = cut(data, cuts)
    start = 0
    spans = []
    for piece in pieces:
        spans.append((max(start, len(HEAD) + 2), start + len(piece)))
        start += len(piece)
    for index, body in parse(pieces).bodies:
        first, last = spans[index]
        assert body == data[first:last]


@given(st.binary(max_size=1000), places)
def test_arbitrary_bytes_never_crash(data: bytes, cuts: list[int]) -> None:
    parse(cut(data, cuts), closed=True)
    parse(cut(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + data, cuts), closed=True)


def test_endless_headers_are_refused() -> None:
    stream = HttpStream()
    stream.feed(0, b"HTTP/1.1 200 OK\r\n")
    for index in range(1, 1000):
        stream.feed(index, b"X-Filler-%d: %s\r\n" % (index, b"y" * 1000))
        if stream.too_large:
            break
    assert stream.too_large
    assert index * 1000 < 2 * HEADER_LIMIT


def test_interim_answers_are_passed_over() -> None:
    stream = parse([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", HEAD])
    assert not stream.complete
    stream.feed(3, b"Content-Length: 2\r\n\r\nok")
    assert (stream.status, stream.complete, body_of(stream)) == (200, True, b"ok")
    assert "link" not in stream.headers


def test_events_that_end_in_blank_lines_do_not_look_like_the_end() -> None:
    assert not may_end(b"data: {}\r\n\r\n\r\n"[-5:])
    assert not may_end(b"data: {}\n\n\r\n"[-5:])
    assert may_end(b"0\r\n\r\n")

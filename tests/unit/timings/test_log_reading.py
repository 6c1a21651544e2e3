"""Bytes: compressed, cut off, huge, foreign, and still growing."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loglines import decode, lines, log, prefill, rows, summarised

from benchharness.errors import UsageError
from benchharness.timings.logs import reading, stream, summary
from benchharness.timings.logs.batches import Batch
from benchharness.timings.logs.windows import Marker

TEXT = lines(decode(80.0 + index % 7, second=index, tokens=40 * index) for index in range(40_000))


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("packed", ["plain", "gz", "zst", "two members gz", "two frames zst"])
def test_each_packing_gives_the_same(packed: str) -> None:
    data = TEXT.encode()
    half = len(data) // 2
    made = {
        "plain": lambda: data,
        "gz": lambda: gzip.compress(data),
        "zst": lambda: zstd(data),
        "two members gz": lambda: gzip.compress(data[:half]) + gzip.compress(data[half:]),
        "two frames zst": lambda: zstd(data[:half]) + zstd(data[half:]),
    }[packed]()
    found = summarised(made)
    (group,) = found.groups.values()
    assert (group.count, found.lines, found.size, found.truncated) == (40_000, 40_000, len(data), False)


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gz", "zst"])
@pytest.mark.parametrize("part", [0.2, 0.9])
def test_a_truncated_file_gives_what_is_there(pack: object, part: float) -> None:
    packed = pack(TEXT.encode())  # type: ignore[operator]
    found = summarised(packed[: int(len(packed) * part)])
    assert found.truncated
    (group,) = found.groups.values()
    assert part * 0.7 * 40_000 < group.count < 40_000


def test_a_damaged_gz_gives_what_comes_before() -> None:
    packed = bytearray(gzip.compress(TEXT.encode()))
    packed[len(packed) // 2] ^= 0xFF
    found = summarised(bytes(packed))
    assert found.truncated
    assert sum(group.count for group in found.groups.values()) > 10_000


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings(encoding: str) -> None:
    text = "Gerät München\n" + decode(81.5) + "\n"
    (row,) = rows(text.encode(encoding))
    assert (row.number, row.fields["gen_tps"]) == (2, "81.50")


def test_windows_line_ends_and_mixed_bytes() -> None:
    data = b"\xff\xfe\x00 \x80junk\r\n".replace(b"\xff\xfe", b"\xfe") + decode(81.5).encode() + b"\r\n"
    (row,) = rows(data)
    assert row.fields["queue_req"] == "0"
    assert not row.text.endswith("\r")


def test_lines_longer_than_can_be_looked_at_are_counted() -> None:
    long = b"x" * (reading.LONGEST * 3)
    data = (decode(80.0) + "\n").encode() + long + b"\n" + (decode(81.0) + "\n").encode() + long
    read = rows(data)
    assert [(row.number, row.kind) for row in read] == [
        (1, "decode"),
        (2, "damaged"),
        (3, "decode"),
        (4, "damaged"),
    ]
    assert summarised(data).damaged == 2


def test_a_line_of_100_mb_takes_no_100_mb(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    with path.open("wb") as file:
        file.write((decode(80.0) + "\n").encode())
        for _ in range(100):
            file.write(b"\0" * 1_000_000)
        file.write(("\n" + decode(81.0) + "\n").encode())
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from benchharness.timings.logs import reading, summary\n"
        "def peak(path):\n"
        "    with reading.open_log(Path(path)) as log: found = summary.summarise(log)\n"
        "    return found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "_, before = peak(sys.argv[2])\n"
        "found, after = peak(sys.argv[1])\n"
        "print(found.lines, found.damaged, after - before)"
    )
    short = tmp_path / "short.log"
    short.write_text(TEXT[:4_000_000])
    out = subprocess.run(
        [sys.executable, "-c", code, str(path), str(short)], capture_output=True, text=True, check=True
    ).stdout
    count, damaged, grown_mb = map(int, out.split())
    assert (count, damaged) == (3, 1)
    assert grown_mb < 40


def test_memory_does_not_grow_with_the_log() -> None:
    import tracemalloc

    block = TEXT.encode()

    class Endless(io.RawIOBase):
        left = 0

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            if not self.left:
                return b""
            self.left -= 1
            return block

    def peak(times: int) -> int:
        source = Endless()
        source.left = times
        tracemalloc.start()
        found = summary.summarise(reading.stream_log(source), "sglang")  # type: ignore[arg-type]
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.lines == times * 40_000
        return top

    few = peak(8)
    assert peak(24) < 1.5 * few


def test_a_log_that_is_being_written_ends_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "live.log"
    path.write_text(decode(80.0) + "\n")
    stop = threading.Event()

    def write() -> None:
        with path.open("a") as file:
            for _ in range(200_000):
                if stop.is_set():
                    return
                file.write(decode(81.0) + "\n")
                file.flush()

    writer = threading.Thread(target=write)
    with reading.open_log(path) as opened:
        size = os.fstat(opened._stream._stream.fileno()).st_size  # type: ignore[attr-defined]
        writer.start()
        found = summary.summarise(opened)
    stop.set()
    writer.join()
    assert found.size == size


def test_an_unfinished_line_is_no_window() -> None:
    whole = decode(80.0) + "\n"
    found = summarised(whole + decode(81.0)[:-12])
    assert (found.unfinished, found.damaged) == (True, 1)
    (group,) = found.groups.values()
    assert group.count == 1


@pytest.mark.parametrize("missing", ["nothing.log", "."])
def test_what_is_no_log_is_refused(tmp_path: Path, missing: str) -> None:
    with pytest.raises(UsageError):
        reading.open_log(tmp_path / missing)


@given(st.binary(max_size=3000))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_read(data: bytes) -> None:
    found = summarised(data)
    if not data.startswith((b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff", b"\x28\xb5\x2f\xfd", b"\xef\xbb\xbf")):
        assert found.lines == data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    rows(data)


PIECES = st.one_of(
    st.builds(
        decode,
        st.floats(0, 9999),
        rank=st.sampled_from(["", "TP0", "DP0 TP0", "DP1 TP1", "DP1 TP1 EP1", "ATTN_CP0 TP0"]),
        second=st.integers(-50, 3599),
        running=st.integers(0, 300),
        tokens=st.integers(0, 10**7),
        accept=st.one_of(st.none(), st.tuples(st.floats(1, 9), st.floats(0, 1))),
        graph=st.sampled_from(["True", "False", None]),
        sep=st.sampled_from([",", "."]),
    ),
    st.builds(prefill, rank=st.sampled_from(["", "TP0", "DP1 TP1"])),
    st.sampled_from(
        [
            'INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK',
            "[2026-11-29 12:00:05] KV cache pool is full. Retract requests. #retracted_reqs: 1",
            "[2026-11-29 12:00:05 TP0] Decode batch, #running-req: 45, #token: 1, token usaccept rate: 0.32",
            "\0\0\xff",
        ]
    ),
)


def wild(line: str, at: int, junk: str) -> str:
    return line[: at % (len(line) + 1)] + junk + line[at % (len(line) + 1) :]


NOISY = st.lists(
    st.one_of(PIECES, st.builds(wild, PIECES, st.integers(0, 400), st.text(max_size=4))), max_size=60
)


@example([prefill(rank=""), wild(prefill(rank=""), 35, "0")], 8)
@given(NOISY, st.integers(1, 30))
@settings(max_examples=150, deadline=None)
def test_columns_say_what_rows_say(parts: list[str], times: int) -> None:
    """The fast way and the slow way through a log agree, whatever is in it."""
    text = lines(part.replace("\n", " ") for part in parts * times)
    fast = summarised(text, "sglang")
    batch, windows = Batch(), {}
    read = list(stream.rows(log(text), "sglang"))
    batch.add_rows(read)
    for rank, (numbers, columns, marks) in batch.marked(Marker()).items():
        windows[rank] = (len(numbers), int((marks == 0).sum()), columns[:, 0].sum())
    assert fast.damaged == sum(row.damaged for row in read)
    found = {
        group.rank: (group.count, group.kept, group.all_tok_s.mean * group.all_tok_s.count)
        for group in fast.groups.values()
        if group.what == "decode window"
    }
    assert found.keys() == windows.keys()
    for rank, (count, kept, total) in windows.items():
        assert found[rank][:2] == (count, kept)
        assert found[rank][2] == pytest.approx(total)

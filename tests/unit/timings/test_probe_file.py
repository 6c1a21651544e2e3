"""Probe files: what the writer writes is what the reader reads, wherever the file ends."""

from __future__ import annotations

import gzip
import json
import os
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchharness.errors import InfrastructureError
from benchharness.probe import rowfile
from benchharness.probe.cycle import Cycle as Running
from benchharness.records import RequestTrace
from benchharness.timings import probe_cycles, probe_file
from benchharness.timings.probe_file import ProbeFile

# Taken by hand on an H200 with SGLang 0.5.12 and EAGLE3: host stamps and events of each phase.
H200 = Path(__file__).parents[2] / "data" / "sglang_h200_eagle3.phases.jsonl.gz"
H200_CONTEXTS = (128, 128, 2048, 8192)
MS = 1_000_000


def cycle(seq: int, start_ns: int, mode: int = 1, **told: Any) -> Running:
    made = Running()
    made.seq, made.mode, made.batch_size, made.tokens = seq, mode, 1, 2
    made.stamps[:2] = [start_ns, start_ns + 5 * MS]
    for name, value in told.items():
        setattr(made, name, value)
    return made


def write(folder: Path, cycles: list[Running], events: tuple[float, ...] | None = None) -> Path:
    file = rowfile.RowFile(str(folder))
    file.facts({"pid": os.getpid(), "rank": 0})
    for made in cycles:
        file.cycle(made, events)
    file.close()
    return Path(file.path)


def test_both_sides_know_the_same_format() -> None:
    assert probe_file.BODY.size == rowfile.CYCLE_BYTES
    assert (probe_file.MAGIC, probe_file.FORMAT, probe_file.SWITCH_AT) == (
        rowfile.MAGIC,
        rowfile.FORMAT,
        rowfile.SWITCH_AT,
    )
    assert (probe_file.FACTS, probe_file.CYCLE) == (rowfile.FACTS, rowfile.CYCLE)


def test_every_field_comes_back(tmp_path: Path) -> None:
    made = cycle(
        9,
        1_000,
        flags=1 | 2 | 8,
        graph=2,
        draft_graph=1,
        extend_graph=2,
        batch_size=3,
        tokens=7,
        accepted=bytes([1, 2, 4]),
        context=4096,
        stamps=[MS * at for at in (1, 21, 2, 4, 5, 15, 6, 13, 16, 19)],
    )

    (row,) = probe_file.read(write(tmp_path, [made], (19.5, 1.5, 9.5, 6.5, 2.5, 2.25, 30.5))).rows

    assert (row.seq, row.mode, row.start_ns) == (9, "decode", MS)
    assert (row.batch_size, row.tokens, row.accepted, row.context_tokens) == (3, 7, (1, 2, 4), 4096)
    assert (row.graph, row.draft_graph, row.draft_extend_graph) == (True, False, True)
    assert (row.captured, row.verify_is_forward, row.events_missing) == (True, True, True)
    assert (row.plain, row.at_step) == (False, False)
    assert row.host == probe_file.Phases(20, 2, 10, 7, 2, 3)
    assert row.gpu == probe_file.Phases(19.5, 1.5, 9.5, 6.5, 2.5, 2.25)
    assert row.since_before_ms == 30.5


def test_later_facts_add_to_and_override_earlier_ones(tmp_path: Path) -> None:
    file = rowfile.RowFile(str(tmp_path))
    file.facts({"pid": 5, "hooks": [], "env": {"NCCL_ALGO": "Ring"}})
    file.facts({"hooks": ["a.B.c"], "rank": 3, "gpu_id": 2})
    file.facts({"faults": {"events": {"count": 3, "last": "RuntimeError: x", "off": True}}})

    report = probe_file.read(Path(file.path)).report

    assert (report.pid, report.rank, report.gpu_id, report.hooks) == (5, 3, 2, ("a.B.c",))
    assert report.env == {"NCCL_ALGO": "Ring"}
    assert report.faults == {"events": "3 times, switched off: RuntimeError: x"}


def test_a_file_grows_past_its_first_step_and_keeps_every_row(tmp_path: Path) -> None:
    count = 2 * rowfile.STEP_BYTES // rowfile.CYCLE_BYTES
    path = write(tmp_path, [cycle(seq, seq * MS, accepted=bytes(seq % 5)) for seq in range(1, count)])

    rows = probe_file.read(path).rows

    assert [row.seq for row in rows] == list(range(1, count))
    assert {len(row.accepted) for row in rows} == {0, 1, 2, 3, 4}
    assert path.stat().st_size > rowfile.STEP_BYTES


@settings(max_examples=60, deadline=None)
@given(share=st.floats(0, 1), widths=st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_a_file_cut_off_anywhere_gives_what_was_whole(
    tmp_path_factory: pytest.TempPathFactory, share: float, widths: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    path = write(folder, [cycle(seq, seq, accepted=bytes(width)) for seq, width in enumerate(widths)])
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])

    file = probe_file.read(path)

    assert [row.seq for row in file.rows] == list(range(len(file.rows)))
    assert [len(row.accepted) for row in file.rows] == widths[: len(file.rows)]
    assert file.report.pid == os.getpid()
    ends = len(whole) - 8
    assert len(file.rows) == len(widths) or int(share * len(whole)) < ends


def test_a_row_whose_writing_was_cut_short_does_not_exist(tmp_path: Path) -> None:
    path = write(tmp_path, [cycle(1, 1), cycle(2, 2)])
    data = bytearray(path.read_bytes())
    last = len(data) - 8 - (8 + rowfile.CYCLE_BYTES + 7 & ~7)
    assert data[last] == rowfile.CYCLE
    data[last] = 0
    path.write_bytes(data)

    assert [row.seq for row in probe_file.read(path).rows] == [1]


@pytest.mark.parametrize("left", [1, 7, 8, 60])
def test_a_file_that_ends_within_a_record_says_so(tmp_path: Path, left: int) -> None:
    path = write(tmp_path, [cycle(1, 1), cycle(2, 2)])
    data = path.read_bytes()
    last = len(data) - 8 - (8 + rowfile.CYCLE_BYTES + 7 & ~7)
    assert probe_file.read(path).whole
    path.write_bytes(data[: last + left])

    file = probe_file.read(path)

    assert [row.seq for row in file.rows] == [1]
    assert not file.whole


def test_an_empty_file_is_a_process_that_came_no_further(tmp_path: Path) -> None:
    (tmp_path / "41.probe").write_bytes(b"")

    (file,) = probe_file.read_folder(tmp_path)

    assert (file.report.pid, file.report.rank, file.rows, file.whole) == (41, None, (), False)


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"PK\3\4 something else", "no probe file"), (b"BHPROBE1\x09\0" + bytes(6), "format 9")],
)
def test_what_is_no_probe_file_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "1.probe"
    path.write_bytes(data)

    with pytest.raises(InfrastructureError, match=words):
        probe_file.read(path)


def test_missing_ranks_cut_files_and_faults_are_findings(tmp_path: Path) -> None:
    path = write(tmp_path, [cycle(1, 1)])
    path.write_bytes(path.read_bytes()[:-20])
    file = rowfile.RowFile(str(tmp_path))
    file.facts({"pid": 8, "rank": 2, "hooks": ["a.B.c"], "faults": {"end": {"count": 1, "last": "x"}}})

    sentences = [found.sentence for found in probe_cycles.findings(probe_file.read_folder(tmp_path), ranks=3)]

    assert len(sentences) == 3
    assert "of rank 1" in sentences[0]
    assert "rank 0" in sentences[1] and "cut off" in sentences[1]
    assert "rank 2 (pid 8)" in sentences[2] and "at end 1 times: x" in sentences[2]


def trace(index: int, sent_ms: int, finished_ms: int) -> RequestTrace:
    return RequestTrace(index, False, 8, sent_ms * MS, sent_ms * MS, finished_ms * MS, output_tokens=99)


def probed(tmp_path: Path, cycles: list[Running]) -> list[ProbeFile]:
    return [probe_file.read(write(tmp_path, cycles))]


def test_cycles_outside_of_requests_are_left_out_when_requests_come_one_by_one(tmp_path: Path) -> None:
    files = probed(tmp_path, [cycle(seq, at * MS) for seq, at in enumerate((5, 15, 25, 45, 60, 75, 99))])

    made = probe_cycles.cycles(files, [trace(1, 40, 70), trace(0, 10, 30)])

    assert [(one.request, one.index, one.start_ns // MS) for one in made] == [
        (0, 0, 15),
        (0, 1, 25),
        (1, 0, 45),
        (1, 1, 60),
    ]


def test_cycles_of_requests_that_overlap_belong_to_none(tmp_path: Path) -> None:
    files = probed(tmp_path, [cycle(seq, at * MS) for seq, at in enumerate((5, 15, 25))])

    made = probe_cycles.cycles(files, [trace(0, 10, 30), trace(1, 20, 40)])

    assert [(one.request, one.index) for one in made] == [(-1, 0), (-1, 1), (-1, 2)]


def test_events_are_trusted_and_the_host_s_times_stand_beside_them(tmp_path: Path) -> None:
    made = cycle(1, MS, stamps=[MS * at for at in (1, 4, 1, 2, 2, 3, 0, 0, 3, 4)])
    path = write(tmp_path, [made], (7.5, 0.5, 6.0, 5.5, 0.25, 1.0, float("nan")))

    (one,) = probe_cycles.cycles([probe_file.read(path)], [])

    assert (one.clock, one.source, one.rank) == ("cuda-event", "probe", 0)
    assert (one.total_ms, one.draft_ms, one.verify_ms, one.draft_extend_ms) == (7.5, 0.5, 6.0, 1.0)
    assert (one.target_forward_ms, one.after_forward_ms) == (5.5, 0.25)
    assert (one.host_total_ms, one.host_draft_ms, one.host_verify_ms, one.host_draft_extend_ms) == (
        3,
        1,
        1,
        1,
    )


def test_a_period_ends_where_cycles_were_not_recorded_or_a_prefill_came(tmp_path: Path) -> None:
    cycles = [
        cycle(1, 10 * MS),
        cycle(2, 20 * MS),
        cycle(4, 50 * MS),
        cycle(5, 60 * MS, 2),
        cycle(6, 70 * MS),
    ]

    made = probe_cycles.cycles(probed(tmp_path, cycles), [])

    assert [one.period_ms for one in made] == [10.0, None, None, None]


def test_a_request_begins_with_its_first_prefill_or_after_a_pause(tmp_path: Path) -> None:
    modes = [(0, 1), (10, 2), (20, 2), (30, 1), (40, 1), (90, 1), (100, 2)]
    (file,) = probed(tmp_path, [cycle(seq, (1 + at) * MS, mode) for seq, (at, mode) in enumerate(modes)])

    assert [len(part) for part in probe_cycles.segments(file.rows)] == [1, 5, 1]
    assert [len(part) for part in probe_cycles.segments(file.rows, pause_ms=44.0)] == [1, 4, 1, 1]
    assert probe_cycles.segments(()) == ()


def h200_cycles() -> list[tuple[Running, tuple[float, ...]]]:
    """The recording as the probe would hold it."""
    with gzip.open(H200) as lines:
        phases = [json.loads(line) for line in lines]
    places = {"draft": (2, 1), "verify": (4, 2), "draft_extend": (8, 5)}
    found = []
    for _, begin, end, total_ms, _ in sorted(
        (row for row in phases if row[0] == "total"), key=lambda row: row[1]
    ):
        made = cycle(len(found) + 1, begin, mode=2)
        made.stamps[1] = end
        events = [float("nan")] * 7
        events[0] = total_ms
        for phase, first, last, ms, _ in phases:
            if phase in places and begin <= first and last <= end:
                place, column = places[phase]
                made.stamps[place : place + 2] = [first, last]
                events[column] = ms
                made.mode = 1
        found.append((made, tuple(events)))
    return found


def test_t25_events_and_not_the_host_s_clock_time_a_verify(tmp_path: Path) -> None:
    file = rowfile.RowFile(str(tmp_path))
    for made, events in h200_cycles():
        file.cycle(made, events)
    read = probe_file.read(Path(file.path))

    made_cycles = probe_cycles.cycles([read], [])
    verify = statistics.median(one.verify_ms for one in made_cycles if one.verify_ms)
    host = statistics.median(one.host_verify_ms for one in made_cycles if one.host_verify_ms)
    assert {one.clock for one in made_cycles} == {"cuda-event"}
    assert verify == pytest.approx(6.0, abs=0.1)
    assert 1.1 <= host <= 1.5

    # The recording has no contexts: the client's requests stand in its order, after the engine's warm-up.
    parts = probe_cycles.segments(read.rows)[-len(H200_CONTEXTS) :]
    assert [len(part) for part in parts[:3]] == [130, 130, 130]  # a prefill, 128 cycles, one too many
    by_context = {
        context: statistics.median(row.gpu.verify for row in part if row.gpu and row.gpu.verify)
        for context, part in zip(H200_CONTEXTS, parts, strict=True)
    }
    assert by_context[128] == pytest.approx(5.8, abs=0.1)
    assert by_context[8192] == pytest.approx(22.8, abs=0.2)

"""Work in the measured window that is no decoding, as the engines' own lines tell it."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from benchharness.records import Cycle
from benchharness.records.logline import LogLine
from benchharness.timings import log_findings
from benchharness.timings.logs import reading, stream

QUIET = """\
[2026-11-29 12:00:00 TP0] Decode batch, #running-req: 1, #token: 46, token usage: 0.00, cuda graph: True, \
gen throughput (token/s): 100.00, #queue-req: 0, #retracted-req: 0
[2026-11-29 12:00:01] INFO:     127.0.0.1:5 - "POST /generate HTTP/1.1" 200 OK
"""
JIT = (
    "(Worker_TP0 pid=74) WARNING 05-19 14:04:52 [jit_monitor.py:103] Triton kernel JIT compilation during "
    "inference: eagle_prepare_next_token_padded_kernel. This causes a latency spike.\n"
)
CAPTURE = "[2026-11-29 12:00:02 TP0] Capture cuda graph bs [8, 16]\n"
RETRACT = "[2026-11-29 12:00:02 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 1, #x: 0.7\n"


def rows(text: str) -> Iterator[LogLine]:
    return stream.rows(reading.stream_log(io.BytesIO(text.encode())))


def test_a_quiet_window_says_nothing() -> None:
    assert log_findings.findings(rows(QUIET * 20)) == ()
    assert log_findings.findings(rows("")) == ()


@pytest.mark.parametrize(
    ("text", "check", "said"),
    [
        (JIT, "no-compilation", "kernels were compiled 2 times"),
        (CAPTURE, "no-capture", "graphs were captured 2 times"),
        (RETRACT, "no-retraction", "took back requests 2 times"),
        (
            QUIET.replace("#retracted-req: 0", "#retracted-req: 3"),
            "no-retraction",
            "took back requests 2 times",
        ),
    ],
)
def test_what_is_no_decoding_is_told_and_not_judged(text: str, check: str, said: str) -> None:
    (found,) = log_findings.findings(rows(QUIET + text + QUIET + text))
    assert (found.check, found.grave) == (check, True)
    assert said in found.sentence


def test_t8_more_streams_than_the_largest_graph() -> None:
    settings = {"graph_batch_sizes": (1, 2, 4, 32)}
    (found,) = log_findings.graph_hazard(settings, 67)
    assert "up to a batch of 32, but 67 streams" in found.sentence
    for fine, streams in ((settings, 32), (settings, None), ({}, 67), ({"graph_batch_sizes": []}, 67)):
        assert not list(log_findings.graph_hazard(fine, streams))


def test_graphs_that_were_captured_and_never_replayed_are_told() -> None:
    def cycle(graph: bool | None, batch: int = 1) -> Cycle:
        return Cycle(0, 0, 1, 5.0, None, None, None, "probe", "host", graph=graph, batch_size=batch)

    settings = {"graph_batch_sizes": (1, 2, 4)}
    (found,) = log_findings.graphs_as_captured(settings, [cycle(False), cycle(False), cycle(False, 8)])
    assert "none of 2 cycles replayed one" in found.sentence
    for cycles in ([cycle(True), cycle(False)], [cycle(None)], [cycle(False, 8)], []):
        assert not list(log_findings.graphs_as_captured(settings, cycles))
    assert not list(log_findings.graphs_as_captured({}, [cycle(False)]))


def test_a_server_that_says_cpu_where_a_gpu_is_wanted() -> None:
    assert [one.grave for one in log_findings.device_used(rows(QUIET), "cpu")] == [True]
    assert not list(log_findings.device_used(rows(QUIET), "cuda"))
    assert not list(log_findings.device_used(rows(QUIET), None))

"""SGLang's lines over its releases, behind whatever stands in front of them, and damaged in many ways."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from loglines import decode, lines, prefill, rows, summarised

from benchharness.timings.logs import definition

LOGS = Path(__file__).parents[2] / "data" / "logs"

TAIL = (
    "token usage: 0.12, accept len: 2.91, cuda graph: True, gen throughput (token/s): 170.55, #queue-req: 3"
)
BODIES = {
    "0.4": f"Decode batch. #running-req: 8, #token: 37110, {TAIL}",
    "0.5.4": f"Decode batch [17], #running-req: 8, #token: 37110, {TAIL}",
    "0.5.5": f"Decode batch, #running-req: 8, #token: 37110, {TAIL}",
    "trailing comma": f"Decode batch, #running-req: 8, #token: 37110, {TAIL}, ",
    "new fields behind": f"Decode batch, #running-req: 8, #token: 37110, {TAIL}, "
    "est. decode TFLOPS/s (per GPU): 1.20, fwd occupancy: 83.21%",
}
STAMP = "2026-05-31 18:31:21"
BEHIND = {
    "bare": "{}",
    "docker": "2026-05-31T18:31:21.123456789Z {}",
    "cri": "2026-05-31T18:31:21.123456789Z stderr F {}",
    "compose": "sglang-1  | {}",
    "kubectl": "[pod/sglang-0/server] {}",
    "journal": "May 31 18:31:21 gpu-host python[4242]: {}",
    "ray": "(RayWorkerWrapper pid=539, ip=10.0.0.7) {}",
    "torchrun": "[rank3]: {}",
    "colours": "\x1b[32m{}\x1b[0m",
    "a progress bar": "Capturing batches:  33%|███▎ | 1/3 [00:08<00:16,  8.29s/it]{}",
}
JSON = {
    "docker json-file": lambda text: {
        "log": text + "\n",
        "stream": "stderr",
        "time": "2026-05-31T18:31:22.5Z",
    },
    "python-json-logger": lambda text: {"asctime": STAMP, "levelname": "INFO", "message": text},
    "structured": lambda text: {"timestamp": STAMP, "level": "info", "event": text, "dp": 2},
}


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND.keys())
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_window_is_read_behind_any_prefix(behind: str, body: str) -> None:
    (row,) = rows(lines([behind.format(f"[{STAMP} DP0 PP1 TP3 EP2] {body}")]))
    wanted = {
        "timestamp": STAMP, "dp": "0", "pp": "1", "tp": "3", "ep": "2", "running_req": "8", "token": "37110",
        "accept_len": "2.91", "accept_rate": None, "cuda_graph": "True", "gen_tps": "170.55",
        "queue_req": "3",
    }  # fmt: skip
    assert {key: row.fields[key] for key in wanted} == wanted


@pytest.mark.parametrize("wrap", JSON.values(), ids=JSON.keys())
def test_a_window_is_read_from_json_records(wrap: object) -> None:
    body = f"Decode batch, #running-req: 8, #token: 37110, {TAIL}"
    (row,) = rows(lines([json.dumps(wrap(body))]))  # type: ignore[operator]
    assert (row.fields["gen_tps"], row.fields["queue_req"]) == ("170.55", "3")
    assert str(row.fields["timestamp"]).startswith("2026-05-31")


def test_colours_within_a_line() -> None:
    (row,) = rows(lines([decode(170.55).replace("170.55", "\x1b[1;32m170.55\x1b[m")]))
    assert row.fields["gen_tps"] == "170.55"


def test_gpus_of_the_oldest_releases_are_told_apart() -> None:
    said = [f"[gpu={index % 2}] {decode(80.0, rank='')[22:]}" for index in range(40)]
    assert {group.rank: group.count for group in summarised(lines(said)).groups.values()} == {
        "GPU0": 20,
        "GPU1": 20,
    }


def test_json_in_json_with_a_prefix_inside() -> None:
    inner = json.dumps({"message": f"[{STAMP} TP1] {BODIES['0.5.5']}"})
    (row,) = rows(lines([json.dumps({"log": inner, "time": "2027-01-01T00:00:00Z"})]))
    assert (row.fields["timestamp"], row.fields["tp"]) == (STAMP, "1")


def test_unknown_fields_are_kept_by_their_names() -> None:
    (row,) = rows(lines([f"[{STAMP}] {BODIES['new fields behind']}"]))
    assert row.fields["est_decode_tflops_s"] == "1.20"
    assert row.fields["fwd_occupancy"] == "83.21%"


def test_fields_may_come_in_any_order() -> None:
    parts = "gen throughput (token/s): 1.5, #queue-req: 0, token usage: 0.1, #token: 7, #running-req: 2"
    (row,) = rows(lines([f"[{STAMP}] Decode batch, {parts}"]))
    assert [row.fields[key] for key in ("gen_tps", "queue_req", "token", "running_req")] == [
        "1.5",
        "0",
        "7",
        "2",
    ]


@pytest.mark.parametrize("label", ["cuda graph", "cpu graph", "npu graph", "xpu graph"])
def test_the_graph_label_differs_by_device(label: str) -> None:
    (row,) = rows(lines([decode(1.0).replace("cuda graph", label)]))
    assert (row.fields["graph_label"], row.fields["graph"]) == (label, "True")
    assert row.fields["cuda_graph"] == ("True" if label == "cuda graph" else None)


@pytest.mark.parametrize(
    "damage",
    [
        decode(82.44)[:-3],  # cut off before the last value
        decode(82.44)[:70],
        decode(82.44).replace("#token: 100, token usage: 0.00", "#token: 1usage: 0.00"),
        decode(82.44).replace(": 82.44", ": 8x2.44"),
        decode(82.44).replace("#running-req: 1, ", ""),
        decode(82.44).replace("gen throughput (token/s): 82.44, ", ""),
        decode(82.44).replace("token usage: 0.00, ", "").replace("#token: 100, ", ""),
        decode(82.44).replace("#queue-req: 0", "#queue-req: zero"),
        decode(82.44).replace("#queue-req", "#token"),
        decode(82.44) + decode(83.0),
        decode(82.44)[:60] + decode(83.0),
        decode(82.44) + ", #token: 5",
        decode(82.44).replace("#token", "#tok9en"),
        decode(82.44).replace("#queue-req", "#que3ue-req"),
        decode(82.44).replace("gen throughput", "gen 7throughput"),
        decode(82.44).replace("#token", "#to\x00ken"),
        prefill().replace("#new-seq: 1, ", ""),
    ],
)
def test_damaged_lines_are_refused_and_counted(damage: str) -> None:
    good = [decode(81.0, tokens=140 + 40 * index) for index in range(20)]
    (row,) = [row for row in rows(lines([*good[:10], damage, *good[10:]])) if row.damaged]
    assert row.number == 11
    assert row.fields["malformed"] is True
    found = summarised(lines([*good[:10], damage, *good[10:]]))
    assert found.damaged == 1
    (group,) = found.groups.values()
    assert group.count == 20


def test_prose_about_windows_is_no_damage() -> None:
    assert (
        rows("the string 'Decode batch.' means nothing here\n# HELP x The generation throughput (token/s).\n")
        == []
    )


def test_request_statistics_of_older_releases() -> None:
    text = (
        "[2025-11-30 08:54:56] Req Time Stats(rid=aa, bootstrap info=None, input len=1000, output len=50, "
        "type=unified): queue_duration=1.61ms, forward_duration=101.60ms, start=12.5"
    )
    (row,) = rows(text)
    assert row.kind == "request_stats"
    assert {key: row.fields[key] for key in ("input_len", "output_len", "queue_ms", "forward_ms")} == {
        "input_len": "1000", "output_len": "50", "queue_ms": "1.61", "forward_ms": "101.60",
    }  # fmt: skip


def test_an_h200_with_speculation() -> None:
    found = summarised((LOGS / "sglang_h200_eagle3.server.log.gz").read_bytes())
    (group,) = found.groups.values()
    assert found.engine == "sglang"
    assert (group.count, group.kept, found.damaged) == (51, 47, 0)
    assert group.accept_len.mean == pytest.approx(2.0)
    assert group.all_tok_s.count == 51
    assert dict(group.graphs) == {"graph": 51, "eager": 0, "untold": 0}
    assert {name: count for name, count in group.reasons.items() if count} == {"prefill": 4, "start": 1}
    assert found.startup.graph_sizes == [1, 2, 3, 4]
    assert found.startup.facts["speculative_attention_mode"] == "prefill"
    assert found.startup.draft_tokens == 3
    assert found.accept_rate().formula == definition.DRAFTS_ONLY


def test_an_h200_without_graphs() -> None:
    found = summarised((LOGS / "sglang_h200_e3_nograph.server.log.gz").read_bytes())
    (group,) = found.groups.values()
    assert group.graphs["eager"] == 51
    assert found.startup.graph_sizes is None
    assert found.startup.facts["disable_cuda_graph"] == "True"


@pytest.mark.parametrize(
    ("name", "windows", "label"),
    [("sglang_cpu_0.5.9.log", 5, "cpu graph"), ("sglang_cpu_0.5.23_standalone.log", 2, "cpu graph")],
)
def test_releases_on_a_cpu(name: str, windows: int, label: str) -> None:
    read = [row for row in rows((LOGS / name).read_bytes()) if row.kind == "decode"]
    assert len(read) == windows
    assert {row.fields["graph_label"] for row in read} == {label}
    assert read[0].fields["keep"] is False


def test_arguments_are_read_in_both_spellings() -> None:
    text = gzip.decompress((LOGS / "sglang_h200_eagle3.server.log.gz").read_bytes()).decode()
    old = summarised(text).startup.facts
    new = summarised((LOGS / "sglang_cpu_0.5.23_standalone.log").read_bytes()).startup.facts
    assert old["speculative_algorithm"] == "EAGLE3"
    assert new["speculative_algorithm"] == "STANDALONE"
    assert new["decode_log_interval"] == "40"


def test_a_hazard_is_named_from_the_start_up_lines_alone() -> None:
    """T8: graphs up to 32, thousands may run."""
    text = (
        "Capture target decode CUDA graph begin. backend=full, bs=[1, 2, 32], avail mem=7 GB\n"
        "[2026-08-30 08:54:56 TP0] max_total_num_tokens=2970112, max_running_requests=4096\n"
    )
    (said,) = summarised(text).startup.hazards()
    assert "batch 32" in said
    assert "4096 requests" in said


def test_different_nccl_on_two_ranks_is_named() -> None:
    text = (
        "[2025-02-23 06:02:12 TP1] sglang is using nccl==2.21.5\n"
        "[2025-02-23 06:02:12 TP3] sglang is using nccl==2.27.3\n"
    )
    (said,) = summarised(text).startup.hazards()
    assert "2.21.5 on rank 1" in said
    assert "2.27.3 on rank 3" in said

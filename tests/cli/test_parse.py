"""`benchharness parse`, as a shell would call it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import bench, variables

DATA = Path(__file__).parents[1] / "data"
LOGS = DATA / "logs"
EAGLE3 = LOGS / "sglang_h200_eagle3.server.log.gz"


def piped(data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "benchharness", "parse", "-", *arguments],
        input=data,
        capture_output=True,
        env=variables(),
        timeout=60,
    )


def test_a_table_for_people(tmp_path: Path) -> None:
    ended = bench("parse", EAGLE3, cwd=tmp_path)
    assert ended.status == 0
    for words in (
        "speculation EAGLE3",
        "270.47",
        "186.27",
        "4 prefill",
        "graphs for batches 1, 2, 3, 4",
        "100.0%",
    ):
        assert words in ended.out
    assert "accept rate here is (accept length - 1) / (draft tokens - 1), 3 draft tokens" in ended.out


def test_rows_for_programs(tmp_path: Path) -> None:
    ended = bench("parse", EAGLE3, "--jsonl", cwd=tmp_path)
    rows = [json.loads(line) for line in ended.out.splitlines()]
    decodes = [row for row in rows if row["kind"] == "decode"]
    assert len(decodes) == 51
    assert {"kind", "engine", "line", "text", "timestamp", "accept_len", "keep", "reason"} <= decodes[
        0
    ].keys()
    assert (decodes[0]["keep"], decodes[1]["keep"]) == (False, True)
    assert decodes[0]["tp"] is None
    assert [row["line"] for row in rows] == sorted(row["line"] for row in rows)


def test_standard_input() -> None:
    ended = piped(EAGLE3.read_bytes(), "--jsonl", "--engine", "sglang")
    assert ended.returncode == 0
    assert sum(b'"kind":"decode"' in line for line in ended.stdout.splitlines()) == 51


@pytest.mark.parametrize("jsonl", [[], ["--jsonl"]], ids=["table", "jsonl"])
def test_strict_shows_damaged_lines_and_exits_4(jsonl: list[str]) -> None:
    damaged = (
        b"\n[2026-05-28 02:59:59 TP0] Decode batch, #running-req: 45, token usaccept rate: 0.32, #queue-req\n"
    )
    lax, strict = piped(damaged, *jsonl), piped(damaged, *jsonl, "--strict")
    assert (lax.returncode, strict.returncode) == (0, 4)
    assert b"line 2: " in strict.stderr
    assert b"usaccept" in strict.stderr
    assert b"line 2" not in lax.stderr
    if jsonl:
        assert json.loads(lax.stdout)["malformed"] is True
    else:
        assert b"1 damaged lines" in lax.stdout


def test_a_clean_log_is_clean_when_strict(tmp_path: Path) -> None:
    assert bench("parse", EAGLE3, "--strict", cwd=tmp_path).status == 0


def test_what_is_no_log(tmp_path: Path) -> None:
    bench("parse", "nothing.log", cwd=tmp_path).refused(2, "nothing.log")
    bench("parse", tmp_path, cwd=tmp_path).refused(2, str(tmp_path))
    bench("parse", EAGLE3, "--engine", "tgi", cwd=tmp_path).refused(2, "tgi")


def test_a_log_of_nothing_known(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"\0\xff" * 1000)
    ended = bench("parse", "x.log", cwd=tmp_path)
    assert ended.status == 0
    assert "nothing that is known" in ended.out


def test_every_shape_in_one_file(tmp_path: Path) -> None:
    ended = bench("parse", DATA / "log_shapes.txt", cwd=tmp_path)
    assert ended.status == 0
    for words in ("hazard:", "32 tokens when retokenized", "DP31", "trtllm"):
        assert words in ended.out
    rows = bench("parse", DATA / "log_shapes.txt", "--jsonl", cwd=tmp_path).out.splitlines()
    assert {json.loads(row)["engine"] for row in rows} >= {
        "sglang",
        "vllm",
        "llamacpp",
        "trtllm",
        "nccl",
        "bench",
    }


def test_help_teaches(tmp_path: Path) -> None:
    ended = bench("parse", "--help", cwd=tmp_path)
    assert ended.status == 0
    for words in ("left out of the", "--jsonl", "exit 4", "jq"):
        assert words in ended.out


def test_a_reader_that_leaves(tmp_path: Path) -> None:
    (tmp_path / "long.log").write_bytes(
        b"[2026-05-28 02:59:59] The server is fired up and ready to roll!\n" * 50_000
    )
    command = [sys.executable, "-m", "benchharness", "parse", "long.log", "--jsonl"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=variables()
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()

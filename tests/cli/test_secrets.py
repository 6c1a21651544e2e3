"""Values that look like secrets reach the engine and are written nowhere."""

from __future__ import annotations

from pathlib import Path

from commandline import bench

TOKEN, PHRASE = "hf_abcdefghijklmnop1234", "correct horse battery"
FILE = f"""\
name: secret
engine: standin
base:
  args: {{step_ms: 2, speculation: false}}
  env: {{HF_TOKEN: {TOKEN}, MY_PASSPHRASE: {PHRASE}, NCCL_NOTE: "{TOKEN}x", HARMLESS: seen}}
workload: {{context_tokens: 16, output_tokens: 8, requests: 2}}
measure: {{launches: 1, warmup: 0}}
"""


def test_no_file_of_a_run_holds_a_secret_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(FILE)
    done = bench("run", "e.yaml", "--json", cwd=tmp_path)
    assert done.status == 0, done.err
    run = tmp_path / done.document["path"]
    for path in (path for path in run.rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert TOKEN.encode() not in content, path
        assert PHRASE.encode() not in content, path
    launch = (run / "launches" / "000" / "launch.json").read_text()
    assert '"HF_TOKEN": "***"' in launch and '"HARMLESS": "seen"' in launch
    again = bench("run", "e.yaml", "--resume", "--json", cwd=tmp_path)
    assert again.status == 0, again.err
    assert again.document["run"] == done.document["run"]
    assert TOKEN not in (run / "run.json").read_text()


def test_a_long_value_reaches_the_engine_whole(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(FILE.replace("HARMLESS: seen", f"NCCL_BIG: {'x' * 9000}"))
    done = bench("run", "e.yaml", "--json", cwd=tmp_path)
    assert done.status == 0, done.err

"""The articles' day of hunting as one command, on the stand-in engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

BUDGET = 45
"""Launches; 23 to 31 were seen. One suspect after the other, five times each, is 25 before any version."""


def test_one_command_names_the_kernel_library_its_release_and_verify(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchharness", "bisect", "run", "experiments/articles-hunt.yaml"),
            *("--factors", "--good", "before", "--bad", "after", "--metric", "verify_ms"),
            *("--most-launches", str(BUDGET), "--results", str(tmp_path / "results"), "--json"),
            *("-o", str(tmp_path / "page.md")),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["culprit"] == "packages.sgl-kernel 0.3.18"
    assert found["range"] == ["0.3.17", "0.3.18"]
    assert found["phase"] == "verify"
    assert found["low"] < 0.45 < found["high"] + 0.05  # 2.0 to 2.9 ms, and a little more with the context
    assert {one["what"] for one in found["eliminated"]} >= {
        "source",
        "packages.flashinfer-python",
        "env.ATTENTION_MODE",
        "env.NCCL_PROTO",
    }
    assert all(one["proven"] for one in found["swaps"]) and len(found["swaps"]) == 2
    page = (tmp_path / "page.md").read_text()
    assert "synthetic" in page and "verify_ms worse by +" in page

"""Bisections over real releases of a real engine, whose answers are known: two changes of llama.cpp."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def bisect(place: Path, experiment: Path, *more: str) -> dict[str, Any]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchharness", "bisect", "run", str(experiment), "--axis", "release"),
            *("--good", "2026.6.9713", "--bad", "2026.4.8672", *more),
            *("--results", str(place / "results"), "--json"),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_where_the_replay_fault_ended_is_found_by_a_program_of_ones_own(tmp_path: Path) -> None:
    found = bisect(tmp_path, ROOT / "experiments" / "llamacpp-replay.yaml", "--metric", "script_value")
    assert found["range"] == ["2026.5.9294", "2026.5.9093"]
    assert found["culprit"] == "release 2026.5.9093"
    assert found["change"] < -0.1
    assert found["launches"] <= 20


def test_where_the_default_of_p_min_changed_is_found_by_counts_of_drafts(tmp_path: Path) -> None:
    """Drafts below that confidence are not made; unset, releases from b9294 on make all of them."""
    document = {
        "name": "p-min",
        "engine": "llamacpp",
        "base": {
            "source": {"release": "2026.6.9713"},
            "model": {"recipe": "tiny-llama"},
            "args": {"speculative.draft.n_max": 4, "speculative.draft.p_min": "engine-default"},
        },
        "workload": {"context_tokens": 64, "output_tokens": 64, "requests": 3},
        "measure": {"warmup": 1},
    }
    (tmp_path / "p-min.yaml").write_text(json.dumps(document))
    found = bisect(tmp_path, tmp_path / "p-min.yaml", "--metric", "drafted_tokens")
    assert found["range"] == ["2026.5.9294", "2026.5.9093"]
    assert found["launches"] <= 20
    # b8672 and b9093 draft differently too: that there is a second change is said.
    assert any("more than one change" in warning for warning in found["warnings"])

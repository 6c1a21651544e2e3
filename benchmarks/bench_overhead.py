"""The harness's own share of a campaign's wall time.

Runs 20 launches of the stand-in engine, each with a start of 2 s and one request of 1 s, as a process of
its own. Overhead is the whole process's wall time (imports counted) less what was spent in starting the
engine, in requests, in stopping it, and in the client's self-test.

Must reach: at most 5 % of the wall time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAUNCHES = 20
EXPERIMENT = f"""\
name: overhead
engine: standin
base: {{args: {{start_s: 2.0, prefill_ms_per_1k: 0, speculation: false, step_ms: 10}}}}
workload: {{context_tokens: 128, output_tokens: 101, requests: 1}}
measure: {{launches: {LAUNCHES}, warmup: 0}}
"""


def main() -> None:
    """Print where the wall time went."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "overhead.yaml").write_text(EXPERIMENT)
        command = [sys.executable, "-m", "benchharness", "run", "overhead.yaml", "--json"]
        began = time.perf_counter()
        done = subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True)
        wall_s = time.perf_counter() - began
        run = folder / json.loads(done.stdout)["path"]
        launches = [json.loads(path.read_text()) for path in run.glob("launches/*/launch.json")]
        selftest_s = json.loads((run / "run.json").read_text())["client"]["took_s"]
    spent = {key: sum(one[key] for one in launches) for key in ("start_s", "requests_s", "stop_s")}
    overhead_s = wall_s - sum(spent.values()) - selftest_s
    print("| wall time of | s |\n|---|---|")
    rows = {
        "engine starts": spent["start_s"],
        "requests": spent["requests_s"],
        "engine stops": spent["stop_s"],
    }
    for label, seconds in {**rows, "self-test": selftest_s, "everything else": overhead_s}.items():
        print(f"| {label} | {seconds:.2f} |")
    share = overhead_s / (wall_s - selftest_s)
    print(f"\n{LAUNCHES} launches, {wall_s:.1f} s; overhead {share:.2%} (must be at most 5 %)")
    sys.exit(share > 0.05)


if __name__ == "__main__":
    main()

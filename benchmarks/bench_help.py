"""How long `benchharness --help` takes beside a bare `import click`, in turn, in one run.

Must reach: a ratio of at most 2 at the median.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
HELP = [str(Path(sys.executable).with_name("benchharness")), "--help"]
CLICK = [sys.executable, "-c", "import click"]


def seconds(argv: list[str]) -> float:
    """Wall seconds of one process."""
    began = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    """Print both medians and the median of the pairwise ratios."""
    seconds(HELP), seconds(CLICK)
    pairs = [(seconds(HELP), seconds(CLICK)) for _ in range(ROUNDS)]
    ratio = statistics.median(first / second for first, second in pairs)
    print("| command | median ms |\n|---|---|")
    for name, column in (("benchharness --help", 0), ('python -c "import click"', 1)):
        print(f"| `{name}` | {1000 * statistics.median(pair[column] for pair in pairs):.0f} |")
    print(f"\nratio {ratio:.2f} (median of {ROUNDS} pairs; must be at most 2)")
    sys.exit(ratio > 2)


if __name__ == "__main__":
    main()

"""Draws docs/quickstart.svg: what `benchharness show` prints for the published quickstart run."""

from __future__ import annotations

import io
import os
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from benchharness.report import run_view
from benchharness.store import find, open_run

ROOT = Path(__file__).parent.parent
WIDTH = 104


def main() -> None:
    """Write the picture."""
    os.chdir(ROOT)
    path = find(Path("results/published"), "quickstart")
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
    console.print("[bold]$ make demo[/bold]")
    run_view.show(console, open_run(path))
    svg = console.export_svg(title="benchharness run experiments/quickstart.yaml", theme=MONOKAI)
    (ROOT / "docs" / "quickstart.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()

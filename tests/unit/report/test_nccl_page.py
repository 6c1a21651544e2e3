"""docs/nccl.md and the runs that it quotes can't part: the page is made from them, figure by figure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


def test_the_page_is_what_the_published_runs_say() -> None:
    page = REPOSITORY / "docs" / "nccl.md"
    made = subprocess.run(
        [sys.executable, page.with_name("nccl_page.py")], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout == page.read_text(encoding="utf-8"), "python docs/nccl_page.py > docs/nccl.md"

"""Ctrl-C while a bundle is being compressed: it ends soon, not after minutes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

WRITE = """
import sys
from pathlib import Path
from benchharness.stack.bundles import archives
from benchharness.stack.bundles.tree import Tree, TreeFile
big, folder = Path(sys.argv[1]), Path(sys.argv[2])
print("compressing", flush=True)
archives.write({"0": Tree((TreeFile("a", big, 0o644, "d", False),), ())}, folder, 1 << 20, "x86_64")
"""


def test_an_interrupt_ends_the_compression(tmp_path: Path) -> None:
    big = tmp_path / "big"
    # What can't be compressed takes xz longest: a minute and more for this.
    big.write_bytes(os.urandom(96 << 20))
    (tmp_path / "bundle").mkdir()
    running = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(big), str(tmp_path / "bundle")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None and running.stdout.readline() == "compressing\n"
    time.sleep(1.5)
    running.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, said = running.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    written = sum(path.stat().st_size for path in (tmp_path / "bundle").iterdir())
    assert written < 60 << 20, f"went on for {time.monotonic() - began:.0f} s"

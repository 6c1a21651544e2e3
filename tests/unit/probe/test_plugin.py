"""The probe by SGLang's own plugin group, where no sitecustomize of ours runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_sglang import lay_out

from benchharness.stack.probing import PLUGIN, PROBE
from benchharness.timings import probe_file
from benchharness.timings.probe_file import ProbeFile

# As 0.5.11 and later find and run their plugins.
LOADER = """
import os
from importlib.metadata import entry_points

_loaded = False

def load_plugins():
    global _loaded
    if _loaded:
        return
    _loaded = True
    allowed = {name for name in os.environ.get("SGLANG_PLUGINS", "").split(",") if name}
    for point in entry_points(group="sglang.srt.plugins"):
        if not allowed or point.name in allowed:
            print("plugin", point.name, point.dist.name, flush=True)
            point.load()()
"""
IN_BOTH = 2 * "plugin benchharness benchharness-probe\n"
IN_THE_PARENT = """
    from sglang.srt.plugins import load_plugins
    load_plugins()
"""
CALLED = """
from sglang.srt.plugins import load_plugins
_run = run_scheduler_process

def run_scheduler_process(gpu_id, tp_rank, job):
    load_plugins()
    _run(gpu_id, tp_rank, job)
"""


def engine(folder: Path) -> Path:
    """An engine with the plugin loader of later releases."""
    script = lay_out(folder, "v2")
    plugins = folder / "sglang" / "srt" / "plugins"
    plugins.mkdir()
    (plugins / "__init__.py").write_text(LOADER)
    script.write_text(script.read_text().replace("def main():\n", f"def main():{IN_THE_PARENT}"))
    scheduler = folder / "sglang" / "srt" / "managers" / "scheduler.py"
    scheduler.write_text(scheduler.read_text() + CALLED)
    return script


def run(
    folder: Path, *options: str, before: Path | None = None, **more: str
) -> tuple[str, tuple[ProbeFile, ...]]:
    """Run it to its end; what it printed, and the files of its processes, ranks first."""
    script = engine(folder)
    written = folder / "written"
    written.mkdir()
    places = [str(place) for place in (before, PROBE, PLUGIN, folder) if place is not None]
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(places),
        "BENCHHARNESS_PROBE_DIR": str(written),
        **more,
    }
    done = subprocess.run(
        [sys.executable, *options, script, "3", "1"],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout, probe_file.read_folder(written)


@pytest.fixture
def hiding(tmp_path: Path) -> Path:
    """A folder with a sitecustomize that stands before ours and runs no other."""
    folder = tmp_path / "hiding"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("")
    return folder


def test_a_worker_without_our_sitecustomize_is_timed_as_a_plugin(tmp_path: Path, hiding: Path) -> None:
    printed, (worker, parent) = run(tmp_path, before=hiding)
    assert printed == IN_BOTH
    assert worker.report.came_by == worker.report.process.came_by == parent.report.came_by == "plugin"
    assert worker.report.rank == 0
    assert [row.mode for row in worker.rows] == ["prefill", "decode", "decode", "decode"]
    assert {row.accepted for row in worker.rows[1:]} == {(3,)}
    assert all(row.host.draft and row.host.verify and row.host.draft_extend for row in worker.rows[1:])


def test_an_interpreter_without_site_is_reached_too(tmp_path: Path) -> None:
    _, (worker, _) = run(tmp_path, "-S")
    assert worker.report.came_by == "plugin"
    assert len(worker.rows) == 4


def test_with_our_sitecustomize_nothing_comes_twice(tmp_path: Path) -> None:
    printed, (worker, parent) = run(tmp_path)
    assert printed == ""
    assert worker.report.came_by == parent.report.came_by == "sitecustomize"
    assert [row.seq for row in worker.rows] == [1, 2, 3, 4]
    assert len(set(worker.report.hooks)) == len(worker.report.hooks)


def test_a_plugin_on_top_of_sitecustomize_changes_nothing(tmp_path: Path) -> None:
    """Somebody may put the folder back onto sys.path."""
    script = engine(tmp_path)
    source = script.read_text()
    script.write_text(f"import sys\nsys.path.append({str(PLUGIN)!r})\n{source}")
    written = tmp_path / "written"
    written.mkdir()
    done = subprocess.run(
        [sys.executable, script, "3", "1"],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{PROBE}{os.pathsep}{tmp_path}",
            "BENCHHARNESS_PROBE_DIR": str(written),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == IN_BOTH
    worker, parent = probe_file.read_folder(written)
    assert worker.report.came_by == parent.report.came_by == "sitecustomize"
    assert [row.seq for row in worker.rows] == [1, 2, 3, 4]


def test_a_filter_of_the_user_s_own_is_left_alone(tmp_path: Path, hiding: Path) -> None:
    assert run(tmp_path, before=hiding, SGLANG_PLUGINS="mine") == ("", ())


def test_without_a_folder_the_plugin_does_nothing(tmp_path: Path, hiding: Path) -> None:
    printed, files = run(tmp_path, before=hiding, BENCHHARNESS_PROBE_DIR="")
    assert printed == IN_BOTH
    assert files == ()

"""The site customisation of the CPU kernels, in real interpreters with a torch of a few lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchharness.stack.engines.sglang_environment import CPU_KERNELS

TORCH = """
class _Cpu:
    @staticmethod
    def _is_amx_tile_supported():
        return False

class _Library:
    defined = []
    class Library:
        def __init__(self, name, kind): pass
        def define(self, schema): _Library.defined.append(schema.split("(")[0])

cpu, library = _Cpu(), _Library()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in {
        "torch": TORCH,
        "torchvision": "import torch; seen = list(torch.library.defined)",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
    return tmp_path


def python(code: str, *path: Path) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run((sys.executable, "-c", code), env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_torch_reports_amx_tiles(place: Path) -> None:
    code = "import torch; print(torch.cpu._is_amx_tile_supported(), torch.__spec__.loader.__class__.__name__)"
    assert python(code, place) == "False SourceFileLoader"
    assert python(code, CPU_KERNELS, place) == "True SourceFileLoader"


def test_torchvisions_operators_are_declared_before_it_is_imported(place: Path) -> None:
    assert python("import torchvision; print(torchvision.seen)", CPU_KERNELS, place) == "['nms', 'qnms']"
    assert python("import torch; print(torch.library.defined)", CPU_KERNELS, place) == "[]"


def test_nothing_is_imported_by_itself(place: Path) -> None:
    code = "import sys; print({'torch', 'torchvision', 'sgl_kernel'} & set(sys.modules))"
    assert python(code, CPU_KERNELS, place) == "set()"


def test_the_users_own_site_customisation_still_runs(place: Path) -> None:
    (place / "sitecustomize.py").write_text("import builtins; builtins.mine = __file__")
    code = "import sitecustomize; print(mine == sitecustomize.__file__, mine)"
    assert python(code, CPU_KERNELS, place) == f"True {place / 'sitecustomize.py'}"


def test_it_works_as_the_next_one_of_another_site_customisation(place: Path) -> None:
    """A probe that stands first on the path runs ours by its file."""
    first = place / "first"
    first.mkdir()
    (first / "sitecustomize.py").write_text(
        f"import runpy\nrunpy.run_path({str(CPU_KERNELS / 'sitecustomize.py')!r})\n"
    )
    (place / "sitecustomize.py").write_text("import builtins; builtins.mine = True")
    code = "import torch; print(torch.cpu._is_amx_tile_supported(), mine)"
    assert python(code, first, CPU_KERNELS, place) == "True True"

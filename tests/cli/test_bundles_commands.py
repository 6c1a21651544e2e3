"""`env pack`, `install.py` and `env unpack`, as one would use them for a host without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from commandline import bench

HERE = ".".join(map(str, sys.version_info[:2]))


def wheel(folder: Path, name: str, version: str, files: dict[str, str], *requires: str) -> None:
    info = f"{name}-{version}.dist-info"
    asked = "".join(f"Requires-Dist: {line}\n" for line in requires)
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{asked}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, content in {**contents, f"{info}/RECORD": record}.items():
            archive.writestr(path, content)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An experiment whose engine comes from a folder of wheels, where no network is."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    pins = ("torch==2.11.0+own", "sglang-kernel==0.4.2.post2", "kernels")
    wheel(wheels, "sglang", "0.5.999", {"sglang/__init__.py": ""}, *pins)
    wheel(wheels, "sglang_kernel", "0.4.999", {"sgl_kernel/__init__.py": "", "sgl_kernel/flash_ops.so": "x"})
    wheel(wheels, "torch", "2.11.0+own", {"torch/__init__.py": ""})
    document = {
        "name": "packed",
        "engine": "sglang",
        "base": {
            "source": {"release": "0.5.999"},
            "packages": {"sglang-kernel": "0.4.999", "kernels": None},
            "find_links": [str(wheels)],
            "model": {"path": "some/model"},
        },
        "workload": {"context_tokens": 16, "output_tokens": 8},
    }
    (tmp_path / "packed.yaml").write_text(json.dumps(document))
    return tmp_path


def own_packages() -> str:
    """What `pip list` would print of this interpreter, the harness aside."""
    from importlib.metadata import distributions

    return "".join(
        f"{one.metadata['Name']}=={one.version}\n"
        for one in distributions()
        if one.metadata["Name"] not in ("benchharness", "torch")
    )


def test_from_one_host_to_another(place):
    cache = place / "cache"
    packed = bench(
        "env", "pack", "packed.yaml", "-o", "bundle", "--omit", "sgl_kernel/flash_ops*", "--json", cwd=place
    )
    assert packed.status == 0, packed.err
    (row,) = packed.document["environments"]
    assert row["packages"] == ["sglang-kernel==0.4.999", "sglang==0.5.999", "torch==2.11.0+own"]
    unpacked = bench("env", "unpack", "bundle", "--cache", cache, "--json", cwd=place)
    assert unpacked.status == 0, unpacked.err
    (one,) = unpacked.document["environments"]
    built = bench("env", "build", "packed.yaml", "--cache", cache, "--json", cwd=place)
    (ready,) = built.document["environments"]
    assert (ready["key"], ready["built_s"]) == (one["key"], 0.0)
    listed = bench("env", "list", "--cache", cache, cwd=place)
    assert "sgl_kernel/flash_ops*" in " ".join(listed.out.split())
    swept = bench("env", "gc", "--days", "0", "--cache", cache, "--json", cwd=place)
    assert [kept["key"] for kept in swept.document["environments"]] == [one["key"]]
    assert swept.document["layer_bytes"] > 0


def test_the_harness_comes_along(place):
    (place / "host.txt").write_text(own_packages())
    packed = bench(
        *("env", "pack", "packed.yaml", "-o", "bundle", "--with-harness", "--host-packages", "host.txt"),
        cwd=place,
        env={"PIP_NO_INDEX": "0", "UV_OFFLINE": "0"},
    )
    assert packed.status == 0, packed.err
    elsewhere = place / "it's elsewhere"
    (place / "bundle").rename(elsewhere)
    command = [sys.executable, str(elsewhere / "install.py"), "--venv", "new", "--cache", "cache"]
    installed = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert installed.returncode == 0, installed.stderr
    program = place / "new" / "bin" / "benchharness"
    code = "import benchharness, uv; print(benchharness.__file__)"
    said = subprocess.run(
        [place / "new" / "bin" / "python", "-c", code], cwd=place, capture_output=True, text=True
    )
    assert said.stdout.startswith(str(place / "new")), said.stderr
    built = subprocess.run(
        [program, "env", "build", "packed.yaml", "--cache", "cache", "--json"],
        cwd=place,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert [one["built_s"] for one in json.loads(built.stdout)["environments"]] == [0.0]
    again = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert (again.returncode, "exists: choose another folder" in again.stderr) == (5, True)


def test_install_refuses_a_host_that_does_not_fit(place):
    other = "3.13" if HERE != "3.13" else "3.12"
    asked = ("env", "pack", "packed.yaml", "--with-harness", "--host-packages", "host.txt")
    (place / "host.txt").write_text(own_packages())
    network = {"PIP_NO_INDEX": "0", "UV_OFFLINE": "0"}
    packed = bench(*asked, "-o", "other", "--python", other, cwd=place, env=network)
    assert packed.status == 0, packed.err
    command = [sys.executable, str(place / "other" / "install.py"), "--venv", str(place / "new")]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 5
    assert f"the bundle is for Python {other}" in refused.stderr
    assert not (place / "new").exists()


def test_a_damaged_bundle_and_wrong_words_are_refused(place):
    bench("env", "pack", "packed.yaml", "-o", "bundle", cwd=place)
    (part,) = (place / "bundle").glob("engine-text.tar.xz.00")
    part.write_bytes(part.read_bytes()[:-7])
    bench("env", "unpack", "bundle", "--cache", "cache", cwd=place).refused(5, part.name, "damaged")
    part.unlink()
    bench("env", "unpack", "bundle", "--cache", "cache", cwd=place).refused(5, part.name, "missing")
    bench("env", "unpack", "nowhere", cwd=place).refused(2, "nowhere")
    bench("env", "pack", "packed.yaml", "-o", "bundle", cwd=place).refused(2, "is not empty")
    asked = ("env", "pack", "packed.yaml", "-o", "b", "--set")
    bench(*asked, "base.packages.torch=9.9", cwd=place).refused(5, "no wheel of torch==9.9")
    bench(*asked, "base.python=3.9", cwd=place).refused(2, "declares `python: 3.9`")

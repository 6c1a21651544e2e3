"""Packages free to differ from an engine's pins: overridden, left out, or the host's own; and no index."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
from dataclasses import replace

import pytest
from madewheels import wheel

from benchharness.errors import UnbuildableError
from benchharness.records import Environment, EnvironmentSpec, Source, Stack
from benchharness.stack import attestation
from benchharness.stack.engines import sglang_environment
from benchharness.stack.environments import ensure, installed, key_of
from benchharness.stack.uv import find_uv_bin


@pytest.fixture(autouse=True)
def wheels(tmp_path, monkeypatch):
    """A folder of wheels as the only place that packages come from."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    folder = tmp_path / "wheels"
    wheel(folder, "engine", "1.0", {"engine.py": "import kernel"}, requires=("kernel==1.0", "extra>=2"))
    for version in ("1.0", "2.0"):
        wheel(folder, "kernel", version, {"kernel.py": f"version = {version!r}"})
    wheel(folder, "extra", "2.0", {"extra.py": ""})
    return folder


def spec(wheels, *lines, **fields):
    return EnvironmentSpec(requirements=lines, find_links=(str(wheels),), **fields)


def run(environment: Environment, code: str) -> str:
    ended = subprocess.run([environment.python_path, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_an_override_wins_over_an_exact_pin_and_is_told(wheels, tmp_path):
    both = ("engine==1.0", "kernel==2.0")
    with pytest.raises(UnbuildableError):
        ensure(spec(wheels, *both), tmp_path)
    made = ensure(spec(wheels, *both, overrides=("kernel==2.0",)), tmp_path)
    assert made.packages == {"engine": "1.0", "extra": "2.0", "kernel": "2.0"}
    assert made.broken_pins == {"kernel": "==1.0 -> 2.0"}
    assert {one.key: one.broken_pins for one in installed(tmp_path)}[made.key] == made.broken_pins
    assert ensure(spec(wheels, "engine==1.0"), tmp_path).broken_pins == {}


def test_what_is_left_out_stays_out_whoever_asks_for_it(wheels, tmp_path):
    made = ensure(spec(wheels, "engine==1.0", excludes=("extra",)), tmp_path)
    assert made.packages == {"engine": "1.0", "kernel": "1.0"}


def test_a_wheel_that_is_missing_is_named(wheels, tmp_path):
    with pytest.raises(UnbuildableError, match=r"no wheel of kernel==3\.0 is in the folders of wheels"):
        ensure(spec(wheels, "kernel==3.0"), tmp_path)
    with pytest.raises(UnbuildableError, match="no wheel of nowhere is in the folders of wheels"):
        ensure(spec(wheels, "nowhere==1.0"), tmp_path)


def test_keys_of_what_uses_none_of_this_are_as_ever():
    plain = EnvironmentSpec("9.9", ("b==1", "a==2"), imports=("a",))
    content = {
        "layout": 1,
        "machine": [sys.platform, platform.machine()],
        "python": "9.9",
        "requirements": ["a==2", "b==1"],
        "no_deps": False,
        "find_links": [],
        "extra_index_urls": [],
        "imports": ["a"],
    }
    assert key_of(plain) == hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    others = [replace(plain, **{name: ("x",)}) for name in ("overrides", "excludes", "host")]
    assert len({key_of(one) for one in (plain, *others)}) == 4


@pytest.fixture
def host(wheels, tmp_path, monkeypatch):
    """An interpreter with packages of its own, some in a shared folder."""
    folder = tmp_path / "host"
    wheel(
        wheels,
        "hosttorch",
        "2.11.0+cu130",
        {"hosttorch/__init__.py": "import shared.libs", "shared/torch/data.txt": "t"},
        requires=("hostlibs==1.0", "extra>=1", "nothere>=1", "onlywindows; sys_platform == 'win32'"),
    )
    wheel(wheels, "hostlibs", "1.0", {"shared/libs/__init__.py": "", "hostlibs_single.py": ""})
    wheel(wheels, "stranger", "1.0", {"stranger.py": "", "shared/stranger/__init__.py": ""})
    wheel(wheels, "onlywindows", "1.0", {"onlywindows.py": ""})
    wheel(wheels, "extra", "1.0", {"extra.py": ""})
    uv = [find_uv_bin(), "-q"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(folder)], check=True)
    names = ("hosttorch", "hostlibs", "stranger", "extra==1.0", "onlywindows")
    options = ("--no-index", "--no-deps", "--find-links", str(wheels))
    python = str(folder / "bin" / "python")
    subprocess.run([*uv, "pip", "install", "--python", python, *options, *names], check=True)
    monkeypatch.setenv("BENCHHARNESS_HOST_PYTHON", python)
    return folder


def test_a_host_s_package_comes_with_what_it_requires_and_with_nothing_else(host, wheels, tmp_path):
    made = ensure(spec(wheels, "kernel==1.0", host=("hosttorch",), imports=("hosttorch",)), tmp_path)
    assert made.packages == {
        "extra": "1.0", "hostlibs": "1.0", "hosttorch": "2.11.0+cu130", "kernel": "1.0"
    }  # fmt: skip
    assert made.from_host == ("extra", "hostlibs", "hosttorch")
    said = run(
        made,
        "import hosttorch, os, shared; print(os.path.realpath(hosttorch.__file__), list(shared.__path__))",
    )
    assert str(host) in said and made.path in said
    names = ("stranger", "shared.stranger", "onlywindows")
    missing = f"import importlib.util as u; print([u.find_spec(name) for name in {names}])"
    assert run(made, missing) == "[None, None, None]"


def test_what_the_environment_has_already_is_not_taken_from_the_host(host, wheels, tmp_path):
    made = ensure(spec(wheels, "extra==2.0", host=("hosttorch",)), tmp_path)
    assert made.packages["extra"] == "2.0"
    assert made.from_host == ("hostlibs", "hosttorch")


def test_a_host_s_package_is_not_sought_on_an_index(host, wheels, tmp_path):
    wheel(wheels, "model", "1.0", {"model.py": "import hosttorch"}, requires=("hosttorch==9.9",))
    made = ensure(spec(wheels, "model==1.0", host=("hosttorch",), imports=("model",)), tmp_path)
    assert made.packages["hosttorch"] == "2.11.0+cu130"
    assert made.broken_pins == {"hosttorch": "==9.9 -> 2.11.0+cu130"}


def test_a_package_that_the_host_lacks_is_named(host, wheels, tmp_path):
    with pytest.raises(UnbuildableError, match="the host's Python has no package cupy"):
        ensure(spec(wheels, host=("cupy",)), tmp_path)


def sglang(**packages):
    return Stack("s", "sglang", Source(release="0.5.12"), packages=packages)


def test_declared_packages_of_sglang_on_cuda():
    wanted = sglang_environment.environment(sglang(sglang_kernel="0.4.4", torch="host", kernels=None))
    assert wanted.requirements == ("sglang-kernel==0.4.4", "sglang==0.5.12")
    assert (wanted.overrides, wanted.host, wanted.excludes) == (
        ("sglang-kernel==0.4.4",),
        ("torch",),
        ("kernels",),
    )


@pytest.mark.parametrize(
    ("declared", "found", "fits"),
    [("host", "2.11.0+cu130", True), ("host", None, False), (None, None, True), (None, "1.0", False)],
)
def test_host_and_left_out_packages_are_attested(declared, found, fits):
    packages = {} if found is None else {"torch": found}
    environment = Environment("k", "p", "py", "3.12", packages, omitted=("x/*",), from_host=("torch",))
    taken = attestation.take(
        sglang(torch=declared), {}, attestation.EngineFacts(), environment, (), lambda _: ""
    )
    assert [mismatch.name for mismatch in taken.mismatches] == ([] if fits else ["packages.torch"])
    assert taken.settings["omitted_from_environment"] == ["x/*"]
    assert taken.settings["packages_from_host"] == ["torch"]

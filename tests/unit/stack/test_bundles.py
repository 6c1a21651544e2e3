"""Bundles: packed with the real uv from small wheels, laid out without a network, refused when damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from madewheels import wheel

from benchharness.errors import InfrastructureError, UnbuildableError, UsageError
from benchharness.records import EnvironmentSpec
from benchharness.stack import environments, layers, shelf
from benchharness.stack.bundles import Options, Target, Wanted, pack, target, unpack

HERE = ".".join(map(str, sys.version_info[:2]))
LIBRARY = 'int engine_answer(void) { static const char name[] = "%s"; return name[0]; }'


@pytest.fixture(autouse=True)
def wheels(tmp_path, monkeypatch):
    """A folder of wheels as the only place that packages come from."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    folder = tmp_path / "wheels"
    for version in ("1.0", "2.0"):
        files = {"engine/__init__.py": f"import base\nversion = {version!r}\ndef main(): print(version)\n"}
        wheel(folder, "engine", version, files, requires=("base", "heavy"), scripts={"engine": "engine:main"})
    wheel(
        folder,
        "base",
        "1.0",
        {"base.py": "# " + "shared by both " * 2000, "base_data/big.bin": os.urandom(9999)},
    )
    wheel(folder, "heavy", "1.0", {"heavy/__init__.py": "", "heavy/flash_ops.bin": b"\0" * 5000})
    wheel(folder, "heavy", "2.0", {"heavy/__init__.py": ""})
    return folder


def spec(wheels, *lines, **fields):
    return EnvironmentSpec(requirements=lines, find_links=(str(wheels),), imports=("engine",), **fields)


def options(**fields):
    fields.setdefault("target", target(None, None, None, ()))
    return Options(**fields)


def packed(wheels, tmp_path, *lines, chosen=None, **fields):
    wanted = [Wanted((line,), spec(wheels, line, **fields)) for line in lines]
    return pack(wanted, tmp_path / "bundle", chosen or options(), lambda _: None)


def unpacked(bundle, cache):
    return unpack(bundle.folder, cache, lambda _: None)


def files_of(environment):
    (site,) = Path(environment.path).glob("lib/python*/site-packages")
    return {str(path.relative_to(site)): path for path in site.rglob("*") if path.is_file()}


def test_every_environment_stands_where_it_is_looked_for(wheels, tmp_path):
    bundle = packed(wheels, tmp_path, "engine==1.0", "engine==2.0")
    cache = tmp_path / "cache"
    for line, one in zip(("engine==1.0", "engine==2.0"), unpacked(bundle, cache), strict=True):
        assert (one.stacks, one.reason) == ((line,), "")
        found = environments.ensure(spec(wheels, line), cache)
        assert (found.key, found.built_s) == (one.environment.key, 0.0)
        assert found.packages == {"base": "1.0", "engine": line[-3:], "heavy": "2.0"}
        script = subprocess.run([f"{found.path}/bin/engine"], capture_output=True, text=True, check=True)
        assert script.stdout.strip() == line[-3:]
        assert found.omitted == ()


def test_equal_files_are_packed_once_and_linked(wheels, tmp_path):
    one = packed(wheels, tmp_path / "one", "engine==1.0")
    both = packed(wheels, tmp_path / "both", "engine==1.0", "engine==2.0")
    assert both.packed_bytes < one.packed_bytes + 2000  # the random 9999 bytes are there once
    first, second = (found.environment for found in unpacked(both, tmp_path / "cache"))
    shared = [files_of(one)["base_data/big.bin"].stat() for one in (first, second)]
    assert shared[0].st_ino == shared[1].st_ino
    assert shared[0].st_nlink == 3  # and in the store


def test_unpacking_again_reads_nothing(wheels, tmp_path):
    bundle = packed(wheels, tmp_path, "engine==1.0")
    (first,) = unpacked(bundle, tmp_path / "cache")
    for part in bundle.folder.glob("*.xz.*"):
        part.unlink()
    (again,) = unpacked(bundle, tmp_path / "cache")
    assert again.environment.key == first.environment.key
    assert again.environment.built_s == 0.0


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_part_that_is_damaged_or_missing_is_named(wheels, tmp_path, harm):
    bundle = packed(wheels, tmp_path, "engine==1.0", chosen=options(part_bytes=4096))
    parts = sorted(bundle.folder.glob("*.xz.*"))
    assert len(parts) > 2
    assert {part.stat().st_size for part in parts[:-1]} == {4096}
    content = bytearray(parts[1].read_bytes())
    if harm == "flip":
        content[100] ^= 1
    parts[1].write_bytes(content[:-1] if harm == "cut" else content)
    if harm == "remove":
        parts[1].unlink()
    word = "is missing" if harm == "remove" else "is damaged"
    with pytest.raises(InfrastructureError, match=f"{parts[1].name} {word}") as caught:
        unpacked(bundle, tmp_path / "cache")
    assert parts[2].name not in str(caught.value)
    assert environments.installed(tmp_path / "cache") == ()


def test_what_is_no_bundle_is_refused(wheels, tmp_path):
    with pytest.raises(UsageError, match="is no bundle"):
        unpack(tmp_path, tmp_path / "cache", lambda _: None)
    with pytest.raises(UsageError, match="is no bundle"):
        unpack(tmp_path / "none", tmp_path / "cache", lambda _: None)
    bundle = packed(wheels, tmp_path, "engine==1.0")
    with pytest.raises(UsageError, match="is not empty"):
        packed(wheels, tmp_path, "engine==1.0")
    manifest = bundle.folder / "bundle.json"
    manifest.write_text(manifest.read_text()[:50])
    with pytest.raises(InfrastructureError, match="is damaged"):
        unpacked(bundle, tmp_path / "cache")


def test_what_is_left_out_is_never_forgotten(wheels, tmp_path):
    chosen = options(omit=("*/flash_ops*", "nothing/*"), without=("base", "notasked"))
    bundle = packed(wheels, tmp_path, "engine==1.0", overrides=("heavy==1.0",), chosen=chosen)
    wheel(wheels, "base", "1.0", {"base.py": ""})
    (one,) = unpacked(bundle, tmp_path / "cache")
    assert one.environment is None  # engine imports base
    assert "No module named 'base'" in one.reason
    lean = spec(wheels, "heavy==1.0")
    lean = EnvironmentSpec(requirements=lean.requirements, find_links=lean.find_links)
    bundle = pack([Wanted(("lean",), lean)], tmp_path / "lean", chosen, lambda _: None)
    (one,) = unpacked(bundle, tmp_path / "cache")
    assert one.environment.omitted == ("*/flash_ops*",)
    assert "heavy/flash_ops.bin" not in files_of(one.environment)
    assert environments.ensure(lean, tmp_path / "cache").omitted == ("*/flash_ops*",)
    assert bundle.manifest["environments"][0]["omitted_bytes"] == 5000


def test_a_package_left_out_is_recorded_if_it_would_have_been_in(wheels, tmp_path):
    chosen = options(without=("heavy", "notasked"))
    bundle = packed(wheels, tmp_path, "engine==1.0", chosen=chosen)
    (one,) = unpacked(bundle, tmp_path / "cache")
    assert one.environment.omitted == ("heavy (package)",)
    assert "heavy" not in one.environment.packages


def test_libraries_are_stripped_and_still_load(wheels, tmp_path):
    source, library = tmp_path / "a.c", tmp_path / "a.so"
    source.write_text(LIBRARY % ("*" * 100))
    subprocess.run(["cc", "-g3", "-shared", "-fPIC", "-o", library, source], check=True)
    wheel(wheels, "native", "1.0", {
        "native/__init__.py": "import ctypes, os\nlib = ctypes.CDLL(os.path.dirname(__file__) + '/a.so')",
        "native/a.so": library.read_bytes(),
        "native.libs/a.so": library.read_bytes() + b"\0",
    })  # fmt: skip
    asked = EnvironmentSpec(requirements=("native==1.0",), find_links=(str(wheels),), imports=("native",))
    bundle = pack([Wanted(("n",), asked)], tmp_path / "bundle", options(strip=True), lambda _: None)
    (one,) = unpacked(bundle, tmp_path / "cache")
    assert one.reason == ""
    found = files_of(one.environment)
    size = library.stat().st_size
    assert found["native/a.so"].stat().st_size < 0.95 * size
    assert found["native.libs/a.so"].stat().st_size == size + 1  # strip breaks what patchelf has made
    assert bundle.manifest["environments"][0]["stripped_bytes"] == size - found["native/a.so"].stat().st_size


def test_the_host_brings_what_fits_and_the_bundle_the_rest(wheels, tmp_path, monkeypatch):
    wheel(wheels, "only_for_heavy", "1.0", {"only_for_heavy.py": ""})
    wheel(
        wheels, "heavy", "3.0", {"heavy/__init__.py": "", "heavy/own.txt": ""}, requires=("only_for_heavy",)
    )
    host = tmp_path / "host"
    uv = [environments.uv.find_uv_bin(), "-q"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(host)], check=True)
    python = str(host / "bin" / "python")
    install = [*uv, "pip", "install", "--no-index", "--no-deps", "--find-links", str(wheels)]
    subprocess.run([*install, "--python", python, "heavy==3.0", "only_for_heavy"], check=True)
    monkeypatch.setenv("BENCHHARNESS_HOST_PYTHON", python)
    there = target(HERE, None, None, ("heavy==3.0", "only-for-heavy==1.0", "base==0.9", "unrelated"))
    bundle = packed(wheels, tmp_path, "engine==1.0", chosen=options(target=there))
    (row,) = bundle.manifest["environments"]
    assert row["packages"] == ["base==1.0", "engine==1.0"]
    assert row["from_host"] == ["heavy", "only-for-heavy"]
    (one,) = unpacked(bundle, tmp_path / "cache")
    assert one.environment.packages == {
        "base": "1.0", "engine": "1.0", "heavy": "3.0", "only-for-heavy": "1.0"
    }  # fmt: skip
    assert one.environment.from_host == ("heavy", "only-for-heavy")
    (own,) = Path(one.environment.path).glob("lib/python*/site-packages/heavy/own.txt")
    assert own.resolve().is_relative_to(host)
    # A host that lacks it makes the environment unbuildable, and says which package it is.
    monkeypatch.setenv("BENCHHARNESS_HOST_PYTHON", sys.executable)
    (other,) = unpacked(bundle, tmp_path / "other cache")
    assert "has no package heavy" in other.reason


def test_what_a_host_s_package_needs_is_packed_if_the_host_has_no_such_package(wheels, tmp_path):
    wheel(wheels, "needed", "1.0", {"needed.py": ""})
    wheel(wheels, "heavy", "3.0", {"heavy/__init__.py": ""}, requires=("needed",))
    there = target(HERE, None, None, ("heavy",))
    bundle = packed(wheels, tmp_path, "engine==1.0", chosen=options(target=there))
    (row,) = bundle.manifest["environments"]
    assert row["packages"] == ["base==1.0", "engine==1.0", "needed==1.0"]


def test_a_pinned_package_of_unknown_version_is_not_left_to_the_host(wheels, tmp_path):
    there = target(HERE, None, None, ("engine", "base"))
    bundle = packed(wheels, tmp_path, "engine==1.0", chosen=options(target=there))
    (row,) = bundle.manifest["environments"]
    assert (row["packages"], row["from_host"]) == (["engine==1.0", "heavy==2.0"], ["base"])


def test_lists_of_packages_are_read_as_pip_prints_them(tmp_path):
    listed = tmp_path / "list.txt"
    listed.write_text(
        "Package    Version\n---------- -----------\nTorch_Audio 2.11.0+cu130\nsix==1.17.0\n"
        "editable-one @ file:///home/me/one\nbare\n\n# a remark\n"
    )
    assert target("3.12", None, listed, ("numpy",)).packages == {
        "torch-audio": "2.11.0+cu130", "six": "1.17.0", "editable-one": None, "bare": None, "numpy": None
    }  # fmt: skip
    listed.write_text("what is this line\n")
    with pytest.raises(UsageError, match=r"list\.txt:1: .* is no package"):
        target("3.12", None, listed, ())


def test_a_bundle_for_another_python_is_refused(wheels, tmp_path):
    other = "3.13" if HERE != "3.13" else "3.12"
    bundle = packed(wheels, tmp_path, "engine==1.0", chosen=options(target=target(other, None, None, ())))
    with pytest.raises(InfrastructureError, match=f"is for Python {other}, and the harness runs on {HERE}"):
        unpacked(bundle, tmp_path / "cache")
    with pytest.raises(UsageError, match=r"declares `python: 3\.9`"):
        packed(wheels, tmp_path / "x", "engine==1.0", python="3.9")
    with pytest.raises(UsageError, match="no version of Python"):
        target("three", None, None, ())


def test_an_unresolvable_environment_is_told_and_leaves_nothing(wheels, tmp_path):
    with pytest.raises(UnbuildableError, match=r"no wheel of engine==9\.0"):
        packed(wheels, tmp_path, "engine==9.0")
    assert not (tmp_path / "bundle").exists()
    assert "engine==9.0" in (tmp_path / "bundle.log").read_text()


def test_an_environment_of_nothing_can_be_packed(tmp_path):
    bundle = pack([Wanted(("empty",), EnvironmentSpec())], tmp_path / "bundle", options(), lambda _: None)
    (one,) = unpacked(bundle, tmp_path / "cache")
    assert one.environment.packages == {}


def test_passwords_of_indexes_stay_here(wheels, tmp_path):
    asked = spec(wheels, "engine==1.0", extra_index_urls=("http://user:secret@127.0.0.1:9/simple",))
    bundle = pack([Wanted(("s",), asked)], tmp_path / "bundle", options(), lambda _: None)
    assert [path for path in bundle.folder.iterdir() if b"secret" in path.read_bytes()] == []
    (one,) = unpacked(bundle, tmp_path / "cache")
    assert one.environment.key == environments.key_of(asked)


def test_files_that_no_environment_holds_are_swept(wheels, tmp_path):
    cache = tmp_path / "cache"
    bundle = packed(wheels, tmp_path, "engine==1.0", "engine==2.0")
    unpacked(bundle, cache)
    assert layers.unused_bytes(cache) < 10_000  # the scripts' originals
    first, second = shelf.kept(cache)
    shelf.remove(first)
    layers.sweep(cache)
    assert files_of(second.environment)["base_data/big.bin"].stat().st_nlink == 2
    shelf.remove(second)
    assert layers.unused_bytes(cache) > 9999
    assert layers.sweep(cache) > 9999
    assert [path for path in (cache / "layers").rglob("*") if path.is_file()] == [cache / "layers" / "lock"]


def test_the_manifest_says_what_is_in_it(wheels, tmp_path):
    bundle = packed(wheels, tmp_path, "engine==1.0")
    manifest = json.loads((bundle.folder / "bundle.json").read_text())
    assert manifest["target"] == {"python": HERE, "platform": Target(HERE, "x86_64-manylinux_2_34").platform}
    assert manifest["environments"][0]["packages"] == ["base==1.0", "engine==1.0", "heavy==2.0"]
    assert sum(part["bytes"] for one in manifest["archives"] for part in one["parts"]) == bundle.packed_bytes

"""Environments built by the real uv: exact, kept by content, safe against others and against being killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from benchharness.errors import InfrastructureError, UnbuildableError, UsageError
from benchharness.records import EnvironmentSpec
from benchharness.stack import uv
from benchharness.stack.environments import ensure, installed, key_of

HARNESS = """
import json, sys
from pathlib import Path
from benchharness.records import EnvironmentSpec
from benchharness.stack.environments import ensure
spec = EnvironmentSpec(requirements=(sys.argv[1],), imports=("slowpackage",))
made = ensure(spec, Path(sys.argv[2]), on_progress=lambda line: print(line, file=sys.stderr, flush=True))
print(made.path, made.built_s > 0)
"""
BACKEND = """
import os, pathlib, time, zipfile
marks = pathlib.Path({marks!r})
def build_wheel(directory, config_settings=None, metadata_directory=None):
    (marks / f"build-{{os.getpid()}}").touch()
    while (marks / "hold").exists():
        time.sleep(0.02)
    name = "slowpackage-1.0-py3-none-any.whl"
    info = "slowpackage-1.0.dist-info"
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w") as wheel:
        wheel.writestr("slowpackage.py", "")
        wheel.writestr(f"{{info}}/METADATA", "Metadata-Version: 2.1\\nName: slowpackage\\nVersion: 1.0\\n")
        wheel.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{info}}/RECORD", "")
    return name
"""


class SlowPackage:
    """A package whose build waits as long as a file stands, and leaves a mark for each build."""

    def __init__(self, folder):
        self.folder = folder / "slow package"
        self.marks = folder / "marks"
        self.folder.mkdir()
        self.marks.mkdir()
        (self.folder / "pyproject.toml").write_text(
            '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
            '[project]\nname = "slowpackage"\nversion = "1.0"\n'
        )
        (self.folder / "backend.py").write_text(BACKEND.format(marks=str(self.marks)))
        self.hold()

    @property
    def requirement(self):
        return f"slowpackage @ {self.folder.as_uri()}"

    def hold(self):
        (self.marks / "hold").touch()

    def release(self):
        (self.marks / "hold").unlink()

    def builds(self):
        return [int(path.name.removeprefix("build-")) for path in self.marks.glob("build-*")]


@pytest.fixture
def slow(tmp_path, monkeypatch):
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv cache"))
    return SlowPackage(tmp_path)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache in a folder that a shell would trip over (T24), shared by the tests that only add to it."""
    return tmp_path_factory.mktemp("it's a $cache")


def six(version, **fields):
    return EnvironmentSpec(requirements=(f"six=={version}",), imports=("six",), **fields)


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def runs(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def harness(slow, cache):
    return subprocess.Popen(
        [sys.executable, "-c", HARNESS, slow.requirement, str(cache)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_builds_exactly_what_was_asked_for_and_says_what_it_does(cache):
    lines = []
    made = ensure(six("1.16.0"), cache, on_progress=lines.append)
    assert dict(made.packages) == {"six": "1.16.0"}
    assert made.built_s > 0
    code = "import six,sys,platform;print(six.__version__,platform.python_version(),sys.prefix)"
    said = subprocess.run([made.python_path, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == f"1.16.0 {made.python} {made.path}"
    assert made.path == str(cache / "environments" / made.key)
    assert any("six==1.16.0" in line for line in lines)
    log = (cache / "environments" / f"{made.key}.log").read_text()
    assert "+ six==1.16.0" in log


def test_is_reused_without_starting_anything(cache, monkeypatch):
    made = ensure(six("1.16.0"), cache)
    monkeypatch.setattr(uv, "Builder", None)
    monkeypatch.setattr(subprocess, "Popen", None)
    began = time.process_time()
    again = ensure(six("1.16.0"), cache)
    assert time.process_time() - began < 0.05
    assert again == replace(made, built_s=0.0)


def test_another_release_is_another_environment(cache):
    older, newer = ensure(six("1.16.0"), cache), ensure(six("1.17.0"), cache)
    assert older.key != newer.key
    assert (older.packages["six"], newer.packages["six"]) == ("1.16.0", "1.17.0")
    assert {older.key, newer.key} <= {environment.key for environment in installed(cache)}


def test_no_deps_installs_nothing_more(cache):
    with_deps = ensure(EnvironmentSpec(requirements=("python-dateutil==2.9.0",)), cache)
    without = ensure(EnvironmentSpec(requirements=("python-dateutil==2.9.0",), no_deps=True), cache)
    assert sorted(with_deps.packages) == ["python-dateutil", "six"]
    assert sorted(without.packages) == ["python-dateutil"]


def test_an_environment_without_requirements(cache):
    assert dict(ensure(EnvironmentSpec(), cache).packages) == {}


def test_the_harness_own_interpreter_serves_when_its_version_is_asked_for():
    own = ".".join(str(part) for part in sys.version_info[:2])
    assert key_of(six("1.16.0", python=own)) == key_of(six("1.16.0"))
    assert key_of(six("1.16.0", python="3.2")) != key_of(six("1.16.0"))


def test_the_key_is_the_content_in_any_order():
    one = EnvironmentSpec(requirements=("a==1", "b==2"), imports=("x", "y"))
    assert key_of(one) == key_of(replace(one, requirements=("b==2", "a==1"), imports=("y", "x")))
    others = [
        replace(one, requirements=("a==1", "b==3")),
        replace(one, no_deps=True),
        replace(one, find_links=("/w",)),
        replace(one, extra_index_urls=("http://i",)),
        replace(one, imports=("x",)),
    ]
    assert len({key_of(spec) for spec in [one, *others]}) == 6


def test_the_key_is_the_same_in_every_process():
    code = (
        "from benchharness.records import EnvironmentSpec as S\n"
        "from benchharness.stack.environments import key_of\n"
        "print(key_of(S(requirements=('a==1','b==2'),imports=('x','y'))))"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(keys) == 1


def test_a_release_that_does_not_exist(cache):
    with pytest.raises(UnbuildableError) as caught:
        ensure(six("9.9.9"), cache)
    assert caught.value.message == "six==9.9.9 is not on the index"
    assert "six" in caught.value.advice


def test_releases_that_contradict_each_other_in_one_line(cache):
    with pytest.raises(UnbuildableError, match=r"requests==2\.32\.3 depends on urllib3") as caught:
        ensure(EnvironmentSpec(requirements=("requests==2.32.3", "urllib3==1.20")), cache)
    assert "\n" not in str(caught.value)


def test_a_module_that_does_not_import(cache):
    spec = replace(six("1.16.0"), imports=("six", "six.nonesuch"))
    for _ in range(2):  # a failed build must not count as built the second time
        with pytest.raises(UnbuildableError) as caught:
            ensure(spec, cache)
        assert caught.value.message.startswith(
            "importing six.nonesuch failed: ModuleNotFoundError: No module"
        )
    assert key_of(spec) not in {environment.key for environment in installed(cache)}


def test_a_module_that_crashes_the_interpreter(tmp_path, cache):
    (tmp_path / "crash.py").write_text("import os,signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "crash"\nversion = "1"\n')
    spec = EnvironmentSpec(requirements=(f"crash @ {tmp_path.as_uri()}",), imports=("crash",))
    with pytest.raises(
        UnbuildableError, match=r"importing crash failed: python ended with code -11 \(SIGSEGV\)"
    ):
        ensure(spec, cache)


def test_a_malformed_requirement_is_the_user_s(cache):
    with pytest.raises(UsageError, match="a requirement is malformed: no such comparison operator"):
        ensure(EnvironmentSpec(requirements=("six=1",)), cache)


def test_a_python_that_is_not_here(cache):
    with pytest.raises(UnbuildableError, match=r"Python 3\.2 can't be used") as caught:
        ensure(six("1.16.0", python="3.2"), cache)
    assert "install" in caught.value.advice


def test_an_index_that_does_not_answer_says_nothing_of_the_combination(cache, monkeypatch):
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    spec = six("1.16.0", extra_index_urls=("http://user:secret@127.0.0.1:9/simple",))
    with pytest.raises(InfrastructureError, match="an index can't be reached") as caught:
        ensure(spec, cache)
    assert not isinstance(caught.value, UnbuildableError)
    assert "secret" not in str(caught.value)


def test_an_address_with_a_password_that_does_not_answer(cache, monkeypatch):
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    lines = []
    spec = EnvironmentSpec(requirements=("x @ http://user:secret@127.0.0.1:9/x-1-py3-none-any.whl",))
    with pytest.raises(InfrastructureError, match="an index can't be reached") as caught:
        ensure(spec, cache, on_progress=lines.append)
    assert "127.0.0.1:9/x-1" in "".join(lines)
    assert "secret" not in "".join([str(caught.value), *lines])


def test_a_package_that_is_not_cached_without_network_is_infrastructure(tmp_path, monkeypatch):
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "empty"))
    with pytest.raises(InfrastructureError, match="an index can't be reached") as caught:
        ensure(six("1.16.0"), tmp_path / "cache")
    assert not isinstance(caught.value, UnbuildableError)


def test_find_links_that_are_not_there(cache):
    with pytest.raises(UsageError, match=r"`--find-links` directory: .*nowhere"):
        ensure(six("1.16.0", find_links=("nowhere",)), cache)


def test_a_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="can't be written"):
        ensure(six("1.16.0"), tmp_path / "file")


def test_passwords_are_neither_stored_nor_told(slow, tmp_path):
    slow.release()
    lines = []
    spec = EnvironmentSpec(
        requirements=(slow.requirement,),
        no_deps=True,
        extra_index_urls=("http://user:secret@127.0.0.1:9/simple",),
    )
    made = ensure(spec, tmp_path / "cache", on_progress=lines.append)
    assert made.packages == {"slowpackage": "1.0"}
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and not path.is_symlink()]
    assert Path(made.path, "environment.json") in files
    assert [path for path in files if b"secret" in path.read_bytes()] == []
    assert "secret" not in "".join(lines)
    manifest = json.loads(Path(made.path, "environment.json").read_text())
    assert manifest["spec"]["extra_index_urls"] == ["http://***@127.0.0.1:9/simple"]
    other = replace(spec, extra_index_urls=("http://user:changed@127.0.0.1:9/simple",))
    assert key_of(other) == made.key


def test_two_harnesses_at_once_build_once(slow, tmp_path):
    cache = tmp_path / "cache"
    first = harness(slow, cache)
    assert until(lambda: len(slow.builds()) == 1)
    second = harness(slow, cache)
    waiting = second.stderr.readline()
    slow.release()
    outs = [process.communicate(timeout=120) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outs
    assert "waiting: another process builds" in waiting
    paths, built = zip(*(out.rsplit(" ", 1) for out, _ in outs), strict=True)
    assert paths[0] == paths[1]
    assert [text.strip() for text in built] == ["True", "False"]
    assert len(slow.builds()) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_build_that_was_cut_short_ends_and_is_made_again(slow, tmp_path, number):
    cache = tmp_path / "cache"
    cut = harness(slow, cache)
    assert until(lambda: len(slow.builds()) == 1)
    (backend,) = slow.builds()
    os.killpg(cut.pid, number)
    cut.communicate(timeout=60)
    assert until(lambda: not runs(backend))
    assert installed(cache) == ()
    (half_built,) = [path for path in (cache / "environments").iterdir() if path.is_dir()]
    (half_built / "rubbish").touch()
    slow.release()
    spec = EnvironmentSpec(requirements=(slow.requirement,), imports=("slowpackage",))
    made = ensure(spec, cache)
    assert Path(made.path) == half_built
    assert not (half_built / "rubbish").exists()


def test_an_interrupt_ends_the_build_before_it_is_passed_on(slow, tmp_path):
    def interrupt(line):
        if "Using Python" in line:
            assert until(lambda: len(slow.builds()) == 1)
            raise KeyboardInterrupt

    spec = EnvironmentSpec(requirements=(slow.requirement,))
    with pytest.raises(KeyboardInterrupt) as caught:
        ensure(spec, tmp_path / "cache", on_progress=interrupt)
    (backend,) = slow.builds()
    assert not runs(backend)
    assert caught.traceback  # and not because the pipes to the guard were collected with the frames


def test_the_lock_is_held_until_the_killed_harness_s_build_is_gone(slow, tmp_path):
    """Else a second harness would remove the folder under a uv that still writes into it."""
    cache = tmp_path / "cache"
    cut = harness(slow, cache)
    assert until(lambda: len(slow.builds()) == 1)
    (backend,) = slow.builds()
    lock = next((cache / "environments").glob("*.lock")).resolve()
    holders = {
        path.parent.parent.name
        for path in Path("/proc").glob("[0-9]*/fd/*")
        if path.is_symlink() and _target(path) == lock
    }
    assert str(cut.pid) in holders
    assert {str(parent.pid) for parent in psutil.Process(backend).parents()[:2]} <= holders
    cut.kill()
    cut.communicate(timeout=60)
    assert until(lambda: not runs(backend))


def test_an_environment_whose_interpreter_is_gone_is_built_again(tmp_path):
    made = ensure(EnvironmentSpec(), tmp_path)
    Path(made.python_path).unlink()
    assert installed(tmp_path) == ()
    again = ensure(EnvironmentSpec(), tmp_path)
    assert again.built_s > 0
    assert Path(again.python_path).exists()


def test_no_cache_yet(tmp_path):
    assert installed(tmp_path / "none") == ()


def _target(link):
    try:
        return link.readlink()
    except OSError:
        return None


OLD_STYLE = """Using Python 3.11.7 environment at: x
  × No solution found when resolving dependencies:
  ╰─▶ Because there is no version of
      six==9.9.9 and you require six==9.9.9, we can conclude that your
      requirements are unsatisfiable.
"""
DISK_FULL = """Resolved 1 package in 1ms
error: Failed to install: six-1.17.0-py2.py3-none-any.whl (six==1.17.0)
  cause: failed to create directory `/c/x`
  cause: No space left on device (os error 28)
"""
REFUSED = """error: Failed to fetch: `https://user:pw@index/simple/six/`
  cause: HTTP status client error (401 Unauthorized) for url (https://index/simple/six/)
"""
COMPILER = """error: Failed to build `pycrypto==2.6.1`
  cause: The build backend returned an error

         [stderr]
         cc: connection timed out is a sentence of the compiler, not uv's
"""


@pytest.mark.parametrize(
    ("output", "code", "kind", "message"),
    [
        (OLD_STYLE, 1, UnbuildableError, "six==9.9.9 is not on the index"),
        (DISK_FULL, 2, InfrastructureError, "can't be written: .*No space left"),
        (REFUSED, 2, InfrastructureError, r"an index refused: .*https://\*\*\*@index.*401"),
        (COMPILER, 1, UnbuildableError, "Failed to build `pycrypto==2.6.1`"),
        ("", -9, InfrastructureError, r"uv ended with code -9 \(SIGKILL\)"),
        ("", 2, UnbuildableError, "uv said nothing"),
    ],
)
def test_what_uv_says_is_told_in_one_line(output, code, kind, message):
    error = uv.failure(output, code, Path("log"))
    assert type(error) is kind
    assert re.search(message, error.message)
    assert "\n" not in str(error)

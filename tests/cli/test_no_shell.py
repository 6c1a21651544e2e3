"""T24: no command is ever built as a shell string: whatever characters a value has, it arrives as it is."""

from __future__ import annotations

import ast
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from commandline import LIMIT_S, QUICK, Command, bench, experiment, run_folder

import benchharness
from benchharness.records import Command as EngineCommand
from benchharness.records import Readiness
from benchharness.stack import procfs, server

PACKAGE = Path(benchharness.__file__).parent
ROOT = PACKAGE.parent

VALUES = {
    "SINGLE": "it's",
    "DOUBLE": 'say "no"',
    "SPACES": "  two  spaces, and a\ttab ",
    "DOLLAR": "$HOME ${PATH} $(id) $$",
    "BACKTICKS": "`id`",
    "NEWLINES": "first\nsecond\n",
    "BACKSLASH": "a\\nb \\' \\\\",
    "OPERATORS": "a;b&&c||d|e>f<g &",
    "GLOB": "* ? [a-z] ~ {x,y} !!",
    "OPTION": "--port=1 -c",
    "EMPTY": "",
    "UNICODE": "ümläut 日本",
    "PERCENT": "%s %(x)s {0} {name}",
    "UNMATCHED": "'",
}


def start(place: Path, results: str, **base: Any) -> Command:
    """A run that is slow enough to be looked at."""
    workload = {"context_tokens": [16], "output_tokens": 50, "requests": 1}
    file = experiment(place / "it's $HOME.yaml", base=base, workload=workload)
    return Command("run", file, "--results", results, "--json", cwd=place)


def engine_of(command: Command) -> psutil.Process:
    """The stand-in's process."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        for process in command.family():
            if any(part.endswith("standin_process") for part in procfs.arguments(process.pid)[:3]):
                return process
        assert command.process.poll() is None, command.lines
    raise AssertionError(command.lines)


def test_variables_arguments_and_folders_arrive_byte_for_byte(tmp_path: Path) -> None:
    place = tmp_path / "a 'b' \"c\" $HOME `id`;\nd"
    place.mkdir()
    results = 're\'sults $(id) `x` "y"'
    version = " | ".join(VALUES.values())
    command = start(place, results, env=VALUES, args={**QUICK, "step_ms": 40, "version": version})
    engine = engine_of(command)
    environ = procfs.environ(engine.pid)
    argv = procfs.arguments(engine.pid)
    assert {name: environ.get(name) for name in VALUES} == VALUES
    assert json.loads(argv[-1])["version"] == version
    ended = command.end()
    assert ended.status == 0, ended.err
    command.assert_nobody_left()
    folder = run_folder(place / results)
    assert ended.document["path"] == f"{results}/small/{folder.name}"
    launch = json.loads((folder / "launches" / "000" / "launch.json").read_text())
    assert {name: launch["env"][name] for name in VALUES} == VALUES
    assert launch["attestation"]["engine_version"] == version
    assert launch["attestation"]["mismatches"] == []
    shown = bench("show", "latest", "--results", results, "--json", cwd=place)
    assert shown.status == 0, shown.err
    assert shown.document["run"] == folder.name


ENGINE = """
import http.server, sys
print("ready", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.BaseHTTPRequestHandler).serve_forever()
"""


def test_model_path_flags_program_and_folder_of_an_engine_stay_what_they_are(tmp_path: Path) -> None:
    """As an adapter hands them over: an argument list, through the guard to the engine's own process."""
    place = tmp_path / 'it\'s "the" $MODEL `x`\n dir'
    place.mkdir()
    program = place / "python $(id)"
    program.symlink_to(sys.executable)
    port = server.free_port()
    flags = [text for name, value in VALUES.items() for text in (f"--{name.lower()}", value)]
    argv = (str(program), "-c", ENGINE, str(port), "--model-path", str(place), *flags)
    command = EngineCommand(argv, VALUES, cwd=str(place))
    url = f"http://127.0.0.1:{port}"
    with server.running(
        command, Readiness("ready", None, 30), base_url=url, log_path=place / "its 'log'"
    ) as engine:
        assert procfs.arguments(engine.pid) == argv
        assert {name: procfs.environ(engine.pid)[name] for name in VALUES} == VALUES
        assert Path(f"/proc/{engine.pid}/cwd").readlink() == place


@pytest.mark.parametrize("name", ["a b", "it's", "$HOME", "`id`", "../up", "a/b", "", "-x", "a\nb"])
def test_a_name_that_is_no_plain_folder_is_refused(tmp_path: Path, name: str) -> None:
    file = experiment(tmp_path / "e.yaml", name=name)
    refused = bench("run", file, "--results", "results", cwd=tmp_path).refused(2, "name")
    assert "\n" not in refused
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("env", [{"A": "x\0y"}, {"A=B": "x"}, {"": "x"}, {"A\0": "x"}])
def test_a_variable_that_no_process_can_have_is_refused_before_anything_starts(
    tmp_path: Path, env: dict[str, str]
) -> None:
    file = experiment(tmp_path / "e.yaml", base={"env": env, "args": {"step_ms": 5}})
    bench("run", file, "--results", "results", cwd=tmp_path).refused(2, "no process can have the variable")
    assert not (tmp_path / "results").exists()


def sources() -> list[Path]:
    places = (PACKAGE, ROOT / "benchmarks", ROOT / "docs", ROOT / "scripts")
    found = [path for place in places if place.is_dir() for path in sorted(place.rglob("*.py"))]
    assert len(found) > 50
    return found


SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "cmd", "cmd.exe", "powershell", "ssh"}
FORBIDDEN = {
    "os": {"system", "popen", "spawnl", "spawnlp", "spawnle", "execl", "execlp", "execle"},
    "subprocess": {"getoutput", "getstatusoutput"},
    "asyncio": {"create_subprocess_shell"},
    "commands": {"*"},
    "pty": {"spawn"},
}
STARTERS = {"Popen", "run", "call", "check_call", "check_output"}
STARTERS_OF_ONE = {"execv", "execve", "execvp", "execvpe", "posix_spawn", "posix_spawnp"}


def complaints(tree: ast.AST) -> Iterator[str]:
    """What in a module may build a command as a string or hand one to a shell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in FORBIDDEN:
            taken = {alias.name for alias in node.names} & FORBIDDEN[node.module]
            if taken:
                yield f"line {node.lineno}: imports {taken}"
        if isinstance(node, ast.Call):
            yield from _complaints_of_call(node)


def _complaints_of_call(node: ast.Call) -> Iterator[str]:
    function = node.func
    owner = (
        function.value.id
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
        else ""
    )
    name = getattr(function, "attr", getattr(function, "id", ""))
    if name in FORBIDDEN.get(owner, ()):
        yield f"line {node.lineno}: {owner}.{name}"
    for keyword in node.keywords:
        off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        if keyword.arg == "shell" and not off:
            yield f"line {node.lineno}: shell="
    starts = (owner == "subprocess" and name in STARTERS) or (owner == "os" and name in STARTERS_OF_ONE)
    if not starts or not node.args:
        return
    command = node.args[0]
    joined = isinstance(command, ast.JoinedStr) or (
        isinstance(command, ast.Call) and getattr(command.func, "attr", "") in ("join", "format")
    )
    if owner == "subprocess" and (joined or isinstance(command, ast.Constant)):
        yield f"line {node.lineno}: {name} of a string"
    first = command.elts[0] if isinstance(command, ast.List | ast.Tuple) and command.elts else None
    if isinstance(first, ast.Constant) and Path(str(first.value)).name in SHELLS:
        yield f"line {node.lineno}: starts a shell"


def test_no_module_hands_a_command_to_a_shell() -> None:
    found = {
        str(path.relative_to(ROOT)): said
        for path in sources()
        if (said := list(complaints(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "subprocess.run(f'ls {x}')",
        "subprocess.Popen(' '.join(argv))",
        "subprocess.run('ls', check=True)",
        "subprocess.run(['bash', '-c', x])",
        "subprocess.run(['/bin/sh', '-c', x])",
        "run(argv, shell=True)",
        "subprocess.check_output(x, shell=flag)",
        "os.system(x)",
        "os.popen(x)",
        "from os import system",
        "subprocess.getoutput(x)",
        "asyncio.create_subprocess_shell(x)",
    ],
)
def test_the_search_finds_what_it_is_for(text: str) -> None:
    assert list(complaints(ast.parse(text)))


def test_the_search_lets_argument_lists_pass() -> None:
    for text in (
        "subprocess.run([x, 'a b'])",
        "subprocess.Popen(command.argv, shell=False)",
        "os.execv(x, argv)",
    ):
        assert not list(complaints(ast.parse(text)))

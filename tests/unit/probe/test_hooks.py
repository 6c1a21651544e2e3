"""The hook table against every release of SGLang: tests/data/sglang_hooks.json tells what each one has."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

from benchharness import probe
from benchharness.probe import hooks

DATA = json.loads((Path(__file__).parents[2] / "data" / "sglang_hooks.json").read_text())
RELEASES: list[str] = DATA["releases"]

# As the survey names the roles; those without a counterpart here are left alone on purpose: the
# scheduler's constructor comes after the model runner's, and a prefill is known by its batch.
ROLES = {
    "cycle": hooks.CYCLE,
    "draft": hooks.DRAFT,
    "verify": hooks.VERIFY,
    "draft_extend": hooks.DRAFT_EXTEND,
    "target_forward": hooks.TARGET,
    "model_forward": hooks.FORWARD,
    "graph_replay": hooks.REPLAY,
    "draft_graph_replay": hooks.DRAFT_REPLAY,
    "draft_extend_graph_replay": hooks.EXTEND_REPLAY,
    "graph_capture": hooks.CAPTURE,
    "step": hooks.STEP,
    "result": hooks.RESULT,
    "ident": hooks.RANK,
}
LEFT_ALONE = {
    ("ident", "sglang.srt.managers.scheduler", "Scheduler", "__init__"),
    ("prefill_draft_extend", "sglang.srt.speculative.eagle_worker", "EAGLEWorker", "forward_draft_extend"),
    (
        "prefill_draft_extend",
        "sglang.srt.speculative.eagle_worker_v2",
        "EagleDraftWorker",
        "_draft_extend_for_prefill",
    ),
}


def has(release: str, ranges: list[list[str]]) -> bool:
    place = RELEASES.index(release)
    return any(RELEASES.index(first) <= place <= RELEASES.index(last) for first, last in ranges)


def of(release: str) -> set[tuple[str, str, str, str]]:
    """(role, module, class, method) that the release has."""
    return {
        (role, module, cls, method)
        for role, module, cls, method, ranges in DATA["methods"]
        if has(release, ranges)
    }


@pytest.mark.parametrize("release", RELEASES)
def test_whatever_a_release_has_is_wrapped_in_its_role(release: str) -> None:
    table = set(hooks.HOOKS)

    for known in of(release) - LEFT_ALONE:
        role, module, cls, method = known
        assert (module, cls, method, ROLES[role]) in table, f"{release} has {known}"


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_gives_cycles_with_and_without_speculation(release: str) -> None:
    present = {(module, cls, method) for _, module, cls, method in of(release)}
    wrapped = [
        (module, role) for module, cls, method, role in hooks.HOOKS if (module, cls, method) in present
    ]
    roles = {role for _, role in wrapped}

    assert {hooks.TARGET, hooks.FORWARD, hooks.RESULT, hooks.RANK, hooks.REPLAY, hooks.CAPTURE} <= roles
    eagle = {role for module, role in wrapped if module.startswith("sglang.srt.speculative.eagle_worker")}
    assert {hooks.CYCLE, hooks.DRAFT, hooks.VERIFY} <= eagle
    # The first V2 had no method of its own for draft-extend, but then V1 was the default.
    assert hooks.DRAFT_EXTEND in eagle


def test_no_row_is_about_a_method_that_no_release_has() -> None:
    known = {(module, cls, method) for _, module, cls, method, _ in DATA["methods"]}

    assert {row[:3] for row in hooks.HOOKS} - known == set()
    assert len(hooks.HOOKS) == len(set(hooks.HOOKS)) == len(known) - len(LEFT_ALONE)


def test_the_probe_can_be_read_by_the_oldest_python_that_an_engine_runs_on() -> None:
    files = list(Path(hooks.__file__).parent.glob("*.py"))

    assert len(files) > 8
    for file in files:
        ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))


def test_no_file_of_the_probe_hides_a_module_of_pythons_own() -> None:
    """Its folder stands first on the engine's PYTHONPATH, so `secrets.py` there would be everybody's."""
    folder = Path(probe.__file__).parent
    names = {path.stem for path in folder.iterdir()} - {"sitecustomize", "__init__", "__pycache__"}
    assert not names & sys.stdlib_module_names

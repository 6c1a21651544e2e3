"""What is wrapped in a module, and what is left as it was."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchharness.probe import hooks, importing
from benchharness.probe.recorder import Recorder
from benchharness.timings import probe_file


def module(**members: object) -> ModuleType:
    made = ModuleType("fake")
    made.__dict__.update(members)
    return made


class Parent:
    constant = 3

    def draft(self) -> str:
        return "drafted"

    @staticmethod
    def helper() -> str:
        return "helped"


class Child(Parent):
    pass


def test_a_method_is_wrapped_once_in_the_class_that_defines_it(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    rows = [("Parent", "draft", hooks.DRAFT), ("Child", "draft", hooks.DRAFT), ("Gone", "x", hooks.DRAFT)]
    plain = Parent.draft
    try:
        importing.install_in(module(Parent=Parent, Child=Child), rows, recorder)
        importing.install_in(module(Parent=Parent, Child=Child), rows, recorder)

        assert "draft" not in Child.__dict__
        assert Parent.draft.__wrapped__ is plain  # type: ignore[attr-defined]
        assert Child().draft() == "drafted"
    finally:
        Parent.draft = plain  # type: ignore[method-assign]
    (file,) = probe_file.read_folder(tmp_path)
    assert file.report.hooks == ("fake.Parent.draft",)
    assert "fake.Child.draft" in file.report.absent and "fake.Gone.x" in file.report.absent


def test_what_is_no_plain_method_is_left_alone(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    rows = [("Parent", "constant", hooks.DRAFT), ("Parent", "helper", hooks.DRAFT)]

    importing.install_in(module(Parent=Parent), rows, recorder)

    assert Parent.constant == 3
    assert Parent().helper() == Parent.helper() == "helped"


def test_the_finder_passes_every_other_name_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = importing.Finder()
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])

    assert finder.find_spec("json") is None
    assert finder.find_spec("sglang.srt.managers.tokenizer_manager") is None
    assert finder.find_spec("sglang") is None  # there is none here, and asking does not make one

"""The weightless 8B Llama: shapes that fit together, and a tokenizer without a merge to learn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchharness.records import Model, Source, Stack, Workload
from benchharness.stack.engines import sglang_settings
from benchharness.stack.engines.sglang import ENGINE

WORK = (Workload(context_tokens=8192, output_tokens=64, requests=2),)
STACK = Stack("s", "sglang", Source(release="0.5.12"), model=Model(recipe="dummy-llama-8b"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    script = sglang_settings.RECIPES["dummy-llama-8b"].script
    subprocess.run([sys.executable, str(script), str(folder), "0"], check=True)
    return folder


def config(made: Path, name: str) -> dict[str, object]:
    document: dict[str, object] = json.loads((made / name / "config.json").read_text())
    return document


def test_target_and_drafts_share_a_vocabulary(made: Path) -> None:
    sizes = {config(made, name)["vocab_size"] for name in ("target", "eagle3", "standalone")}
    tokenizers = {
        (made / name / "tokenizer.json").read_bytes() for name in ("target", "eagle3", "standalone")
    }
    (document,) = map(json.loads, tokenizers)
    assert sizes == {len(document["model"]["vocab"])} == {32_000}
    # An EAGLE3 draft gets the target's hidden states, so it has the target's width.
    assert config(made, "eagle3")["hidden_size"] == config(made, "target")["hidden_size"] == 4096
    assert config(made, "eagle3")["num_hidden_layers"] == 1
    assert not list(made.rglob("*.safetensors"))


def test_weights_are_made_by_the_engine_unless_the_stack_says_otherwise() -> None:
    ENGINE.check(STACK, WORK)
    model = ENGINE.made_model(STACK, Path("/m"))
    assert sglang_settings.defaults(STACK, model, WORK)["load-format"] == "dummy"
    tiny = Stack("s", "sglang", Source(release="0.5.12"), model=Model(recipe="tiny-sglang"))
    assert "load-format" not in sglang_settings.defaults(tiny, ENGINE.made_model(tiny, Path("/m")), WORK)

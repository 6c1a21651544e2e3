"""SGLang's known changes of the user's variables, release by release."""

from __future__ import annotations

import pytest

from benchharness.records import Source, Stack
from benchharness.stack.engines.sglang import ENGINE
from benchharness.stack.engines.sglang_overrides import OVERRIDES, who_changes


@pytest.mark.parametrize(
    ("release", "variable", "says"),
    [
        ("0.4.6", "NCCL_CUMEM_ENABLE", "forces it to 0"),
        ("0.4.10.post1", "NCCL_CUMEM_ENABLE", "forces it to 0"),
        ("0.4.10.post2", "NCCL_CUMEM_ENABLE", "from its flag --enable-symm-mem"),
        ("0.5.4.post1", "NCCL_CUMEM_ENABLE", "from its flag --enable-symm-mem"),
        ("0.5.4.post2", "NCCL_CUMEM_ENABLE", "only where --enable-symm-mem asks"),
        ("0.5.4.post2", "NCCL_NVLS_ENABLE", "from its flag --enable-nccl-nvls"),
        ("0.5.4.post3", "NCCL_NVLS_ENABLE", "only where its flags ask"),
        ("0.5.4", "CUDA_DEVICE_MAX_CONNECTIONS", "forces it to 4"),
        ("0.5.4.post1", "CUDA_DEVICE_MAX_CONNECTIONS", "forces it to 8"),
        ("0.5.23", "NCCL_ALGO", "--enable-deterministic-inference"),
    ],
)
def test_who_changes_a_variable_depends_on_the_release(release: str, variable: str, says: str) -> None:
    assert says in who_changes(release, variable)
    assert ENGINE.who_changes(Stack("s", "sglang", Source(release=release)), variable).startswith("SGLang ")


def test_nobody_is_blamed_without_reason() -> None:
    assert who_changes("0.5.23", "OMP_NUM_THREADS") == ""
    assert who_changes("0.5.2", "NCCL_ALGO") == ""
    assert who_changes(None, "NCCL_ALGO") == ""


def test_no_release_is_told_two_stories() -> None:
    for release in ("0.4.6", "0.4.10.post1", "0.4.10.post2", "0.5.3", "0.5.4.post1", "0.5.4.post3", "0.5.23"):
        for variable in {override.variable for override in OVERRIDES}:
            told = [
                override.says
                for override in OVERRIDES
                if override.variable == variable and who_changes(release, variable) == override.says
            ]
            assert len(told) <= 1

"""What a rank tells of its ways to reduce, with a group shaped as SGLang 0.5.12 makes it."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from benchharness.probe import process

MODULE = "sglang.srt.distributed.parallel_state"


class CustomAllReduceV2(SimpleNamespace):
    """By its name."""


class PyNcclCommunicator(SimpleNamespace):
    """By its name."""


class TorchSymmMemCommunicator(SimpleNamespace):
    """By its name."""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    def tell(world_size: int = 2, **ways: Any) -> dict[str, object]:
        distributed = SimpleNamespace(get_backend=lambda group: f"nccl of {group}")
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=distributed))  # type: ignore[arg-type]
        group = SimpleNamespace(world_size=world_size, device_group="both", **ways)
        monkeypatch.setitem(sys.modules, MODULE, SimpleNamespace(_TP=group))  # type: ignore[arg-type]
        return process.all_reduce()

    return tell


def test_ways_stand_in_the_order_in_which_they_are_tried(told: Any) -> None:
    # pynccl is off outside of graphs, which doesn't mean that it couldn't be set up.
    nccl = PyNcclCommunicator(available=True, disabled=True)
    found = told(pynccl_comm=nccl, ca_comm=CustomAllReduceV2(disabled=False))
    assert found == {
        "all_reduce": ["CustomAllReduceV2", "PyNcclCommunicator", "torch.distributed nccl of both"]
    }


def test_a_way_that_could_not_be_set_up_is_none(told: Any) -> None:
    found = told(
        ca_comm=CustomAllReduceV2(disabled=True),
        qr_comm=None,
        torch_symm_mem_comm=TorchSymmMemCommunicator(disabled=True),
        pynccl_comm=PyNcclCommunicator(available=False, disabled=True),
    )
    assert found == {"all_reduce": ["torch.distributed nccl of both"]}


def test_one_rank_reduces_nothing(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(world_size=1, ca_comm=CustomAllReduceV2(disabled=False)) == {}
    monkeypatch.delitem(sys.modules, MODULE)
    assert process.all_reduce() == {}

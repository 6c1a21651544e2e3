"""Do two engines fit beside each other? What is told, and what to lower."""

from __future__ import annotations

import pytest

from benchharness.machine.room import GIB, Free, Need, judge

QUIET = Free(memory=8 * GIB, gpus={"0": (79 * GIB, 80 * GIB), "1": (79 * GIB, 80 * GIB)})
SGLANG = Need("a", ("0",), 0.6, "args.mem-fraction-static", True, GIB)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Need("b", ("0",), 0.6, "args.mem-fraction-static", True), ("GPU 0", "1.2", "mem-fraction-static")),
        (Need("b", ("0", "1"), 0.9, "args.gpu-memory-utilization"), ("GPU 0", "unless told", "1.5")),
        (Need("b", ("1",), 0.995, "args.x", True), ("GPU 1", "79.6 GiB", "79.0 GiB are free", "args.x")),
        (Need("b", model_bytes=9 * GIB), ("memory", "9.0 GiB", "8.0 GiB are free")),
        (Need("b", ("1",), model_bytes=90 * GIB), ("GPU 1", "90.0 GiB")),
    ],
)
def test_what_does_not_fit_is_named_with_what_to_do(other: Need, words: tuple[str, ...]) -> None:
    found = judge((SGLANG, other), QUIET)
    assert not found.fits
    (sentence,) = found.sentences
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    "other",
    [
        Need("b", ("0",), 0.3, "args.mem-fraction-static", True, GIB),
        Need("b", ("1",), 0.9, "args.mem-fraction-static", True, GIB),
        Need("b", model_bytes=7 * GIB),
    ],
)
def test_what_fits_fits(other: Need) -> None:
    found = judge((SGLANG, other), QUIET)
    assert found.fits and "fit" in found.sentences[0]


def test_one_port_for_two_does_not_fit_and_an_unknown_model_is_said() -> None:
    both = Need("a", port=8000), Need("b", port=8000)
    assert "port 8000" in judge(both, QUIET).sentences[0]
    assert not judge(both, QUIET).fits
    told = judge((Need("a", port=8000), Need("b", port=8001)), QUIET)
    assert told.fits and "a, b is not known" in told.sentences[0]


def test_without_a_driver_shares_are_still_added_up() -> None:
    other = Need("b", ("0",), 0.6, "args.mem-fraction-static", True)
    assert not judge((SGLANG, other), Free(8 * GIB, {})).fits

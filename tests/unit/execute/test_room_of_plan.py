"""What is known of two stacks before they start: shares of GPUs, devices, ports, sizes of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchharness import plan, spec
from benchharness.errors import UsageError
from benchharness.execute import room
from benchharness.machine.room import Free

GIB = 1 << 30


@pytest.fixture(autouse=True)
def one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = {str(index): (80 * GIB, 80 * GIB) for index in range(4)}
    monkeypatch.setattr(room.room, "free", lambda: Free(GIB, gpus))


def made(
    first: str, second: str, *, engine: str = "sglang", base: str = "", pairing: str = "duet"
) -> plan.Plan:
    return plan.make(
        spec.parse(
            f"{{name: p, engine: {engine}, base: {{{base}}}, matrix: {{side: {{a: {first}, b: {second}}}}}, "
            f"workload: {{context_tokens: [8], output_tokens: 4}}, measure: {{pairing: {pairing}}}}}"
        )
    )


FITS = ("{args.mem-fraction-static: 0.4}", "{args.mem_fraction_static: 0.5}")


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        (*FITS, True),
        ("{args.mem-fraction-static: 0.6}", "{args.mem_fraction_static: 0.5}", False),
        ("{}", "{args.mem-fraction-static: 0.2}", False),
        ("{}", "{args.base-gpu-id: 1}", True),
        ("{env.CUDA_VISIBLE_DEVICES: '2'}", "{env.CUDA_VISIBLE_DEVICES: '3'}", True),
        ("{env.CUDA_VISIBLE_DEVICES: '2,3', model.tp: 2}", "{env.CUDA_VISIBLE_DEVICES: '3'}", False),
        ("{args.device: cpu}", "{}", True),
    ],
)
def test_shares_of_the_same_gpu_are_added_up(first: str, second: str, fits: bool) -> None:
    found = room.of_plan(made(first, second))
    assert found is not None and found.fits == fits
    if not fits:
        assert "args.mem-fraction-static" in found.sentences[0]


def test_what_cannot_fit_is_refused_in_one_line() -> None:
    room.refuse_crowded(made(*FITS))
    with pytest.raises(UsageError, match=r"lower args\.mem-fraction-static"):
        room.refuse_crowded(made("{}", "{args.x: 1}"))


def test_nothing_is_said_of_launches_that_never_meet() -> None:
    crowded = made("{}", "{args.x: 1}", pairing="interleaved")
    assert room.of_plan(crowded) is None
    room.refuse_crowded(crowded)


def test_files_of_models_on_the_cpu_are_counted(tmp_path: Path) -> None:
    for name, size in (("small", 400 << 20), ("large", 700 << 20)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    sides = [f"{{model.path: '{tmp_path / name}'}}" for name in ("small", "large")]
    found = room.of_plan(made(*sides, engine="llamacpp"))
    assert found is not None and not found.fits
    assert "1.1 GiB" in found.sentences[0] and "1.0 GiB are free" in found.sentences[0]
    alike = room.of_plan(made(sides[0], sides[0].replace("}", ", args.x: 1}"), engine="llamacpp"))
    assert alike is not None and alike.fits


def test_one_port_for_both_is_refused() -> None:
    found = room.of_plan(made("{args.x: 1}", "{args.x: 2}", engine="llamacpp", base="args: {port: 8123}"))
    assert found is not None and "port 8123" in found.sentences[0]

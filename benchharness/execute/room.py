"""Whether the two stacks of each duet fit on this machine together."""

from __future__ import annotations

from pathlib import Path

from benchharness.errors import UsageError
from benchharness.machine import room
from benchharness.machine.room import Need, Room
from benchharness.plan import DUET
from benchharness.records import Plan, Stack
from benchharness.stack import engines

SHARES = {"sglang": "mem-fraction-static", "vllm": "gpu-memory-utilization"}
UNTOLD_SHARE = 0.9
"""What these engines reserve unless told: near enough to see that two don't fit."""


def of_plan(plan: Plan) -> Room | None:
    """Whether the stacks of each pair fit beside each other; None where nothing is a duet."""
    if plan.pairing != DUET:
        return None
    first, *others = (_need(stack) for stack in plan.stacks)
    free = room.free()
    judged = {other.stack: room.judge((first, other), free) for other in others}
    fits = all(one.fits for one in judged.values())
    several = len(others) > 1
    told = {
        f"{first.stack} and {name}: {sentence}" if several else sentence: None
        for name, one in judged.items()
        for sentence in one.sentences
    }
    return Room(fits, tuple(told))


def refuse_crowded(plan: Plan) -> None:
    """Refuse a duet that can't fit; UsageError."""
    found = of_plan(plan)
    if found is not None and not found.fits:
        raise UsageError(f"the two stacks of the duet don't fit on this machine: {found.sentences[0]}")


def _need(stack: Stack) -> Need:
    engine = engines.named(stack.engine)
    args = {name.lstrip("-").replace("_", "-"): value for name, value in stack.args.items()}
    port = args.get("port")
    argument = SHARES.get(engine.name, "")
    on_gpu = engine.wants_gpu(stack) and not engine.synthetic
    told = args.get(argument)
    share = None
    if on_gpu and argument:
        share = float(told) if isinstance(told, int | float) else UNTOLD_SHARE
    return Need(
        stack=stack.name,
        devices=_devices(stack, args.get("base-gpu-id")) if on_gpu else (),
        share=share,
        argument=f"args.{argument}" if argument else "",
        told=told is not None,
        model_bytes=_bytes(stack),
        port=port if isinstance(port, int) else None,
    )


def _devices(stack: Stack, first: object) -> tuple[str, ...]:
    """GPUs by CUDA_VISIBLE_DEVICES, and of those as many as the model is spread over."""
    begin = first if isinstance(first, int) else 0
    visible = stack.env.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(name.strip() for name in visible.split(",") if name.strip())[
            begin : begin + stack.model.tp
        ]
    return tuple(str(index) for index in range(begin, begin + stack.model.tp))


def _bytes(stack: Stack) -> int | None:
    """Of the files of model and draft, where they are files here."""
    paths = [Path(path).expanduser() for path in (stack.model.path, stack.model.draft) if path]
    if not paths or not all(path.exists() for path in paths):
        return None
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else (path,))]
    return sum(file.stat().st_size for file in files if file.is_file())

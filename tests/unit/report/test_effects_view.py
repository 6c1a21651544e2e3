"""Effects of a run's factors, and what the NCCL experiment's fraction can tell."""

from __future__ import annotations

import math
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchharness import plan, spec
from benchharness.errors import UsageError
from benchharness.records import (
    Cycle,
    Launch,
    LaunchStatus,
    Plan,
    PlannedLaunch,
    RequestTrace,
    Run,
    Stack,
    Trial,
    Workload,
)
from benchharness.report import effects_view
from benchharness.stats import fraction
from benchharness.store import StoredRun, create, open_run

EXPERIMENT = Path(__file__).parents[3] / "experiments" / "sglang-two-gpus-nccl.yaml"
PUBLISHED = Path(__file__).parents[3] / "results" / "published"
GRAPHS = "disable-cuda-graph"
MAIN = {"NCCL_PROTO", "NCCL_ALGO", "NCCL_P2P_DISABLE", "speculative-algorithm", GRAPHS}
WORK = Workload(512, 8, 1)


@pytest.fixture(scope="module")
def stacks() -> tuple[Stack, ...]:
    return plan.make(spec.load(EXPERIMENT)).stacks


def cells_of(stacks: tuple[Stack, ...]) -> list[dict[str, str]]:
    known = effects_view.factors(stacks)
    return [{factor: levels[stack.name] for factor, levels in known.items()} for stack in stacks]


def test_the_fraction_tells_every_main_effect_and_every_interaction_with_graphs(
    stacks: tuple[Stack, ...],
) -> None:
    beside = {"disable-custom-all-reduce", "NCCL_P2P_LEVEL"}
    cells = cells_of(stacks)
    assert set(cells[0]) == MAIN | beside
    inside = [
        cell
        for cell in cells
        if cell["disable-custom-all-reduce"] == "true" and cell["NCCL_P2P_LEVEL"] == "SYS"
    ]
    assert len(inside) == 16
    grid = [{name: cell[name] for name in sorted(MAIN)} for cell in inside]
    fit = fraction.fit(grid, [0.0] * 16, fraction.terms(sorted(MAIN), [GRAPHS]))
    assert fit.untold == ()
    assert fit.freedom == 4
    # No effect holds more than half of anything that is left out.
    assert max(abs(share) for effect in fit.effects for share in effect.aliases.values()) < 0.55
    # Graphs and what they change in others are clearer still.
    of_graphs = [effect for effect in fit.effects if GRAPHS in effect.term]
    assert len(of_graphs) == 6
    assert max(abs(share) for effect in of_graphs for share in effect.aliases.values()) <= 0.3 + 1e-9


def test_a_run_that_ends_early_still_tells_the_main_effects(stacks: tuple[Stack, ...]) -> None:
    cells = cells_of(stacks[:9])
    terms = [(factor,) for factor in sorted(MAIN)]
    assert fraction.estimable(cells, terms) == (tuple(terms), ())


def test_own_kernels_and_level_stand_beside_cells_that_differ_in_nothing_else(
    stacks: tuple[Stack, ...],
) -> None:
    cells = cells_of(stacks)
    for name, value in (("disable-custom-all-reduce", "unset"), ("NCCL_P2P_LEVEL", "LOC")):
        apart = [cell for cell in cells if cell[name] == value]
        assert len(apart) == (2 if value == "unset" else 1)
        for cell in apart:
            assert {**cell, name: "true" if value == "unset" else "SYS"} in cells


def test_multicast_stays_off_in_every_cell(stacks: tuple[Stack, ...]) -> None:
    for stack in stacks:
        assert stack.env["NCCL_NVLS_ENABLE"] == "0"
        assert stack.env["TORCH_SYMM_MEM_DISABLE_MULTICAST"] == "1"


def test_settings_that_change_together_are_one_factor() -> None:
    first = Stack("a", "sglang", env={"X": "1"}, args={"x": 1, "same": 2})
    second = replace(first, name="b", env={"X": "2"}, args={"x": True, "same": 2})
    assert effects_view.factors((first, second)) == {"X": {"a": "1", "b": "2"}}


def cycle(request: int, ms: float, verify: float | None) -> Cycle:
    return Cycle(
        request, 0, 1, ms, None, verify, None, "probe", "cuda-event", start_ns=request * 10**9, rank=0
    )


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    """Two factors in four cells: the protocol doubles a cycle, no graphs triple it, both make it 8 times."""
    made = [
        Stack(f"{proto}-{graphs}", "sglang", env={"NCCL_PROTO": proto}, args={"graphs": graphs})
        for proto in ("LL", "Simple")
        for graphs in ("on", "off")
    ]
    planned = tuple(PlannedLaunch(i, 0, stack.name, (0,), 1) for i, stack in enumerate(made))
    run = Run(
        "r", "2026-01-01T00:00:00+00:00", "0", {}, Plan("e", tuple(made), (WORK,), planned, "none", 1), "s"
    )
    with create(tmp_path, run) as folder:
        for index, ms in enumerate((4.0, 12.0, 8.0, 32.0)):
            verify = ms / 2 if made[index].args["graphs"] == "on" else None
            sent = 10**9
            trace = RequestTrace(
                1,
                False,
                512,
                sent,
                sent,
                sent + 10**8,
                output_tokens=3,
                chunk_ns=(sent + 1,),
                chunk_tokens=(3,),
            )
            folder.begin_launch(index)
            folder.append_trial(Trial(index, 0, WORK, (trace,), (cycle(1, ms, verify),)))
            folder.end_launch(Launch(index, 0, made[index].name, 1, LaunchStatus.DONE, "2026"))
        folder.finish()
    return open_run(folder.path)


def test_effects_are_ratios_and_an_interaction_is_a_ratio_of_ratios(stored: StoredRun) -> None:
    found = {one.metric: one for one in effects_view.of_run(stored, ["graphs"])}
    effects = {effect.name: effects_view.changes(effect)[0] for effect in found["cycle_ms"].fit.effects}
    # Geometric means: 2 and 8/3 make 2.31 for the protocol, 3 and 4 make 3.46 for graphs.
    assert effects["NCCL_PROTO Simple/LL"] == pytest.approx(math.sqrt(2 * 8 / 3) - 1)
    assert effects["graphs off/on"] == pytest.approx(math.sqrt(12) - 1)
    assert effects["NCCL_PROTO Simple/LL x graphs off/on"] == pytest.approx((8 / 3) / 2 - 1)
    # A step is verify where there is one: half the cycle with graphs on.
    steps = {effect.name: effects_view.changes(effect)[0] for effect in found["step_ms"].fit.effects}
    assert steps["graphs off/on"] == pytest.approx(2 * math.sqrt(12) - 1)


def test_nothing_left_to_judge_noise_by_is_said(stored: StoredRun) -> None:
    out = StringIO()
    effects_view.show(Console(file=out, width=160), effects_view.of_run(stored, ["graphs"]))
    assert (
        "4 launches of 4 cells, 0 more than coefficients: nothing is left to judge noise by" in out.getvalue()
    )
    assert "-100.0% .. unbounded" in out.getvalue()
    out = StringIO()
    effects_view.show(Console(file=out, width=160), effects_view.of_run(stored))
    assert (
        "With one launch a cell that is noise between launches and effects that the model" in out.getvalue()
    )


def test_within_a_level_only_its_cells_count(stored: StoredRun) -> None:
    (one, *_) = effects_view.of_run(stored, within={"graphs": "off"})
    (effect,) = one.fit.effects
    assert (one.cells, effect.name) == (2, "NCCL_PROTO Simple/LL")
    assert effects_view.changes(effect)[0] == pytest.approx(32 / 12 - 1)


def test_levels_stand_in_the_files_order_whichever_cells_were_measured() -> None:
    run = next((PUBLISHED / "sglang-two-gpus-nccl").glob("*/run.json")).parent
    for level in ("true", "unset"):
        found = effects_view.of_run(open_run(run), within={GRAPHS: level})
        names = [effect.name for effect in found[0].fit.effects]
        assert names[:3] == ["NCCL_PROTO LL128/LL", "NCCL_PROTO Simple/LL", "NCCL_ALGO allreduce:tree/Ring"]


def test_an_interaction_names_no_levels_of_a_factor_with_two(stored: StoredRun) -> None:
    (one, *_) = effects_view.of_run(stored, ["graphs"])
    assert effects_view.short_name("NCCL_PROTO Simple/LL x graphs off/on", one.fit) == "NCCL_PROTO x graphs"


def test_an_unknown_factor_is_refused_by_name(stored: StoredRun) -> None:
    with pytest.raises(UsageError, match=r"no factor 'graph'.*graphs"):
        effects_view.of_run(stored, ["graph"])
    with pytest.raises(UsageError, match=r"no factor 'graph'.*graphs"):
        effects_view.of_run(stored, within={"graph": "on"})


def test_ends_that_can_not_be_told_are_null_for_programs(stored: StoredRun) -> None:
    told = effects_view.document(effects_view.of_run(stored, ["graphs"]))
    assert {one["metric"] for one in told} >= {"cycle_ms", "step_ms"}
    for one in told:
        assert one["residual"] is None
        assert all(effect["high"] is None for effect in one["effects"])

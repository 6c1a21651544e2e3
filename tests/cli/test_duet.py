"""`measure.pairing: duet`: two servers at a time, requests in turn, and the end of one is the end of both."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from commandline import Command, Ended, bench, experiment, run_folder

DUET = {"launches": 2, "warmup": 1, "pairing": "duet"}
WORK = {"context_tokens": [16], "output_tokens": 8, "requests": 6}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    folder = tmp_path_factory.mktemp("duet")
    file = experiment(folder / "e.yaml", matrix={"args.cycle_factor": [1, 2]}, measure=DUET, workload=WORK)
    command = Command("run", file, "--json", cwd=folder)
    ended = command.end()
    command.assert_nobody_left()
    return ended, folder


def requests(run: Path, launch: int) -> list[dict[str, Any]]:
    (file,) = run.glob(f"launches/{launch:03d}/trials/*/requests.parquet")
    rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return rows


def launch(run: Path, index: int) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((run / f"launches/{index:03d}/launch.json").read_text())
    return record


def test_each_launch_of_a_block_stands_for_itself(played: tuple[Ended, Path]) -> None:
    ended, folder = played
    assert ended.status in (0, 4), ended.err  # a busy machine may make a trial invalid
    run = run_folder(folder / "results")
    records = [launch(run, index) for index in range(4)]
    assert [record["block"] for record in records] == [0, 0, 1, 1]
    for one, other in (records[:2], records[2:]):
        assert {one["stack"], other["stack"]} == {"cycle_factor=1", "cycle_factor=2"}
        assert one["seed"] == other["seed"]
        assert one["command"][-2] != other["command"][-2], "two servers, two ports"
        assert one["attestation"]["settings"] and one["server_exit"]["exit_code"] is not None
    assert records[0]["stack"] == records[3]["stack"], "every second block is reversed"


def test_requests_go_to_both_servers_in_turn_and_never_at_once(played: tuple[Ended, Path]) -> None:
    run = run_folder(played[1] / "results")
    firsts = []
    for one, other in ((0, 1), (2, 3)):
        both = [(row, side) for side in (one, other) for row in requests(run, side)]
        both.sort(key=lambda pair: pair[0]["sent_ns"])
        assert [row["request"] for row, _ in both] == [at // 2 for at in range(14)], "pair by pair"
        for (before, _), (after, _) in pairwise(both):
            assert after["sent_ns"] >= before["finished_ns"], "one at a time"
        for at in range(0, 14, 2):
            assert {side for _, side in both[at : at + 2]} == {one, other}
            assert both[at][0]["prompt_tokens"] == both[at + 1][0]["prompt_tokens"]
        firsts.append([side == one for _, side in both[::2]])
    for order in firsts:
        assert order[0:4] in ([True, False, False, True], [False, True, True, False])


def test_a_speed_is_that_of_the_launchs_own_time(played: tuple[Ended, Path]) -> None:
    cells = {cell["stack"]: cell["metrics"] for cell in played[0].document["cells"]}
    for metrics in cells.values():
        alone = 8 / metrics["e2e_ms"] * 1000
        assert metrics["output_tok_s"] == pytest.approx(alone, rel=0.25), (
            "half of it if the other's time counted"
        )
    run = run_folder(played[1] / "results")
    rows = requests(run, 0)
    assert sum(row["partner_ns"] for row in rows) > 0
    spent = sum(row["finished_ns"] - row["sent_ns"] for row in rows) / 1e9
    assert launch(run, 0)["requests_s"] == pytest.approx(spent)


def test_compare_pairs_requests_from_two_blocks_on_and_says_so(played: tuple[Ended, Path]) -> None:
    names = ("latest:cycle_factor=1", "latest:cycle_factor=2")
    ended = bench("compare", *names, "--metric", "cycle_ms", "--json", cwd=played[1])
    (cell,) = ended.document["cells"]
    assert cell["duet"] is True and cell["paired"] is True
    assert cell["change"] == pytest.approx(1.0, abs=0.4)
    assert "duet: requests paired one by one" in ended.err


def test_plan_says_whether_both_fit(played: tuple[Ended, Path]) -> None:
    ended = bench("plan", "e.yaml", "--json", cwd=played[1])
    assert ended.document["pairing"] == "duet"
    assert ended.document["room"]["fits"] is True
    assert "both fit" in ended.err


@pytest.mark.parametrize("fault", ["die-at-start", "die-mid-stream"])
def test_trouble_of_one_ends_both_and_the_pair_is_made_again(tmp_path: Path, fault: str) -> None:
    faults = {
        "fault": {
            "fine": {},
            "dies": {"args.fault": fault, "args.fault_after_requests": 2, "args.fault_after_tokens": 3},
        }
    }
    file = experiment(tmp_path / "e.yaml", matrix=faults, measure={**DUET, "launches": 1}, workload=WORK)
    command = Command("run", file, "--json", cwd=tmp_path)
    ended = command.end()
    command.assert_nobody_left()
    assert ended.status == 5, ended.err
    failures = {failure["stack"]: failure for failure in ended.document["failures"]}
    assert "exited with code" in failures["dies"]["reason"]
    index = failures["dies"]["launch"]
    assert failures["fine"]["reason"] == f"its partner in the duet, launch {index} (dies), is failed"
    assert {failure["status"] for failure in failures.values()} == {"failed"}
    run = run_folder(tmp_path / "results")
    stored = sorted(path.parent.parent.parent.name for path in run.glob("launches/*/trials/*/trial.json"))
    assert stored == ([] if fault == "die-at-start" else ["000", "001"]), "what was measured is kept"
    again = bench("run", file, "--resume", "--json", cwd=tmp_path)
    assert again.status == 5
    assert len(list(run.glob("launches/*.interrupted-1"))) == 2


def test_the_first_stack_meets_each_other_one_and_is_not_given_up_for_a_partners_sake(tmp_path: Path) -> None:
    dies = {"args.fault": "die-at-start"}
    file = experiment(
        tmp_path / "e.yaml",
        matrix={"fault": {"fine": {}, "dies": dies, "slow": {"args.cycle_factor": 2}}},
        measure={**DUET, "launches": 3},
        workload=WORK,
    )
    ended = bench("run", file, "--json", cwd=tmp_path)
    assert ended.status == 5, ended.err
    cells = {cell["stack"]: cell["launches"] for cell in ended.document["cells"]}
    assert set(cells) == {"fine", "slow"} and set(cells.values()) <= {2, 3}, "a busy machine may spoil one"
    reasons = [one["reason"] for one in ended.document["failures"] if one["stack"] == "dies"]
    assert len(reasons) == 3 and reasons[2].startswith("not tried: 2 launches of this stack failed")
    assert sum(one["stack"] == "fine" for one in ended.document["failures"]) == 3
    (change,) = [line for line in ended.err.splitlines() if "output_tok_s" in line and " slow " in line]
    assert "regressed" in change or "undecided" in change


def test_ctrl_c_leaves_nobody_and_resume_makes_whole_pairs(tmp_path: Path) -> None:
    file = experiment(tmp_path / "e.yaml", matrix={"args.cycle_factor": [1, 2]}, measure=DUET, workload=WORK)
    command = Command("run", file, cwd=tmp_path)
    command.wait_for_file(tmp_path / "results", "*/*/launches/001/launch.json")
    command.wait_for_file(tmp_path / "results", "*/*/launches/003/server.log")
    time.sleep(0.3)
    command.interrupt()
    assert command.end().status == 130
    command.assert_nobody_left()
    ended = bench("run", file, "--resume", "--json", cwd=tmp_path)
    assert ended.status in (0, 4), ended.err
    assert ended.document["launches"] == 4 and ended.document["failures"] == []
    run = run_folder(tmp_path / "results")
    assert {path.name for path in run.glob("launches/*.interrupted-1")} <= {
        "002.interrupted-1",
        "003.interrupted-1",
    }


def test_a_duet_grows_until_it_is_decided(tmp_path: Path) -> None:
    file = experiment(tmp_path / "e.yaml", matrix={"args.cycle_factor": [1, 3]}, measure=DUET, workload=WORK)
    ended = bench("run", file, "--until", "decided", "--metric", "cycle_ms", "--json", cwd=tmp_path)
    assert ended.status in (0, 4), ended.err
    assert ended.document["until"]["decided"] is True
    assert ended.document["launches"] == 2 * ended.document["until"]["launches"]

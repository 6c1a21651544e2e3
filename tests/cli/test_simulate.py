"""`simulate bisect` as people and programs see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from commandline import bench

from benchharness.cli.simulate_command import command

SMALL = ("simulate", "bisect", "--versions", "16", "--effect", "4", "--trials", "6", "--seed", "3")


def test_what_a_campaign_would_cost_beside_plain_bisection(tmp_path: Path) -> None:
    done = bench(*SMALL, "--rho", "0.5", "--json", cwd=tmp_path)
    assert done.status == 0
    document = done.document
    assert 0.5 <= document["success"] <= 1
    assert document["mean_measurements"] >= document["mean_launches"] >= 6
    assert document["mean_hours"] > 0.5
    assert document["plain"]["1"]["mean_launches"] == pytest.approx(6, abs=0.5)
    assert "simulating 6 campaigns" in done.err
    assert "plain, 1 run a version" in done.err
    again = bench(*SMALL, "--rho", "0.5", "--json", cwd=tmp_path)
    assert again.out == done.out


def test_known_and_equal_costs_take_less(tmp_path: Path) -> None:
    asked = (*SMALL, "--rho", "0", "--cost", "equal", "--search-only", "--json")
    unknown = bench(*asked, cwd=tmp_path).document
    known = bench(*asked, "--known", cwd=tmp_path).document
    assert known["mean_measurements"] < unknown["mean_measurements"]
    assert unknown["mean_hours"] == pytest.approx(unknown["mean_measurements"] * 15 / 3600)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--versions", "1"), "versions"),
        (("--trials", "0"), "trials"),
        (("--effect", "-1"), "effect"),
        (("--effect", "much"), "effect"),
        (("--effect", "5%"), "--noise"),
        (("--rho", "1.2"), "rho"),
        (("--rho", "nan"), "rho"),
        (("--confidence", "1"), "confidence"),
        (("--seed", "-4"), "seed"),
        (("--lag", "1"), "lag"),
        (("--launches", "1"), "launches"),
        (("--noise", "nothing"), "nothing"),
        (("--cost", "free"), "--cost"),
    ],
)
def test_wrong_input_is_refused_with_one_line(tmp_path: Path, options: tuple[str, str], word: str) -> None:
    bench("simulate", "bisect", *options, cwd=tmp_path).refused(2, word)


def test_noise_of_a_stored_run(tmp_path: Path) -> None:
    published = Path(__file__).parents[2] / "results" / "published"
    run = next(published.glob("quickstart/*/run.json")).parent
    bench("simulate", "bisect", "--noise", run, cwd=tmp_path).refused(2, "stacks")
    noise = ("--search-only", "--effect", "20%", "--trials", "3", "--noise", f"{run}:off")
    done = bench("simulate", "bisect", "--versions", "16", *noise, "--json", cwd=tmp_path)
    assert done.status == 0, done.err
    assert 0 <= done.document["rho"] <= 1
    assert done.document["effect"] > 0
    known = bench("simulate", "bisect", "--noise", f"{run}:off", "--metric", "speed", cwd=tmp_path)
    known.refused(2, "speed")


def test_the_whole_campaign_stands_beside_the_search_alone(tmp_path: Path) -> None:
    both = bench(*SMALL, "--json", cwd=tmp_path)
    assert "the whole campaign" in both.err
    whole = both.document["whole"]
    assert whole["trials"] == 6
    # The good end against itself, the ends in blocks and the confirmation come on top.
    assert whole["mean_launches"] >= 8
    assert whole["wrong"] + whole["success"] + whole["cannot_tell"] == pytest.approx(1)
    alone = bench(*SMALL, "--search-only", "--json", cwd=tmp_path)
    assert alone.document["whole"] is None
    assert "the whole campaign" not in alone.err
    assert alone.document["plain"]["5"]["success"] == both.document["plain"]["5"]["success"]
    assert alone.document["mean_hours"] == both.document["mean_hours"]


def test_figures_do_not_depend_on_how_many_processes_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for cores in ({0}, {0, 1, 2}):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: cores)
        done = CliRunner().invoke(command, ["bisect", *SMALL[2:], "--trials", "12", "--json"])
        assert done.exit_code == 0, done.output
        told.append(done.stdout)
    assert told[0] == told[1]


def test_a_spread_below_which_ends_count_as_alike(tmp_path: Path) -> None:
    small = bench(*SMALL, "--spread", "0.1", "--effect", "2", "--json", cwd=tmp_path).document
    assert small["deviation"] == pytest.approx(0.001, rel=0.01)
    bench(*SMALL, "--spread", "0", cwd=tmp_path).refused(2, "spread")

"""When a campaign that goes on is rehearsed again, and how that is told."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from benchharness.bisect.session import forecast, outlook
from benchharness.bisect.session.deciding import Ended, Outcome, Wanted
from benchharness.bisect.session.forecast import Expected, Forecast
from benchharness.bisect.session.outlook import Outlook
from benchharness.bisect.session.standing import Standing
from benchharness.bisect.session.state import Leg, Place, Role
from benchharness.report import forecast_view
from benchharness.report.campaign_progress import CampaignProgress

PLACES = tuple(Place(label, label) for label in "abc")
NEXT = Wanted(PLACES[:1], Role.SEARCH, 1, "why not")
TOLD = Forecast(Expected(15.0, 9.3, 23.6), Expected(1.0, 0.5, 2.0), 0.8, 20)


def standing(launches: int, seconds: float) -> Standing:
    leg = Leg("axis", "commit", "base", PLACES)
    stands = SimpleNamespace(launches=launches, hours=seconds / 3600, state=SimpleNamespace(legs=(leg,)))
    return cast(Standing, stands)


def test_forecasts_take_a_twentieth_of_a_campaigns_time_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[float] = []

    def told(_: object, __: object, cpu_s: float) -> Forecast:
        allowed.append(cpu_s)
        return TOLD

    monkeypatch.setattr(outlook, "ahead", told)
    forecasts = Outlook()
    # Before the first launch nothing was spent, and nothing is disturbed.
    assert forecasts.renewed(standing(0, 0.0), NEXT) is TOLD
    seconds = [1.0 * at for at in range(1, 2001)]
    renewed = [forecasts.renewed(standing(int(at), at), NEXT) is not None for at in seconds]
    assert not any(renewed[:5])
    assert 10 < sum(renewed) < 400
    assert sum(allowed[1:]) <= outlook.SHARE * seconds[-1] + 1e-9
    assert max(allowed) <= forecast.MOST_CPU_S


def test_what_goes_wrong_with_a_forecast_ends_no_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(forecast, "of_axis", fails)
    hunt: Any = object.__new__(outlook.AxisHunt)
    question = SimpleNamespace(most_hours=None, most_launches=10)
    stands: Any = SimpleNamespace(
        launches=3, hours=1.0, hunts=(hunt,), state=SimpleNamespace(question=question)
    )
    assert outlook.ahead(stands, NEXT) is None
    assert outlook.ahead(stands, Ended(Outcome.FOUND, "done")) is None


def test_progress_tells_the_size_first_and_then_what_is_to_go() -> None:
    text = io.StringIO()
    progress = CampaignProgress(Console(file=text, width=200), None)
    progress.expects(standing(0, 0.0), None)
    progress.expects(standing(4, 60.0), None)
    progress.expects(standing(5, 80.0), TOLD)
    assert text.getvalue().splitlines() == [
        "commit: 3 points",
        "to go: about 15 launches (9 to 24), 1 h 00 min (30 min 00 s to 2 h 00 min); "
        "80% of 20 rehearsals end with an answer",
    ]


def test_one_launch_and_a_sure_answer_are_told_without_ranges() -> None:
    sure = Forecast(Expected(1.0, 1.0, 1.0), Expected(0.1, 0.1, 0.1), 1.0, 24, "if all goes well")
    assert forecast_view.words(sure) == "about 1 launch, 6 min 00 s; if all goes well"
    assert forecast_view.document(None) is None
    document = forecast_view.document(sure)
    assert document is not None
    assert document["launches"] == {"middle": 1.0, "low": 1.0, "high": 1.0}

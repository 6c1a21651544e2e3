"""What a campaign would take, told without a launch."""

from __future__ import annotations

from pathlib import Path

from benchharness import plan as plans
from benchharness.bisect.session import outlook
from benchharness.bisect.session.legs import Legs
from benchharness.bisect.session.question import Question
from benchharness.bisect.session.state import Leg
from benchharness.cli.options import print_json
from benchharness.report import console, forecast_view
from benchharness.spec import Experiment


def tell(
    declared: Experiment, question: Question, leg: Leg, legs: Legs, results: Path, *, as_json: bool
) -> None:
    """Print how large the hunt is, and what it is expected to take."""
    found = outlook.before(leg, legs, question, plans.make(declared), results, guess=True)
    people = console.people(as_json)
    people.print(forecast_view.beginning(leg, found), markup=False, soft_wrap=True)
    if as_json:
        print_json(
            {
                "kind": leg.kind,
                "axis": leg.axis,
                "places": [place.label for place in leg.places],
                "factors": list(leg.factors),
                "forecast": forecast_view.document(found),
            }
        )

"""The group of commands, and what is said when one of them ends in an error."""

from __future__ import annotations

import contextlib

import click

from benchharness.cli import INTERRUPTED
from benchharness.cli.lazy_group import LazyGroup
from benchharness.errors import HarnessError

COMMANDS = {
    "plan": "Show what an experiment would run, in which order, and how long.",
    "run": "Carry out an experiment and store what it measures.",
    "list": "List the stored runs.",
    "show": "Show what a run measured, and whether it is valid.",
    "compare": "Compare two stacks: how much, how sure, and a verdict.",
    "gate": "Hold a run against bounds, for CI: absolute ones, and changes against a baseline.",
    "baseline": "Name stored runs that others are held against.",
    "history": "Show stacks over the stored runs: where a level changed, and what changed with it.",
    "bisect": "Find which commit, release or difference changed a metric, and prove it.",
    "parse": "Read an engine's log: windows, acceptance, graphs, and what spoils them.",
    "doctor": "Say whether this machine is fit to measure, and what to do about what is not.",
    "selftest": "Measure the client's own timing error on this machine.",
    "simulate": "Say what a bisection would cost and find, on a simulated machine.",
    "env": "Build, list and remove the environments that stacks run in.",
}

_EPILOG = """\b
Exit status:
  0 done or passed      1 regression found     2 wrong usage
  3 undecided           4 invalid measurement  5 infrastructure
  130 interrupted

Start with: benchharness run experiments/quickstart.yaml
"""


@click.group(
    cls=LazyGroup,
    known=COMMANDS,
    module="benchharness.cli.{}_command",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="benchharness", message="%(version)s")
def cli() -> None:
    """Find which change made an LLM serving stack slower.

    benchharness launches the whole stack under declared configurations, drives streaming work
    through it, times every decode cycle, and says whether one configuration is slower than
    another, by how much, in which phase, and with what certainty.
    """


def run(arguments: list[str]) -> int:
    """Carry out a command line: its exit status, with one line on standard error where it went wrong."""
    as_json = "--json" in arguments
    try:
        status = cli.main(arguments, prog_name="benchharness", standalone_mode=False)
    except SystemExit as end:  # how commands give their status
        status = end.code
    except click.exceptions.Exit as end:
        status = end.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        advice = f"see `{context.command_path if context else 'benchharness'} --help`"
        status = _tell(as_json, error.format_message().rstrip("."), advice, error.exit_code)
    except HarnessError as error:
        status = _tell(as_json, error.message, error.advice, error.exit_status)
    except OSError as error:
        about = f"{error.filename}: " if error.filename is not None else ""
        status = _tell(as_json, f"{about}{error.strerror or error}", "", HarnessError.exit_status)
    except (KeyboardInterrupt, click.Abort) as error:
        status = _tell_interrupted(as_json, str(error.__cause__ or error))
    return status if isinstance(status, int) else 0


def _tell(as_json: bool, message: str, advice: str, status: int) -> int:
    """One line for people, one object for programs; gives the status back."""
    sentence = f"{message}; {advice}" if advice else message
    _echo(f"benchharness: error: {' '.join(sentence.split())}", err=True)
    _json_error(as_json, message, advice, status)
    return status


def _tell_interrupted(as_json: bool, advice: str) -> int:
    sentence = f"interrupted; {advice}" if advice else "interrupted"
    _echo(f"benchharness: {sentence}", err=True)
    return _json_error(as_json, "interrupted", advice, INTERRUPTED)


def _json_error(as_json: bool, message: str, advice: str, status: int) -> int:
    """With --json the last thing on standard output is one object, also when it went wrong."""
    if as_json:
        import json

        _echo(json.dumps({"error": message, "advice": advice, "exit_status": status}), err=False)
    return status


def _echo(text: str, *, err: bool) -> None:
    """Print if that is possible: the stream may be what failed, and the status must stand all the same."""
    with contextlib.suppress(OSError):
        click.echo(text, err=err)

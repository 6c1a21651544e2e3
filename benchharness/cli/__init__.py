"""The command line. One file a command; a command's module is imported only when it is called."""

from __future__ import annotations

import sys
from importlib import import_module

import click

COMMANDS = {
    "plan": "Show what an experiment would run, in which order, and how long.",
    "run": "Carry out an experiment and store what it measures.",
    "list": "List the stored runs.",
    "show": "Show what a run measured, and whether it is valid.",
    "compare": "Compare two stacks: how much, how sure, and a verdict.",
    "selftest": "Measure the client's own timing error on this machine.",
}

_EPILOG = """\b
Exit status:
  0 done or passed      1 regression found     2 wrong usage
  3 undecided           4 invalid measurement  5 infrastructure
  130 interrupted

Start with: benchharness run experiments/quickstart.yaml
"""


class _LazyGroup(click.Group):
    """Knows its commands by name and one line; imports a command's module when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"benchharness.cli.{cmd_name}_command").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from benchharness.errors import nearest

            ctx.fail(f"unknown command {args[0]!r}{nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_LazyGroup,
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


def main() -> None:
    """Entry point: runs the command line and turns errors into one line and an exit status."""
    from benchharness.errors import HarnessError

    as_json = "--json" in sys.argv[1:]
    try:
        status = cli.main(prog_name="benchharness", standalone_mode=False)
    except click.exceptions.Exit as error:
        status = error.exit_code
    except click.ClickException as error:
        error.show()
        _json_error(as_json, error.format_message(), "", error.exit_code)
        status = error.exit_code
    except HarnessError as error:
        click.echo(f"benchharness: error: {error}", err=True)
        _json_error(as_json, error.message, error.advice, error.exit_status)
        status = error.exit_status
    except (KeyboardInterrupt, click.Abort):
        click.echo("benchharness: interrupted", err=True)
        _json_error(as_json, "interrupted", "", 130)
        status = 130
    sys.exit(status or 0)


def _json_error(as_json: bool, message: str, advice: str, status: int) -> None:
    """With --json the last thing on standard output is one object, also when it went wrong."""
    if as_json:
        import json

        click.echo(json.dumps({"error": message, "advice": advice, "exit_status": status}))

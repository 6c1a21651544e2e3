"""`benchharness bisect`: which point of an axis, or which difference of two stacks, made it slower."""

from __future__ import annotations

from importlib import import_module

import click

from benchharness.errors import nearest

COMMANDS = {
    "run": "Ask a question and have it answered: ends, search, confirmation, verdict.",
    "status": "Where a campaign stands: what is believed, what was tried, what is next and why.",
    "step": "Carry out one block of a campaign; or answer for one commit, as `git bisect run` asks.",
    "skip": "Take a point out of a campaign.",
    "log": "What a campaign measured; of commits as `git bisect log` writes it.",
}


class _Group(click.Group):
    """Knows its commands by name and one line; imports a command's module when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"benchharness.cli.bisect_{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"unknown command {args[0]!r}{nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group("bisect", cls=_Group)
def command() -> None:
    """Find which commit, release or difference changed a metric, and prove it.

    A campaign first measures the good end against itself, then whether the ends differ at all. It goes on
    where each launch tells most for its time, confirms parent against culprit on fresh launches, and ends
    with a page to paste into an issue. It can be killed at any time: `--resume` goes on.
    """

"""A group of commands that knows them by name and one line, and imports one when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from benchharness.errors import nearest


class LazyGroup(click.Group):
    """See above.

    Args:
        known: command -> what it does, in one line.
        module: where a command is, as `benchharness.cli.{}_command`.
    """

    def __init__(self, *arguments: Any, known: Mapping[str, str], module: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._known = known
        self._module = module

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order in which they are told."""
        return list(self._known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported; None if there is none."""
        if cmd_name not in self._known:
            return None
        command: click.Command = import_module(self._module.format(cmd_name)).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown command with the nearest known one."""
        if args and args[0] not in self._known and not args[0].startswith("-"):
            ctx.fail(f"unknown command {args[0]!r}{nearest(args[0], self._known)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line a command, none of them imported."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._known.items()))

"""What stands ready: environments, commands, endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class EnvironmentSpec:
    """What an environment must hold; its content hash is its identity.

    Attributes:
        python: interpreter version, or None for the harness's own.
        requirements: requirement lines, as pip writes them.
        no_deps: install just these lines and none of what they ask for.
        find_links: folders or pages with wheels.
        extra_index_urls: further package indexes.
        imports: modules that must import for the environment to count as built.
        overrides: requirement lines that replace whatever else is asked of those distributions.
        excludes: distributions that stay out, whoever asks for them.
        host: distributions taken from the interpreter that the environment is made of, by links, together
            with what they require as far as that interpreter has it.
    """

    python: str | None = None
    requirements: tuple[str, ...] = ()
    no_deps: bool = False
    find_links: tuple[str, ...] = ()
    extra_index_urls: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    host: tuple[str, ...] = ()


@dataclass(frozen=True)
class Environment:
    """A built environment: where it stands and exactly what it holds.

    Attributes:
        key: content hash of the specification.
        path: its folder.
        python_path: its interpreter.
        python: full version of that interpreter.
        packages: distribution name -> version of all that is installed.
        built_s: seconds that building took this time; 0.0 when it was reused.
        from_host: distributions that are links to the host's own.
        omitted: what a bundle left out: patterns of files, and `NAME (package)` for whole distributions.
        broken_pins: distribution -> "what is required of it -> what is installed", where these disagree.
    """

    key: str
    path: str
    python_path: str
    python: str
    packages: Mapping[str, str]
    built_s: float = 0.0
    from_host: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    broken_pins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Needed:
    """The environment that a stack needs.

    Attributes:
        spec: None where the harness's own serves, or `reason` says why it can't be told.
        reason: one line; empty where all is well.
    """

    spec: EnvironmentSpec | None
    reason: str = ""


@dataclass(frozen=True)
class Built:
    """A stack's environment; None where the harness's own interpreter serves or `reason` says why not."""

    stack: str
    environment: Environment | None
    reason: str = ""


@dataclass(frozen=True)
class Command:
    """What to execute: an argument list (never a shell string) and variables to set or remove (None)."""

    argv: tuple[str, ...]
    env: Mapping[str, str | None] = field(default_factory=dict)
    cwd: str | None = None


@dataclass(frozen=True)
class Readiness:
    """The engine's own sign that it serves: a line of its log, then a 200 from a path."""

    log_line: str | None
    health_path: str | None
    timeout_s: float = 600.0


@dataclass(frozen=True)
class Endpoint:
    """How to talk to a running engine.

    Attributes:
        base_url: `http://127.0.0.1:PORT`.
        dialect: name of the streaming dialect (see `workload/dialects.py`).
        extra_body: fields that the engine wants in every request body.
        token_pool: token ids that prompts may be made of.
        bos_tokens: tokens that the engine adds in front by itself; they count as context.
        context_limit: most tokens (prompt + output) of one request; None if unknown.
        slots: requests that the engine works on at once; None if unknown.
    """

    base_url: str
    dialect: str
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    token_pool: tuple[int, ...] = ()
    bos_tokens: int = 0
    context_limit: int | None = None
    slots: int | None = None


@dataclass(frozen=True)
class EngineFacts:
    """What the running engine says of itself.

    Attributes:
        version: its own.
        settings: what its start resolved, for the record.
        arguments: declared argument -> the value that it runs with, as far as it tells.
    """

    version: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineCounters:
    """Cumulative counters read from the engine; None where it has none."""

    output_tokens: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    cycles: int | None = None

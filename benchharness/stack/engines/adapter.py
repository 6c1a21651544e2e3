"""What the harness needs to know of an engine. An adapter holds no state and starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from benchharness.records import (
    Command,
    Endpoint,
    EngineCounters,
    EngineFacts,
    Environment,
    EnvironmentSpec,
    Model,
    Readiness,
    Stack,
    Workload,
)


class Engine(Protocol):
    """One serving engine.

    Attributes:
        name: as experiment files write it.
        synthetic: a stand-in whose timings are declared, not measured.
        runs_checkouts: it can be run from a commit of its repository.
    """

    name: str
    synthetic: bool
    runs_checkouts: bool

    def check(self, stack: Stack, workloads: Sequence[Workload]) -> None:
        """Refuse what can be seen to be wrong before anything is built; raises UsageError."""
        ...

    def probed(self, stack: Stack) -> bool:
        """The probe knows how to time this engine's cycles from within."""
        ...

    def usual_start_s(self, stack: Stack) -> float:
        """Seconds that a start usually takes: for estimates before anything was measured."""
        ...

    def wants_gpu(self, stack: Stack) -> bool:
        """The stack asks for a GPU, so that a model that ends up on the CPU is no measurement of it."""
        ...

    def environment(self, stack: Stack) -> EnvironmentSpec | None:
        """What the engine's environment must hold; None if the harness's own interpreter serves.

        A stack with a repository has its code in `source.folder`. Raises UnbuildableError if that is no
        code of this engine's.
        """
        ...

    def examine(self, stack: Stack, environment: Environment) -> object:
        """Refuse what can be seen to be wrong once the environment stands.

        Raises UnbuildableError if the engine doesn't import, UsageError for an argument that it lacks.
        """
        ...

    def model_environment(self, stack: Stack) -> EnvironmentSpec | None:
        """What is needed to make the model of `stack.model.recipe`; None if nothing is to be made."""
        ...

    def make_model(self, stack: Stack, environment: Environment, folder: Path) -> Command:
        """The command that writes the recipe's files into `folder` (new and empty)."""
        ...

    def made_model(self, stack: Stack, folder: Path) -> Model:
        """The model with the paths that `make_model` wrote."""
        ...

    def command(
        self,
        stack: Stack,
        model: Model,
        environment: Environment | None,
        port: int,
        workloads: Sequence[Workload],
    ) -> Command:
        """How to start the server on loopback at `port`, with room for `workloads`."""
        ...

    def readiness(self, stack: Stack) -> Readiness:
        """The engine's own sign that it serves."""
        ...

    def connect(self, stack: Stack, base_url: str) -> tuple[Endpoint, EngineFacts]:
        """Ask the running server how to talk to it and what it is; raises EngineError."""
        ...

    def who_changes(self, stack: Stack, variable: str) -> str:
        """Who is known to change that variable in this release of the engine; empty where nobody is."""
        ...

    def flush_cache(self, stack: Stack, base_url: str) -> bool:
        """Have the server forget prefixes of earlier prompts; False where it has no way to. EngineError."""
        ...

    def start_facts(self, log: Path) -> Mapping[str, Any]:
        """What the start-up log alone tells of what the start resolved; empty where it tells nothing.

        Keys are field terms with units (`kv_cache_tokens`, `graph_batch_sizes`, `attention_backend`); they
        join `EngineFacts.settings`, whose own values win.
        """
        ...

    def counters(self, stack: Stack, base_url: str) -> EngineCounters:
        """The server's cumulative counters, for cross-checks; all None where it has none."""
        ...

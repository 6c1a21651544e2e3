"""The stand-in engine: declared timings, noise and faults, for tests of the harness only.

`args` of the stack are the names of `standin_process.settings.Settings`. One of them is read here and not
by the process: `speed_by` lets declared versions drive speed, so that bisections can be rehearsed:

    speed_by:
      packages.sgl-kernel: {"0.3.20": {verify_ms: 29}}
      source.commit: {"abc123": {draft_ms: 2}}
      packages.sgl-kernel & env.NCCL_ALGO: {"0.3.20 & Tree": {rest_ms: 4}}     # only together

Fields are those of the stack (`source.release`, `packages.NAME`, `env.NAME`, `model.path`, `python`, `name`),
values are compared as text, and a later entry wins over an earlier one.

What `standin.json` in the commit of a real repository (`source.repo`) says wins over all of that: a commit
without such a file, or with one that can't be read, is unbuildable. `repo: synthetic` names none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchharness.errors import EngineError, UnbuildableError, UsageError, nearest
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
from benchharness.stack.engines.standin_process.settings import KNOWN, SettingError, Settings, declared

_PROCESS = Path(__file__).with_name("standin_process")
_READY_LINES = {
    "sglang": "The server is fired up and ready to roll!",
    "llamacpp": "listening on http://",
    "none": None,
}
SYNTHETIC_REPO = "synthetic"
"""A repository that isn't there: its commits only name versions for `speed_by`."""

_CHECKOUT_FILE = "standin.json"
_FIELDS = ("source", "packages", "env", "model", "python", "name")
_CONTROL_TIMEOUT_S = 10.0


def _field(stack: Stack, path: str) -> str | None:
    """The declared value at a path such as `packages.sgl-kernel`, as text; None if nothing is declared."""
    head, _, rest = path.partition(".")
    if head not in _FIELDS or (head in ("python", "name")) == bool(rest):
        raise UsageError(
            f"stack {stack.name}: `args.speed_by` names {path!r}, which is no field of a stack",
            "use source.release, source.commit, packages.NAME, env.NAME, model.path, python or name",
        )
    value = getattr(stack, head)
    if rest:
        value = value.get(rest) if isinstance(value, Mapping) else getattr(value, rest, None)
    return None if value is None else str(value)


def _overrides(stack: Stack, table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that `speed_by` makes of the stack's declared fields."""
    found: dict[str, Any] = {}
    for paths, by_value in table.items():
        values = [_field(stack, path.strip()) for path in paths.split("&")]
        for wanted, settings in by_value.items():
            if [part.strip() for part in str(wanted).split("&")] == values:
                found |= settings
    return found


def _settings(stack: Stack) -> Settings:
    """The settings of a stack, `speed_by` worked in and left out; raises UsageError."""
    args = {name: value for name, value in stack.args.items() if value is not None}
    args.setdefault("version", stack.source.release or stack.source.commit or "0")
    try:
        speed_by = declared(args).speed_by
        args.pop("speed_by", None)
        return declared(args | _overrides(stack, speed_by) | _of_checkout(stack))
    except SettingError as error:
        hint = "" if error.name in KNOWN else nearest(error.name, KNOWN)
        raise UsageError(
            f"stack {stack.name}: the stand-in's setting {error}{hint}", "correct it under `args:`"
        ) from None


def _of_checkout(stack: Stack) -> dict[str, Any]:
    """What the commit says; nothing where none is checked out. UnbuildableError where it can't be read."""
    if stack.source.folder is None:
        return {}
    try:
        document = json.loads((Path(stack.source.folder) / _CHECKOUT_FILE).read_bytes())
        declared(document)
        return dict(document)
    except FileNotFoundError:
        raise UnbuildableError(f"the commit has no {_CHECKOUT_FILE}") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UnbuildableError(f"the commit's {_CHECKOUT_FILE} can't be used: {error}") from None


def _given(settings: Settings) -> dict[str, Any]:
    """The settings that differ from their defaults, as plain values."""
    standard = Settings()
    return {
        name: getattr(settings, name)
        for name in KNOWN
        if name != "speed_by" and getattr(settings, name) != getattr(standard, name)
    }


def _server_info(base_url: str) -> Mapping[str, Any]:
    import requests

    try:
        with requests.Session() as session:
            session.trust_env = False  # a proxy of the user's must not come between
            answer = session.get(f"{base_url}/server_info", timeout=_CONTROL_TIMEOUT_S)
            answer.raise_for_status()
            info: Mapping[str, Any] = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise EngineError(
            f"the stand-in at {base_url} does not answer /server_info ({type(error).__name__})", "see its log"
        ) from None
    return info


class StandIn:
    """The adapter; see `adapter.Engine`."""

    name = "standin"
    synthetic = True
    runs_checkouts = True

    def check(self, stack: Stack, workloads: Sequence[Workload]) -> None:
        """Refuse unknown or unfit settings, a model recipe, and workloads beyond the context limit."""
        settings = _settings(stack)
        if stack.model.recipe is not None:
            raise UsageError(f"stack {stack.name}: the stand-in has no model", "remove `model.recipe`")
        for workload in workloads:
            if workload.context_tokens + workload.output_tokens > settings.context_limit:
                raise UsageError(
                    f"stack {stack.name}: {workload.context_tokens} context tokens and "
                    f"{workload.output_tokens} output tokens exceed the stand-in's limit of "
                    f"{settings.context_limit}",
                    "shorten the workload or raise `args.context_limit`",
                )

    def probed(self, stack: Stack) -> bool:
        """It tells its phases as the probe would, where it is declared to."""
        return _settings(stack).phases

    def usual_start_s(self, stack: Stack) -> float:
        """Seconds from process creation to readiness."""
        return _settings(stack).start_s

    def wants_gpu(self, stack: Stack) -> bool:
        """Those that say so, for tests: `on_cpu` makes the start-up lines contradict them."""
        return True

    def environment(self, stack: Stack) -> EnvironmentSpec | None:
        """None: it runs on the harness's own interpreter, whatever `packages` declare."""
        reason = _settings(stack).unbuildable
        if reason is not None:
            raise UnbuildableError(reason)
        return None

    def examine(self, stack: Stack, environment: Environment) -> None:
        """It has none."""

    def model_environment(self, stack: Stack) -> EnvironmentSpec | None:
        """None: it has no model."""
        return None

    def make_model(self, stack: Stack, environment: Environment, folder: Path) -> Command:
        """Never asked for, since no recipe passes `check`; raises UsageError."""
        raise UsageError(f"stack {stack.name}: the stand-in has no model", "remove `model.recipe`")

    def made_model(self, stack: Stack, folder: Path) -> Model:
        """The declared model, which it ignores."""
        return stack.model

    def command(
        self,
        stack: Stack,
        model: Model,
        environment: Environment | None,
        port: int,
        workloads: Sequence[Workload],
    ) -> Command:
        """The process by path, isolated from the user's site, with all settings in one argument."""
        settings = json.dumps(_given(_settings(stack)), sort_keys=True)
        return Command((sys.executable, "-I", str(_PROCESS), str(port), settings), env=dict(stack.env))

    def readiness(self, stack: Stack) -> Readiness:
        """Its log dialect's ready line, then /health."""
        settings = _settings(stack)
        return Readiness(_READY_LINES[settings.log_dialect], "/health", settings.ready_timeout_s)

    def connect(self, stack: Stack, base_url: str) -> tuple[Endpoint, EngineFacts]:
        """Endpoint and facts by /server_info; raises EngineError."""
        info = _server_info(base_url)
        settings = _settings(stack)
        # The client forbids llama.cpp its cache; where a cache is what is declared, it must be asked for.
        cached = settings.prefix_cache and settings.dialect == "llamacpp"
        endpoint = Endpoint(
            base_url=base_url,
            dialect=settings.dialect,
            extra_body={"cache_prompt": True} if cached else {},
            token_pool=tuple(range(1000, 9000)),
            bos_tokens=0,
            context_limit=settings.context_limit,
            slots=settings.max_running,
        )
        told = ("synthetic", "noise_seed", "slow_mode", "launch_factor")
        facts = dict(info["settings"]) | {name: info[name] for name in told}
        return endpoint, EngineFacts(version=str(info["version"]), settings=facts)

    def who_changes(self, stack: Stack, variable: str) -> str:
        """Nobody: this engine leaves its variables alone."""
        return ""

    def flush_cache(self, stack: Stack, base_url: str) -> bool:
        """Nothing: its prefix cache, where one is declared, is a fault to be found."""
        return False

    def start_facts(self, log: Path) -> Mapping[str, Any]:
        """Nothing that the server's own answers lack."""
        return {}

    def counters(self, stack: Stack, base_url: str) -> EngineCounters:
        """Sums over all requests since its start; drafts are None without speculation."""
        counters = _server_info(base_url)["counters"]
        speculates = _settings(stack).speculation
        return EngineCounters(
            output_tokens=counters["output_tokens"],
            drafted_tokens=counters["drafted_tokens"] if speculates else None,
            accepted_tokens=counters["accepted_tokens"] if speculates else None,
            cycles=counters["cycles"],
        )


ENGINE = StandIn()

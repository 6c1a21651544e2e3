"""What can be declared of the stand-in engine: names, meanings, defaults and bounds in one dataclass."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any

DIALECTS = ("sglang", "openai-completions", "llamacpp")
LOG_DIALECTS = ("sglang", "llamacpp", "none")
START_FAULTS = ("die-at-start", "hang-at-start", "crash-signal")
ANSWER_FAULTS = ("http-500", "http-429", "redirect", "wrong-content-type")
STREAM_FAULTS = (
    "die-mid-stream",
    "crash-mid-stream",
    "reset-mid-stream",
    "half-close",
    "error-event",
    "stall",
)
OTHER_FAULTS = ("ignore-sigterm", "orphan", "garbage-log", "slow-health")
FAULTS = ("none", *START_FAULTS, *ANSWER_FAULTS, *STREAM_FAULTS, *OTHER_FAULTS)


class SettingError(ValueError):
    """A declared value can't be honoured; `name` is the setting's."""

    def __init__(self, name: str, sentence: str) -> None:
        self.name = name
        super().__init__(sentence)


def _declared(default: Any, check: Callable[[Any], Any], text: str) -> Any:
    """A field with its default, the function that checks and converts a declared value, and its meaning."""
    metadata = {"check": check, "text": text}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _real(low: float, high: float = math.inf) -> Callable[[Any], float]:
    """A check for a finite number in [low, high]."""

    def check(value: Any) -> float:
        if not _is_number(value) or not low <= value <= high:
            raise ValueError(f"must be a number from {low:g} to {high:g}")
        return float(value)

    return check


def _whole(low: int, high: float = math.inf) -> Callable[[Any], int]:
    """A check for a whole number in [low, high]."""

    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high:g}")
        return value

    return check


def _optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _one_of(*choices: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return check


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004 - one kind of error for all values
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text")
    return value


def _probabilities(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= 64:
        raise ValueError("must be a list of 1 to 64 probabilities")
    return tuple(_real(0.0, 1.0)(item) for item in value)


def _points(value: Any) -> tuple[tuple[float, float], ...]:
    message = "must be a list of [token position, factor] pairs with rising positions and factors above 0"
    if not isinstance(value, list | tuple):
        raise ValueError(message)  # noqa: TRY004
    points = [tuple(item) if isinstance(item, list | tuple) else () for item in value]
    if any(len(point) != 2 or not all(map(_is_number, point)) or point[1] <= 0 for point in points):
        raise ValueError(message)
    if any(after[0] <= before[0] for before, after in pairwise(points)):
        raise ValueError(message)
    return tuple((float(position), float(factor)) for position, factor in points)


def _overrides(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(
        isinstance(table, Mapping) and all(isinstance(settings, Mapping) for settings in table.values())
        for table in value.values()
    ):
        raise ValueError("must map a declared field to a table: its value -> settings")
    return dict(value)


@dataclass(frozen=True)
class Settings:
    """Everything that a stand-in does. Times are what the phases take; factors multiply them."""

    # --- times
    start_s: float = _declared(0.0, _real(0), "seconds from process start to serving")
    prefill_ms: float = _declared(1.0, _real(0), "fixed part of a prefill")
    prefill_ms_per_1k: float = _declared(10.0, _real(0), "prefill of 1000 tokens that no cache holds")
    speculation: bool = _declared(True, _flag, "cycles of draft and verify; false: plain steps of `step_ms`")
    draft_ms: float = _declared(1.0, _real(0), "draft phase of a cycle")
    verify_ms: float = _declared(4.0, _real(0), "verify phase of a cycle at context 0")
    verify_ms_per_1k_context: float = _declared(0.0, _real(0), "added to verify for 1000 tokens of context")
    draft_extend_ms: float = _declared(0.5, _real(0), "draft-extend phase of a cycle")
    rest_ms: float = _declared(0.5, _real(0), "what a cycle takes outside its phases")
    step_ms: float = _declared(5.0, _real(0), "one plain step at context 0")
    step_ms_per_1k_context: float = _declared(0.0, _real(0), "added to a step for 1000 tokens of context")
    cycle_factor: float = _declared(1.0, _real(0), "multiplies every cycle: 1.032 is a loss of 3.2 %")
    position_factors: tuple[tuple[float, float], ...] = _declared(
        (), _points, "[[token position in the answer, factor on cycles], ...], linear in between"
    )
    # --- noise
    cycle_cv: float = _declared(0.0, _real(0, 2), "coefficient of variation of cycles within a request")
    request_cv: float = _declared(0.0, _real(0, 2), "the same of requests within a launch")
    launch_cv: float = _declared(0.0, _real(0, 2), "the same of launches: drawn once at process start")
    autocorrelation: float = _declared(0.0, _real(-0.99, 0.99), "lag-1 correlation of the request effects")
    drift_per_hour: float = _declared(0.0, _real(-100, 100), "change of the factor in one hour: 0.05 is +5 %")
    drift_origin_s: float | None = _declared(
        None, _optional(_real(0)), "Unix time at which drift is 0; null: when the process started"
    )
    tail_share: float = _declared(0.0, _real(0, 1), "share of cycles that take `tail_factor` times as long")
    tail_factor: float = _declared(5.0, _real(0), "see `tail_share`")
    slow_mode_probability: float = _declared(0.0, _real(0, 1), "chance that a launch is slow throughout")
    slow_mode_factor: float = _declared(1.62, _real(0), "multiplies the cycles of a slow launch")
    warmup_cycles: int = _declared(0, _whole(0), "first cycles of the launch that take `warmup_factor`")
    warmup_factor: float = _declared(2.0, _real(0), "see `warmup_cycles`")
    noise_seed: int | None = _declared(
        None, _optional(_whole(0)), "makes all draws repeatable; null: new ones at each launch, seed logged"
    )
    launch_count_file: str | None = _declared(
        None, _optional(_text), "file that counts starts: launches then differ, yet repeat with `noise_seed`"
    )
    # --- acceptance
    accept_probabilities: tuple[float, ...] = _declared(
        (0.9, 0.7),
        _probabilities,
        "chance that the draft at each position is accepted, the ones before it given",
    )
    accept_length: float | None = _declared(
        None, _optional(_real(1, 64)), "tokens a cycle, exact in the mean; replaces `accept_probabilities`"
    )
    draft_tokens: int | None = _declared(
        None, _optional(_whole(1, 64)), "tokens drafted a cycle with `accept_length`; null: just enough"
    )
    # --- what it can serve
    max_running: int = _declared(64, _whole(1, 4096), "requests worked on at once; others queue")
    context_limit: int = _declared(32768, _whole(2), "most tokens of prompt and answer together")
    prefix_cache: bool = _declared(False, _flag, "a prompt's known beginning (blocks of 16) costs no prefill")
    jit_s: float = _declared(
        0.0, _real(0), "added to the first request of each prompt length, with a log line"
    )
    graph_max_batch: int | None = _declared(
        None, _optional(_whole(0)), "largest batch with a captured graph; null: all batches have one"
    )
    eager_factor: float = _declared(2.5, _real(0), "multiplies cycles above `graph_max_batch`")
    on_cpu: bool = _declared(False, _flag, "start-up lines say that the device is not used")
    version: str = _declared("0", _text, "what it says its version is; the source's where declared")
    # --- what it says over HTTP
    dialect: str = _declared("sglang", _one_of(*DIALECTS), "which of its three interfaces the client uses")
    stream: str = _declared(
        "auto", _one_of("auto", "chunk", "token"), "events a cycle: one, or one a token; auto: as that engine"
    )
    usage: str = _declared(
        "cumulative", _one_of("cumulative", "final", "absent"), "token counts: every event, last one, nowhere"
    )
    cumulative_text: bool = _declared(False, _flag, "/generate repeats all text so far in each event")
    text_share: float = _declared(1.0, _real(0, 1), "share of tokens that show as a word of the text")
    tcp: str = _declared(
        "whole", _one_of("whole", "split", "merge"), "events sent one by one, cut in two, or two at a time"
    )
    framing: str = _declared("chunked", _one_of("chunked", "close"), "how a streamed body is delimited")
    timings_from: str = _declared(
        "clock", _one_of("clock", "schedule"), "`predicted_ms` by the clock, or as declared whatever the load"
    )
    truth: bool = _declared(True, _flag, "each event carries `standin`: send time, cycle and phases")
    phases: bool = _declared(False, _flag, "cycles and their phases are told as the probe tells them")
    # --- log
    log_dialect: str = _declared("sglang", _one_of(*LOG_DIALECTS), "whose log it writes")
    log_interval: int = _declared(40, _whole(1), "decode cycles from one line to the next (SGLang's)")
    old_accept_rate: bool = _declared(False, _flag, "accept rate as SGLang up to 0.5.10 prints it")
    # --- faults
    fault: str = _declared("none", _one_of(*FAULTS), "what goes wrong")
    fault_after_tokens: int = _declared(8, _whole(0), "tokens of the answer sent before a mid-stream fault")
    fault_after_requests: int = _declared(0, _whole(0), "requests that go well before the fault")
    fault_delay_s: float = _declared(5.0, _real(0), "how late `slow-health` answers")
    # --- for the adapter
    unbuildable: str | None = _declared(
        None, _optional(_text), "why no environment can be built for it: it is never started"
    )
    ready_timeout_s: float = _declared(60.0, _real(0.01), "how long the harness waits for it to serve")
    speed_by: Mapping[str, Any] = _declared(
        {}, _overrides, "declared field -> its value -> settings that hold then; see the adapter"
    )

    @property
    def drafted(self) -> int:
        """Tokens drafted a cycle; 0 without speculation."""
        if not self.speculation:
            return 0
        if self.accept_length is None:
            return len(self.accept_probabilities)
        return self.draft_tokens or max(1, math.ceil(self.accept_length) - 1)


KNOWN: Mapping[str, Any] = {item.name: item for item in fields(Settings)}
"""Setting's name -> its dataclass field, whose metadata holds `text`, its meaning."""


def declared(values: Mapping[str, Any]) -> Settings:
    """The settings of a mapping of names to plain values.

    Raises:
        SettingError: a name is unknown (its sentence then ends in "is unknown"), a value is out of
            bounds, or two values contradict each other.
    """
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in KNOWN:
            raise SettingError(name, f"{name} is unknown")
        try:
            checked[name] = KNOWN[name].metadata["check"](value)
        except ValueError as error:
            raise SettingError(name, f"{name} {error}, not {value!r}") from None
    settings = Settings(**checked)
    _refuse_contradictions(settings, checked)
    return settings


def _refuse_contradictions(settings: Settings, given: Mapping[str, Any]) -> None:
    length = settings.accept_length
    if length is not None and given.get("accept_probabilities"):
        raise SettingError("accept_length", "accept_length and accept_probabilities exclude each other")
    if settings.draft_tokens is not None and length is None:
        raise SettingError("draft_tokens", "draft_tokens needs accept_length")
    if length is not None and settings.draft_tokens is not None and length > settings.draft_tokens + 1:
        raise SettingError(
            "draft_tokens", f"{settings.draft_tokens} drafts can't give accept_length {length:g}"
        )
    if settings.launch_count_file is not None and settings.noise_seed is None:
        raise SettingError("launch_count_file", "launch_count_file needs noise_seed")

"""The engine's log, in the words of SGLang or llama.cpp."""

from __future__ import annotations

import random
import sys
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from .generation import Cycle, Generation
from .settings import Settings

if TYPE_CHECKING:
    from .engine import Engine

_POOL_TOKENS = 572_596


class Journal:
    """A log that says nothing of the work: `log_dialect: none`. The others add to it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._garbage = random.Random("garbage") if settings.fault == "garbage-log" else None  # noqa: S311

    def write(self, line: str) -> None:
        """One line at once; before it some binary nonsense if that is the declared fault."""
        if self._garbage is not None:
            sys.stdout.buffer.write(self._garbage.randbytes(300) + b"\x1b[31m\0\xff\r")
            sys.stdout.buffer.write(b"x" * self._garbage.choice((0, 0, 70_000)) + b"\n")
        sys.stdout.buffer.write(line.encode() + b"\n")
        sys.stdout.buffer.flush()

    def say(self, sentence: str) -> None:
        """A line of the stand-in's own, with the dialect's prefix."""
        if self.settings.log_dialect != "none":
            self.write(sentence)

    def starting(self, port: int, seed: str) -> None:
        """Start-up begins."""

    def ready(self, port: int) -> None:
        """It serves from now on."""

    def compiling(self, length: int) -> None:
        """The first request of a prompt length waits for a compiler."""

    def prefilled(self, generation: Generation, engine: Engine) -> None:
        """A prompt was worked through."""

    def cycled(self, generation: Generation, cycle: Cycle, engine: Engine) -> None:
        """A cycle is over."""

    def finished(self, generation: Generation, engine: Engine) -> None:
        """A request is over."""

    def answered(self, peer: str, request: str, status: int) -> None:
        """An HTTP answer was begun."""


class SglangJournal(Journal):
    """As SGLang 0.5.12 logs. One line in `log_interval` cycles of the batch.

    Its gen throughput is tokens over wall time since the line before, so idle time and prefill count:
    a known flaw of the original, kept because tests are about it.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._steps = 0.0
        self._tokens = 0
        self._window_tokens = 0
        self._window_cycles = 0
        self._since_s = self._prefill_s = time.monotonic()

    def say(self, sentence: str) -> None:
        """With SGLang's wall-clock stamp."""
        self.write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {sentence}")

    def starting(self, port: int, seed: str) -> None:
        """Arguments, weights, captured graphs, limits."""
        settings = self.settings
        device = "cpu" if settings.on_cpu else "cuda"
        self.say(
            f"server_args=ServerArgs(model_path='standin', host='127.0.0.1', port={port}, device='{device}', "
            f"context_length={settings.context_limit}, max_running_requests={settings.max_running}, "
            f"speculative_num_draft_tokens={settings.drafted + 1 if settings.speculation else None})"
        )
        self.say(f"standin: synthetic engine, version={settings.version}, noise seed={seed}")
        self.say("Load weight begin. avail mem=139.13 GB")
        self.say("Load weight end. elapsed=0.11 s, type=StandIn, avail mem=125.57 GB, mem usage=13.55 GB.")
        self.say(f"KV Cache is allocated. #tokens: {_POOL_TOKENS}, K size: 34.95 GB, V size: 34.95 GB")
        if settings.graph_max_batch != 0 and not settings.on_cpu:
            self.say("Capture cuda graph begin. This can take up to several minutes. avail mem=55.46 GB")
            self.say(f"Capture cuda graph bs {_captured(settings)}")
            self.say("Capture cuda graph end. Time elapsed: 3.08 s. mem usage=0.04 GB. avail mem=55.42 GB.")
        self.say(
            f"max_total_num_tokens={_POOL_TOKENS}, chunked_prefill_size=8192, max_prefill_tokens=16384, "
            f"max_running_requests={settings.max_running}, context_len={settings.context_limit}, "
            "available_gpu_mem=50.97 GB"
        )

    def ready(self, port: int) -> None:
        """Uvicorn's lines and SGLang's own."""
        self.write("INFO:     Application startup complete.")
        self.write(f"INFO:     Uvicorn running on http://127.0.0.1:{port} (Press CTRL+C to quit)")
        self.say("The server is fired up and ready to roll!")

    def compiling(self, length: int) -> None:
        """The line of a kernel compiler."""
        self.say(
            f"Triton kernel JIT compilation during inference: extend_kernel_{length}. This causes a latency "
            "spike; consider extending warmup to cover this shape/config."
        )

    def prefilled(self, generation: Generation, engine: Engine) -> None:
        """A Prefill batch line."""
        now = time.monotonic()
        new = len(generation.ask.prompt) - generation.cached
        rate = new / max(now - self._prefill_s, 1e-9)
        self._prefill_s = now
        self._tokens += 1
        self.say(
            f"Prefill batch, #new-seq: 1, #new-token: {new}, #cached-token: {generation.cached}, "
            f"token usage: {engine.tokens_held() / _POOL_TOKENS:.2f}, #running-req: {engine.running - 1}, "
            f"#queue-req: {engine.queued}, #pending-token: 0, cuda graph: False, "
            f"input throughput (token/s): {rate:.2f}"
        )

    def cycled(self, generation: Generation, cycle: Cycle, engine: Engine) -> None:
        """A Decode batch line when its interval is over."""
        self._tokens += cycle.tokens
        self._window_tokens += cycle.tokens
        self._window_cycles += 1
        # A real batch steps together; here each stream steps by itself and is that share of a step.
        self._steps += 1.0 / engine.running
        if self._steps < self.settings.log_interval - 1e-6:
            return
        now = time.monotonic()
        held = engine.tokens_held()
        self.say(
            f"Decode batch, #running-req: {engine.running}, #token: {held}, "
            f"token usage: {held / _POOL_TOKENS:.2f}, {self._acceptance()}cuda graph: {cycle.graph}, "
            f"gen throughput (token/s): {self._tokens / max(now - self._since_s, 1e-9):.2f}, "
            f"#queue-req: {engine.queued}"
        )
        self._since_s = now
        self._steps -= self.settings.log_interval
        self._tokens = self._window_tokens = self._window_cycles = 0

    def answered(self, peer: str, request: str, status: int) -> None:
        """Uvicorn's access line."""
        self.say(f'INFO:     {peer} - "{request}" {status} {HTTPStatus(status).phrase}')

    def _acceptance(self) -> str:
        drafted = self.settings.drafted
        if not drafted:
            return ""
        length = self._window_tokens / self._window_cycles
        rate = length / (drafted + 1) if self.settings.old_accept_rate else (length - 1) / drafted
        return f"accept len: {length:.2f}, accept rate: {rate:.2f}, "


class LlamaJournal(Journal):
    """As llama.cpp's server logs: three lines a request, two more with speculation."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._start_s = time.monotonic()
        self._draft_ms = 0.0
        self._calls = 0
        self._useful = 0

    def say(self, sentence: str) -> None:
        """With the time since the start."""
        micros = int((time.monotonic() - self._start_s) * 1e6)
        seconds, micros = divmod(micros, 1_000_000)
        stamp = f"{seconds // 60}.{seconds % 60:02d}.{micros // 1000:03d}.{micros % 1000:03d}"
        self.write(f"{stamp} I {sentence}")

    def starting(self, port: int, seed: str) -> None:
        """Loading, device layers, slots."""
        settings = self.settings
        self.say("srv          init: initializing ...")
        self.say(f"srv          init: build_info: {settings.version}-standin, synthetic, noise seed {seed}")
        self.say("srv    load_model: loading model 'standin.gguf'")
        layers = 0 if settings.on_cpu else 33
        self.say(f"load_tensors: offloaded {layers}/33 layers to GPU")
        self.say(
            f"srv    load_model: initializing, n_slots = {settings.max_running}, "
            f"n_ctx_slot = {settings.context_limit}, kv_unified = 'false'"
        )

    def ready(self, port: int) -> None:
        """The line with the address."""
        self.say("srv          init: model loaded")
        self.say(f"srv          init: listening on http://127.0.0.1:{port}")

    def compiling(self, length: int) -> None:
        """A line about kernels."""
        self.say(f"graph_reserve: compiling kernels for n_tokens = {length}")

    def cycled(self, generation: Generation, cycle: Cycle, engine: Engine) -> None:
        """Sums for the statistics line."""
        self._draft_ms += cycle.draft_ms or 0.0
        self._calls += cycle.drafted > 0
        self._useful += cycle.accepted > 0

    def finished(self, generation: Generation, engine: Engine) -> None:
        """Timings, and acceptance with speculation."""
        head = f"slot print_timing: id  0 | task {generation.index} |"
        new = len(generation.ask.prompt) - generation.cached
        prompt_ms = (generation.first_s - generation.started_s) * 1e3
        eval_ms = (generation.due_s - generation.first_s) * 1e3
        self.say(f"{head} prompt eval time = {_timing(prompt_ms, new)}")
        self.say(f"{head}        eval time = {_timing(eval_ms, generation.sent)}")
        total = new + generation.sent
        self.say(f"{head}       total time = {prompt_ms + eval_ms:10.2f} ms / {total:5d} tokens")
        if generation.drafted:
            self._speculation(head, generation, engine)
        held = generation.context - 1
        self.say(
            f"slot      release: id  0 | task {generation.index} | stop processing: n_tokens = {held}, "
            "truncated = 0"
        )

    def _speculation(self, head: str, generation: Generation, engine: Engine) -> None:
        accepted, drafted = generation.accepted, generation.drafted
        length = 1 + accepted / generation.cycles
        self.say(
            f"{head} draft acceptance = {accepted / drafted:.5f} ({accepted:5d} accepted / "
            f"{drafted:5d} generated), mean len = {length:5.2f}"
        )
        self.say(
            f"spec common_specu: statistics     draft-simple: #calls(b,g,a) = {engine.requests:4d} "
            f"{self._calls:6d} {self._calls:6d}, #gen drafts = {self._calls:6d}, "
            f"#acc drafts = {self._useful:5d}, #gen tokens = {engine.drafted:6d}, "
            f"#acc tokens = {engine.accepted:5d}, #mean acc len = {1 + engine.accepted / self._calls:.2f}, "
            f"dur(b,g,a) = 0.005, {self._draft_ms:.3f}, 0.023 ms"
        )


def _timing(ms: float, tokens: int) -> str:
    each, rate = ms / max(tokens, 1), tokens / max(ms / 1e3, 1e-9)
    return f"{ms:10.2f} ms / {tokens:5d} tokens ({each:8.2f} ms per token, {rate:8.2f} tokens per second)"


def _captured(settings: Settings) -> list[int]:
    """Batch sizes with a captured graph, as SGLang chooses them: small ones, then multiples of 8."""
    largest = settings.max_running if settings.graph_max_batch is None else settings.graph_max_batch
    sizes = [size for size in (1, 2, 4, *range(8, largest + 1, 8)) if size <= largest]
    return sizes if largest in sizes else [*sizes, largest]


def journal(settings: Settings) -> Journal:
    """The log of the declared dialect."""
    kinds: dict[str, type[Journal]] = {"sglang": SglangJournal, "llamacpp": LlamaJournal, "none": Journal}
    return kinds[settings.log_dialect](settings)

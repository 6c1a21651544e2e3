"""Which path does what."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from . import faults
from .answer import Answer
from .apis import Api, BadRequestError, apis

if TYPE_CHECKING:
    from .connection import Connection
    from .engine import Engine


class Router:
    """Takes the requests of all connections."""

    def __init__(self, engine: Engine) -> None:
        self.settings = engine.settings
        self._engine = engine
        self._apis = apis(engine.settings)
        self._requests = 0

    def route(self, connection: Connection, method: str, path: str, body: bytes) -> None:
        """Answer a request, now or later."""
        if path in self._apis:
            if method == "POST":
                self._generate(connection, self._apis[path], body)
            else:
                connection.respond_json(405, {"error": {"message": "POST it", "code": 405}})
        elif path in ("/health", "/health_generate"):
            self._health(connection)
        elif path in ("/server_info", "/get_server_info"):
            connection.respond_json(200, self._info())
        elif path == "/flush_cache":
            self._engine.cache.clear()
            connection.respond(200, "text/plain", b"Cache flushed.\n")
        elif path == "/metrics":
            connection.respond(200, "text/plain; version=0.0.4", self._metrics())
        else:
            connection.respond_json(404, {"error": {"message": f"nothing at {path}", "code": 404}})

    def answered(self, transport: asyncio.Transport | None, request: str, status: int) -> None:
        """Note an answer in the log."""
        peer = transport.get_extra_info("peername") if transport is not None else None
        self._engine.journal.answered(f"{peer[0]}:{peer[1]}" if peer else "-", request, status)

    def _generate(self, connection: Connection, api: Api, body: bytes) -> None:
        fault = faults.of_answer(self.settings, self._requests)
        self._requests += 1
        if fault is not None:
            self._answer_badly(connection, fault)
            return
        try:
            wanted = json.loads(body)
            ask = api.ask(wanted if isinstance(wanted, dict) else {})
        except (BadRequestError, json.JSONDecodeError, UnicodeDecodeError) as error:
            connection.respond_json(
                400, {"error": {"message": str(error), "type": "BadRequest", "code": 400}}
            )
            return
        answer = Answer(connection, api, self.settings)
        if ask.stream:
            connection.begin_stream(answer)
        else:
            connection.await_answer(answer)
        answer.generation = self._engine.submit(ask, answer)

    def _answer_badly(self, connection: Connection, fault: str) -> None:
        error = {"error": {"message": f"told to fail (fault: {fault})", "type": "StandIn"}}
        if fault == "http-500":
            connection.respond_json(500, error)
        elif fault == "http-429":
            connection.respond(429, "application/json", json.dumps(error).encode(), {"Retry-After": "1"})
        elif fault == "redirect":
            connection.respond(307, "text/plain", b"elsewhere\n", {"Location": "/elsewhere"})
        else:
            page = b"<!doctype html><title>proxy</title><p>This is not the stream that you asked for.\n"
            connection.respond(200, "text/html; charset=utf-8", page)

    def _health(self, connection: Connection) -> None:
        if self.settings.fault == "slow-health":
            loop = asyncio.get_running_loop()
            loop.call_later(self.settings.fault_delay_s, connection.respond, 200, "text/plain", b"")
        else:
            connection.respond(200, "text/plain", b"")

    def _info(self) -> dict[str, Any]:
        engine, settings = self._engine, self.settings
        length = (engine.cycles + engine.accepted) / engine.cycles if engine.cycles else None
        return {
            "version": settings.version,
            "synthetic": True,
            "max_running_requests": settings.max_running,
            "context_length": settings.context_limit,
            "noise_seed": engine.noise.seed,
            "slow_mode": engine.noise.slow_mode,
            "launch_factor": engine.noise.launch_factor,
            "internal_states": [{"avg_spec_accept_length": length}],
            "counters": {
                "requests": engine.requests,
                "output_tokens": engine.output_tokens,
                "drafted_tokens": engine.drafted,
                "accepted_tokens": engine.accepted,
                "cycles": engine.cycles,
                "eager_cycles": engine.eager_cycles,
            },
            "settings": asdict(settings),
        }

    def _metrics(self) -> bytes:
        engine = self._engine
        values = {
            "sglang:num_running_reqs": ("gauge", engine.running),
            "sglang:num_queue_reqs": ("gauge", engine.queued),
            "sglang:generation_tokens_total": ("counter", engine.output_tokens),
            "sglang:spec_verify_calls_total": ("counter", engine.cycles if engine.drafted else 0),
        }
        lines = [f"# TYPE {name} {kind}\n{name} {value}" for name, (kind, value) in values.items()]
        return ("\n".join(lines) + "\n").encode()

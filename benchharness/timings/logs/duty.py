"""Windows of engines that log by the wall clock, and steps that did something else than decode.

vLLM's figures are averages over the ten seconds since its last line: with an idle server, or with prompts,
in them they say how busy it was, not how fast it decodes.
"""

from __future__ import annotations

from benchharness.records.logline import LogLine

IDLE, PREFILL, JIT = "idle time in it", "a prefill in it", "a kernel was compiled in it"
FIRST = "first of the log"
DUMMY = "dummy step"


class DutyMarker:
    """Judges rows one after another, in the order of the log."""

    def __init__(self) -> None:
        self._running: dict[str, float] = {}
        self._jit = False
        self._why = ""

    def judge(self, row: LogLine) -> str | None:
        """Why a row's speed is not that of decoding; empty where it is; None for rows without a speed."""
        if row.kind == "jit":
            self._jit = True
        if row.engine == "vllm" and row.kind == "throughput":
            self._why = "; ".join(self._window(row))
            return self._why
        if row.engine == "vllm" and row.kind == "spec_decoding":
            return self._why
        if row.kind == "iteration":
            return _step(row)
        return None

    def _window(self, row: LogLine) -> list[str]:
        index = str(row.fields.get("engine_index"))
        before = self._running.get(index)
        self._running[index] = row.figure("running")
        reasons = []
        if before is None:
            reasons.append(FIRST)
        if before == 0 or row.figure("running") == 0:
            reasons.append(IDLE)
        if row.figure("prompt_tps") > 0:
            reasons.append(PREFILL)
        if self._jit:
            reasons.append(JIT)
            self._jit = False
        return reasons


def _step(row: LogLine) -> str:
    if row.fields.get("dummy"):
        return DUMMY
    context = row.figure("ctx_req" if row.engine == "vllm" else "num_ctx_requests")
    return PREFILL if context > 0 else ""

"""One line, or one table, that a log parser understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Value = str | bool | None | tuple[str, ...]
"""As written in the log; None where the line says nothing; a flag where the harness itself decides."""

DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class LogLine:
    """What one line of a log says.

    Attributes:
        engine: the dialect that read it: `sglang`, `vllm`, `llamacpp`, `trtllm`, `nccl`, `bench`, `profile`.
        kind: what it is about: `decode`, `prefill`, `throughput`, `eval` ...; `damaged` for a line that
            belongs to the dialect but can't be read.
        number: its line number in the log, from 1; of a table its first line's.
        text: the line as it stands, without its end; of a table all its lines.
        fields: what it says, by the names of the dialect. Values are the log's own words.
    """

    engine: str
    kind: str
    number: int
    text: str
    fields: Mapping[str, Value] = field(default_factory=dict)

    @property
    def damaged(self) -> bool:
        """Whether the line was refused."""
        return self.kind == DAMAGED

    def figure(self, name: str) -> float:
        """A field as a number; NaN where it is absent or isn't one. A percent sign is left out."""
        value = self.fields.get(name)
        if not isinstance(value, str):
            return float("nan")
        try:
            return float(value.rstrip("%").replace(",", ""))
        except ValueError:
            return float("nan")

    def document(self) -> dict[str, object]:
        """As `benchharness parse --jsonl` prints it."""
        return {
            "kind": self.kind,
            "engine": self.engine,
            "line": self.number,
            "text": self.text,
            **{key: list(value) if isinstance(value, tuple) else value for key, value in self.fields.items()},
        }

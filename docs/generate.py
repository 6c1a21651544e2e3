"""Writes the parts of docs/ that come from the code: both schemas and the metrics table."""

from __future__ import annotations

import json
from pathlib import Path

from benchharness import metrics, spec
from benchharness.spec import thresholds

DOCS = Path(__file__).parent
BEGIN, END = "<!-- metrics:begin -->\n", "<!-- metrics:end -->"


def schema_text() -> str:
    """docs/experiment.schema.json as it should be."""
    return json.dumps(spec.json_schema(), indent=2) + "\n"


def glossary_text(present: str) -> str:
    """docs/glossary.md with the present metrics table."""
    before, _, rest = present.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + metrics.markdown() + END + after


def main() -> None:
    """Write all of them."""
    thresholds_text = json.dumps(thresholds.json_schema(), indent=2) + "\n"
    (DOCS / "thresholds.schema.json").write_text(thresholds_text, encoding="utf-8")
    (DOCS / "experiment.schema.json").write_text(schema_text(), encoding="utf-8")
    glossary = DOCS / "glossary.md"
    glossary.write_text(glossary_text(glossary.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

"""T1: the shapes of real engines' lines, each with what must come out of it."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchharness.records.logline import LogLine
from benchharness.timings.logs import definition, reading, stream

SHAPES = Path(__file__).parents[2] / "data" / "log_shapes.txt"
ENGINES = {"S": "sglang", "V": "vllm", "L": "llamacpp", "T": "trtllm", "B": "bench"}


@dataclass(frozen=True)
class Shape:
    id: str
    expected: dict[str, Any]
    text: str

    @property
    def engine(self) -> str:
        return "nccl" if self.id == "S21" else ENGINES[self.id[0]]

    def rows(self, engine: str = "auto") -> list[LogLine]:
        return list(stream.rows(reading.stream_log(io.BytesIO(self.text.encode())), engine))


def shapes() -> list[Shape]:
    found = []
    for block in SHAPES.read_text(encoding="utf-8").split("\n\n"):
        comments = [line for line in block.splitlines() if line.startswith("# ")]
        names = [line.split()[-1] for line in comments if line.startswith("# @id ") and "shape" not in line]
        if not names:
            continue
        expected = next(line for line in comments if line.startswith("# @expect "))
        lines = [line for line in block.splitlines() if not line.startswith("# ")]
        found.append(
            Shape(names[0], json.loads(expected.removeprefix("# @expect ")), "\n".join(lines) + "\n")
        )
    return found


BY_ID = {shape.id: shape for shape in shapes()}
EACH = pytest.mark.parametrize("shape", BY_ID.values(), ids=BY_ID.keys())


def test_all_shapes_are_here() -> None:
    assert len(BY_ID) == 33


@EACH
@pytest.mark.parametrize("automatic", [True, False], ids=["auto", "named"])
def test_what_is_expected_comes_out(shape: Shape, automatic: bool) -> None:
    rows = shape.rows("auto" if automatic else shape.engine)
    assert rows
    for key, wanted in shape.expected.items():
        found = [row.fields[key] for row in rows if key in row.fields]
        if isinstance(wanted, list):
            assert found == wanted, key
        elif wanted is None:
            assert set(found) <= {None}, key
        else:
            assert set(found) == {wanted}, key


@EACH
def test_rows_say_where_they_come_from(shape: Shape) -> None:
    lines = shape.text.splitlines()
    for row in shape.rows():
        assert row.engine == shape.engine
        document = json.loads(json.dumps(row.document()))
        assert document["kind"] == row.kind
        assert document["line"] == row.number
        assert str(document["text"]).split("\n")[0].rstrip() == lines[row.number - 1].rstrip()


def figure(id_: str, key: str, place: int = 0) -> float:
    return [row.figure(key) for row in BY_ID[id_].rows() if row.fields.get(key) is not None][place]


def test_the_window_after_a_prefill_is_not_kept() -> None:
    first, second = (row.fields for row in BY_ID["S05"].rows() if row.kind == "decode")
    assert first["keep"] is False
    assert "prefill" in str(first["reason"])
    assert second["keep"] is True
    assert second["reason"] is None
    assert float(str(second["token"])) - float(str(first["token"])) == 40


@pytest.mark.parametrize(
    ("id_", "draft_tokens", "formula"),
    [
        ("S06", 4, definition.WITH_BONUS),
        ("S07", 9, definition.WITH_BONUS),
        ("S09", 6, definition.DRAFTS_ONLY),
        ("S11", 4, definition.DRAFTS_ONLY),
    ],
)
def test_the_accept_rate_tells_its_definition(id_: str, draft_tokens: int, formula: str) -> None:
    pair = [figure(id_, "accept_len")], [figure(id_, "accept_rate")]
    assert definition.infer(*pair, draft_tokens).formula == formula


def test_what_is_told_without_the_head_tells_also_the_draft_tokens() -> None:
    told = definition.infer([figure("S06", "accept_len")], [figure("S06", "accept_rate")])
    assert told == definition.Definition(definition.WITH_BONUS, 4)
    assert definition.rate(2.24, 4, definition.DRAFTS_ONLY) == pytest.approx(0.41, abs=0.005)
    assert definition.rate(3.55, 6, definition.WITH_BONUS) == pytest.approx(0.59, abs=0.005)


def test_the_damaged_line_gives_no_figures() -> None:
    (row,) = BY_ID["S16"].rows()
    assert row.damaged
    assert set(row.fields) == {"malformed", "why"}


def test_a_graph_flag_that_is_not_printed_is_unknown() -> None:
    for id_ in ("S02", "S14"):
        (row,) = BY_ID[id_].rows()
        assert row.fields["cuda_graph"] is None
        assert row.fields["graph"] is None


def test_the_mean_length_follows_from_the_counts() -> None:
    drafts = figure("V07", "drafted") / 4
    assert drafts == 242
    assert 1 + figure("V07", "accepted") / drafts == pytest.approx(figure("V07", "mean_len"), abs=0.005)


def test_draft_and_rest_of_a_cycle_of_llama_cpp() -> None:
    """T14: 3.73 ms draft and 22.61 ms for verify and the rest."""
    cycles = float(str(BY_ID["L05"].rows()[0].fields["calls"]).split()[1])
    _, draft, accept = (float(part) for part in str(BY_ID["L05"].rows()[0].fields["dur_ms"]).split(", "))
    assert draft / cycles == pytest.approx(3.73, abs=0.005)
    assert (figure("L04", "eval_ms") - draft - accept) / cycles == pytest.approx(22.61, abs=0.005)


@pytest.mark.parametrize(
    ("id_", "words"), [("B01", ("32 tokens when retokenized", "peak")), ("B02", ("peak", "4.0 tokens"))]
)
def test_impossible_figures_of_a_table_are_doubted(id_: str, words: tuple[str, ...]) -> None:
    (row,) = BY_ID[id_].rows()
    said = " ".join(row.document()["doubts"])  # type: ignore[arg-type]
    for word in words:
        assert word in said


def test_dummy_steps_are_not_kept() -> None:
    real, dummy = BY_ID["V09"].rows()
    assert real.fields["keep"] is True
    assert dummy.fields["keep"] is False


def test_ranks_that_ray_hid_are_counted() -> None:
    assert [row.fields["repeated"] for row in BY_ID["S21"].rows()] == [None, None, "15"]

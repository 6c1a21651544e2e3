"""`doctor` as people and programs see it."""

from __future__ import annotations

from pathlib import Path

from commandline import bench


def test_findings_with_status_and_advice(tmp_path: Path) -> None:
    done = bench("doctor", "--json", cwd=tmp_path)
    found = done.document["findings"]
    assert {"check", "status", "advice"} <= set(found[0])
    assert done.status == (4 if any(one["status"] == "bad" for one in found) else 0)
    assert "client.stamps" in {one["check"] for one in found}
    assert "what to do" in done.err

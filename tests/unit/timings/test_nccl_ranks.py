"""What NCCL says of each rank, in lines as NCCL 2.28 prints them, between an engine's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchharness.timings.logs import nccl_ranks

BUS = "busId 6000 commId 0x5e - Init START"
PEER_TO_PEER = f"""\
[2026-11-29 18:00:01 TP0] Init torch distributed begin.
host:901:901 [0] NCCL INFO NCCL_PROTO set by environment to LL
host:901:901 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS
host:901:901 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
host:902:902 [1] NCCL INFO NCCL_PROTO set by environment to LL
host:902:940 [1] NCCL INFO ncclCommInitRankConfig comm 0x55 rank 1 nranks 2 cudaDev 1 nvmlDev 1 {BUS}
host:901:939 [0] NCCL INFO ncclCommInitRankConfig comm 0x56 rank 0 nranks 2 cudaDev 0 nvmlDev 0 {BUS}
host:901:939 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
host:901:939 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/IPC
host:902:940 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/IPC
host:902:940 [1] NCCL INFO
host:902:941 [1] NCCL INFO ncclCommInitRank comm 0x58 rank 0 nranks 1 cudaDev 1 nvmlDev 1 {BUS}
host:903:903 [0] NCCL INFO ncclCommInitRank comm 0x57 rank 0 nranks 1 cudaDev 0 nvmlDev 0 {BUS}
"""


def test_each_rank_has_its_own_variables_paths_and_version() -> None:
    found = nccl_ranks.ranks(PEER_TO_PEER.splitlines())
    assert list(found) == [0, 1]
    assert found[0].env == {"NCCL_PROTO": "LL", "NCCL_P2P_LEVEL": "SYS"}
    # What rank 1 never read isn't there.
    assert found[1].env == {"NCCL_PROTO": "LL"}
    assert (found[0].version, found[0].paths, found[0].channels) == ("2.28.9", ("P2P/IPC",), 2)
    assert (found[1].pid, found[1].paths, found[1].channels) == (902, ("P2P/IPC",), 1)


def test_shared_memory_is_told_from_peer_to_peer_in_both_spellings() -> None:
    lines = [line.replace("P2P/IPC", "SHM/direct/direct") for line in PEER_TO_PEER.splitlines()]
    lines.append("host:901:939 [0] NCCL INFO Channel 02 : 0[0] -> 1[1] [send] via NET/Socket/0")
    assert nccl_ranks.ranks(lines)[0].paths == ("NET/Socket/0", "SHM/direct/direct")


def test_a_process_without_others_is_no_rank() -> None:
    assert nccl_ranks.ranks([PEER_TO_PEER.splitlines()[-1]]) == {}
    assert nccl_ranks.ranks([]) == {}


@pytest.mark.parametrize(
    ("line", "chosen"),
    [
        (
            "h:1:2 [0] NCCL INFO AllReduce: 8192 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}",
            ("AllReduce", 8192, "RING", "LL"),
        ),
        (
            "h:1:2 [0] NCCL INFO AllReduce: 24576 Bytes -> Algo Tree proto Simple channel{Lo..Hi}={0..0}",
            ("AllReduce", 24576, "TREE", "SIMPLE"),
        ),
        (
            "h:1:2 [0] NCCL INFO AllGather: 64 Bytes -> Algo 1 proto 0 time 8.4",
            ("AllGather", 64, "RING", "LL"),
        ),
    ],
)
def test_collectives_tell_algorithm_and_protocol(line: str, chosen: tuple[str, int, str, str]) -> None:
    assert nccl_ranks.collectives([line, "no such line", line]) == {chosen: 2}


def test_a_refusal_is_told_in_nccls_words(tmp_path: Path) -> None:
    line = (
        "h:901:939 [0] src/enqueue.cc:2028 NCCL WARN Error : no algorithm/protocol available for function "
        "AllGather with datatype ncclBfloat16. NCCL_ALGO was set to Tree."
    )
    says = nccl_ranks.refusal([*PEER_TO_PEER.splitlines(), line])
    assert says.startswith("NCCL refuses: no algorithm/protocol available for function AllGather")
    assert says.endswith("NCCL_ALGO was set to Tree.")
    assert nccl_ranks.refusal(PEER_TO_PEER.splitlines()) == ""
    (tmp_path / "log").write_text(line)
    assert nccl_ranks.refused_in(tmp_path / "log") == says
    assert nccl_ranks.refused_in(tmp_path / "none") == ""

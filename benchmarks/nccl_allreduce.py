"""What an all-reduce takes between two GPUs under NCCL's variables, and what NCCL chooses for it.

Needs torch with CUDA, two GPUs and nothing of the harness:

    python benchmarks/nccl_allreduce.py allreduce.json

Every setting runs in two processes of its own, since NCCL reads its variables once. Messages are those of a
step of the 8B Llama in bfloat16: one token and three (a verify of EAGLE3) of 4096 values, and a prefill of
512 tokens. Each is timed by CUDA events over the replay of a graph of REPEATS all-reduces; the median over
rounds, of the slower rank. NCCL says algorithm and protocol while the graph is captured, which costs its
replay nothing.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HIDDEN = 4096
TOKENS = (1, 3, 512)
REPEATS = 64
ROUNDS = 15
LIMIT_S = 60
BASE = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NCCL_CUMEM_ENABLE": "0"}
"""NVLink multicast stays off. SGLang sets NCCL_CUMEM_ENABLE so too."""
CHOSEN = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)")
VIA = re.compile(r"Channel \d+(?:/\d+)? : \d+\[\w+\] -> \d+\[\w+\] (?:\[\w+\] )?via (\S+)")
REFUSED = re.compile(r"NCCL WARN.*?(no algorithm/protocol available for function .*)")


def settings() -> dict[str, dict[str, str]]:
    """Name -> variables: the grid of the experiment, and what stands beside it."""
    found: dict[str, dict[str, str]] = {}
    paths = {"p2p": {}, "shm": {"NCCL_P2P_DISABLE": "1"}}
    for path, algorithm, protocol in itertools.product(paths, ("Ring", "Tree"), ("LL", "LL128", "Simple")):
        algo = "Ring" if algorithm == "Ring" else "allreduce:tree"
        found[f"{protocol}-{algorithm}-{path}"] = {"NCCL_ALGO": algo, "NCCL_PROTO": protocol, **paths[path]}
    found["defaults-p2p"] = {}
    found["defaults-shm"] = paths["shm"]
    for level in ("LOC", "NVL", "SYS"):
        found[f"LL-Ring-level-{level}"] = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL", "NCCL_P2P_LEVEL": level}
    found["LL-Tree-of-everything"] = {"NCCL_ALGO": "Tree", "NCCL_PROTO": "LL"}
    return found


def work(rank: int, meeting: str) -> None:
    """One rank: microseconds of an all-reduce by tokens, and the version of NCCL."""
    import torch
    import torch.distributed as distributed

    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method=f"file://{meeting}", rank=rank, world_size=2)
    us: dict[str, float] = {}
    for tokens in TOKENS:
        data = torch.zeros(tokens, HIDDEN, dtype=torch.bfloat16, device="cuda")
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            distributed.all_reduce(data)
            distributed.all_gather([torch.empty_like(data) for _ in range(2)], data)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                for _ in range(REPEATS):
                    distributed.all_reduce(data)
            us[str(tokens)] = replay_us(graph, stream)
    answer = {"nccl": ".".join(map(str, torch.cuda.nccl.version())), "us": us}
    print("ANSWER " + json.dumps(answer), flush=True)
    # Communicators with graphs that still live take long to be destroyed.
    os._exit(0)


def replay_us(graph: Any, stream: Any) -> float:
    """Microseconds of one of a graph's all-reduces: median over rounds, the first three left out."""
    import torch

    taken = []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(stream)
        graph.replay()
        end.record(stream)
        end.synchronize()
        taken.append(begin.elapsed_time(end) * 1000 / REPEATS)
    return float(statistics.median(taken[3:]))


def pair(variables: dict[str, str], place: Path) -> tuple[list[dict[str, Any]], str]:
    """Both ranks' answers, empty where one failed, and all that they printed."""
    told = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,TUNING"}
    environment = {**os.environ, **BASE, **variables, **told}
    meeting = str(place / f"meeting-{time.monotonic_ns()}")
    files = [place / f"rank-{rank}.txt" for rank in range(2)]
    ranks = []
    for rank, path in enumerate(files):
        with path.open("w") as out:
            line = [sys.executable, __file__, "--rank", str(rank), meeting]
            ranks.append(subprocess.Popen(line, stdout=out, stderr=subprocess.STDOUT, env=environment))
    over = time.monotonic() + LIMIT_S
    while any(one.poll() is None for one in ranks) and time.monotonic() < over:
        # One that failed leaves the other waiting.
        if any(one.poll() not in (None, 0) for one in ranks):
            break
        time.sleep(0.1)
    for one in ranks:
        one.kill()
        one.wait()
    said = "\n".join(path.read_text(errors="replace") for path in files)
    answers = [json.loads(line[7:]) for line in said.splitlines() if line.startswith("ANSWER ")]
    return (answers if len(answers) == 2 else []), said


def measure(variables: dict[str, str], place: Path) -> dict[str, object]:
    """What one setting comes to."""
    answers, said = pair(variables, place)
    refused = REFUSED.search(said)
    found: dict[str, object] = {
        "variables": variables,
        "chosen": {f"{name} {size}": f"{algo} {proto}" for name, size, algo, proto in CHOSEN.findall(said)},
        "via": sorted(set(VIA.findall(said))),
        "refused": refused[1].strip() if refused else "",
    }
    if answers:
        slower = {tokens: max(one["us"][tokens] for one in answers) for tokens in answers[0]["us"]}
        return {**found, "nccl": answers[0]["nccl"], "us": slower}
    return found if refused else {**found, "failed": said.strip().splitlines()[-3:] or ["said nothing"]}


def main() -> None:
    """Measure every setting; the file is written anew after each."""
    if sys.argv[1] == "--rank":
        work(int(sys.argv[2]), sys.argv[3])
    out, found = Path(sys.argv[1]), {}
    with tempfile.TemporaryDirectory() as place:
        for name, variables in settings().items():
            found[name] = measure(variables, Path(place))
            told = found[name].get("us") or found[name].get("refused") or found[name].get("failed")
            print(name, found[name]["via"], told, flush=True)
            out.write_text(json.dumps({"repeats": REPEATS, "rounds": ROUNDS, "settings": found}, indent=1))


if __name__ == "__main__":
    main()

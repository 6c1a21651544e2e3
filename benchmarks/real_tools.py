"""The benchmark tools that others use, each in an environment of its own: how to get, run and read them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

STREAMS = 64
EVENTS = 400

SGLANG = (
    "aiohttp apache-tvm-ffi compressed-tensors datasets gguf ipython msgspec numpy orjson pillow psutil "
    "pybase64 pyzmq requests sentencepiece starlette torch torchvision tqdm transformers triton"
)


class SkippedError(Exception):
    """A tool can't be had or run here; the text says why."""


@dataclass(frozen=True)
class Report:
    """What a tool said of 64 streams: mean token interval and mean time to first token, in ms; its CPU s."""

    itl_ms: float
    ttft_ms: float
    cpu_s: float


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes:
        name: as printed.
        environment: name of its environment; tools may share one.
        requirements: what is installed with dependencies.
        alone: what is installed without.
        command: (bin folder, port, tokenizer folder, output folder) -> argument list.
        read: output folder -> (mean token interval ms, mean time to first token ms).
    """

    name: str
    environment: str
    requirements: tuple[str, ...]
    alone: tuple[str, ...]
    command: Callable[[Path, int, Path, Path], list[str]]
    read: Callable[[Path], tuple[float, float]]


def _sglang(module: str) -> Callable[[Path, int, Path, Path], list[str]]:
    def command(bins: Path, port: int, tokenizer: Path, out: Path) -> list[str]:
        where = ["--backend", "sglang", "--host", "127.0.0.1", "--port", str(port)]
        model = ["--model", str(tokenizer), "--tokenizer", str(tokenizer)]
        lengths = [
            "--random-input-len",
            "16",
            "--random-output-len",
            str(EVENTS),
            "--random-range-ratio",
            "1",
        ]
        load = ["--num-prompts", str(STREAMS), "--max-concurrency", str(STREAMS), "--warmup-requests", "1"]
        rest = ["--dataset-name", "random-ids", "--output-file", str(out / "out.jsonl"), "--disable-tqdm"]
        return [str(bins / "python"), "-W", "ignore", "-m", module, *where, *model, *lengths, *load, *rest]

    return command


def _read_sglang(out: Path) -> tuple[float, float]:
    said = json.loads((out / "out.jsonl").read_text().splitlines()[0])
    return said["mean_itl_ms"], said["mean_ttft_ms"]


def _aiperf(bins: Path, port: int, tokenizer: Path, out: Path) -> list[str]:
    where = [
        "-m",
        "null",
        "--url",
        f"http://127.0.0.1:{port}",
        "--endpoint-type",
        "completions",
        "--streaming",
    ]
    load = ["--concurrency", str(STREAMS), "--request-count", str(STREAMS)]
    lengths = ["--synthetic-input-tokens-mean", "16", "--synthetic-input-tokens-stddev", "0"]
    asked = ["--output-tokens-mean", str(EVENTS), "--extra-inputs", f"max_tokens:{EVENTS}"]
    rest = ["--tokenizer", str(tokenizer), "--output-artifact-dir", str(out), "--ui", "none"]
    return [str(bins / "aiperf"), "profile", *where, *load, *lengths, *asked, *rest]


def _read_aiperf(out: Path) -> tuple[float, float]:
    said = json.loads((out / "profile_export_aiperf.json").read_text())
    return said["inter_token_latency"]["avg"], said["time_to_first_token"]["avg"]


def _guidellm(bins: Path, port: int, tokenizer: Path, out: Path) -> list[str]:
    where = f"kind=openai_http,target=http://127.0.0.1:{port},model=tiny,request_format=/v1/completions"
    load = [
        "--profile",
        f"kind=concurrent,streams={STREAMS}",
        "--constraint",
        f"kind=max_requests,count={STREAMS}",
    ]
    data = ["--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={EVENTS}"]
    words = ["--tokenizer", f"kind=hf_auto,model={tokenizer}"]
    rest = ["--output", f"kind=json,path={out / 'out.json'}", "--disable-console"]
    return [str(bins / "guidellm"), "run", "--backend", where, *load, *data, *words, *rest]


def _read_guidellm(out: Path) -> tuple[float, float]:
    said = json.loads((out / "out.json").read_text())["benchmarks"][0]["metrics"]
    return (
        said["inter_token_latency_ms"]["successful"]["mean"],
        said["time_to_first_token_ms"]["successful"]["mean"],
    )


TOOLS = (
    Tool(
        "sglang.bench_serving 0.5.23, Python client",
        "sglang",
        tuple(SGLANG.split()),
        ("sglang==0.5.23",),
        _sglang("sglang.benchmark.serving"),
        _read_sglang,
    ),
    Tool(
        "sglang.bench_serving 0.5.23, Rust client",
        "sglang",
        tuple(SGLANG.split()),
        ("sglang==0.5.23",),
        _sglang("sglang.benchmark.rust_client"),
        _read_sglang,
    ),
    Tool("aiperf", "aiperf", ("aiperf",), (), _aiperf, _read_aiperf),
    Tool("guidellm", "guidellm", ("guidellm",), (), _guidellm, _read_guidellm),
)


def environment(root: Path, name: str, requirements: tuple[str, ...], alone: tuple[str, ...] = ()) -> Path:
    """The bin folder of an environment under `root`, built if it isn't there; raises SkippedError."""
    folder = root / name
    ready = folder / "ready"
    if not ready.exists():
        uv = find_uv_bin()
        _must([uv, "venv", "--quiet", "--clear", str(folder)], 60)
        install = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
        try:
            # The tools only need torch to import; its CPU build is a tenth of the size.
            _must([*install, "--torch-backend", "cpu", *requirements], 600)
        except SkippedError:
            _must([*install, *requirements], 600)
        if alone:
            _must([*install, "--no-deps", *alone], 300)
        ready.touch()
    return folder / "bin"


def _must(argv: list[str], limit_s: float) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise SkippedError(f"{argv[1]} took longer than {limit_s:g} s") from error
    if done.returncode:
        raise SkippedError((done.stderr.strip().splitlines() or ["it failed without a word"])[-1])


def run(tool: Tool, bins: Path, port: int, tokenizer: Path, out: Path, limit_s: float = 180) -> Report:
    """Run a tool against the null server; raises SkippedError with its last words if it fails."""
    out.mkdir(parents=True)
    log = out / "log.txt"
    variables = os.environ | {"TOKENIZERS_PARALLELISM": "false"}
    with log.open("wb") as sink:
        argv = tool.command(bins, port, tokenizer, out)
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=variables, start_new_session=True
        )
        cpu_s, status = _wait(process, limit_s)
    if status:
        words = log.read_text(errors="replace").strip().splitlines() or ["(nothing)"]
        raise SkippedError(f"it ended with {status}: {words[-1][:160]}")
    try:
        itl_ms, ttft_ms = tool.read(out)
    except (OSError, KeyError, IndexError, ValueError) as error:
        raise SkippedError(f"its report can't be read: {error!r}") from error
    return Report(itl_ms, ttft_ms, cpu_s)


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> tuple[float, int]:
    """(CPU s of the process and what it waited for, exit status)."""
    until = time.monotonic() + limit_s
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime, process.returncode
        if time.monotonic() > until:
            os.killpg(process.pid, 9)
            os.wait4(process.pid, 0)
            process.returncode = -9
            raise SkippedError(f"it took longer than {limit_s:g} s")
        time.sleep(0.1)

"""What a process knows of itself: environment, versions, rank, device."""

from __future__ import annotations

import os
import sys
import time

from . import masking

KEPT_PREFIXES = ("NCCL_", "CUDA_", "SGLANG_", "TORCH_", "OMP_")

_MODULES = ("sglang", "sgl_kernel", "flashinfer", "torch", "triton", "transformers", "vllm", "deep_gemm")


def environment(declared: tuple[str, ...]) -> dict[str, object]:
    """The variables as this process has them now.

    Returns `env` (allow-list and declared names; values that look like secrets are `***`) and
    `env_names` (the names of all others).
    """
    env: dict[str, str] = {}
    names: list[str] = []
    for name, value in sorted(os.environ.items()):
        if name.startswith(KEPT_PREFIXES) or name in declared:
            env[name] = masking.masked(name, value)
        else:
            names.append(name)
    return {"env": env, "env_names": names}


def versions() -> dict[str, object]:
    """`versions` (module -> version) and `files` (module -> path) of what is imported by now."""
    found: dict[str, str] = {}
    files: dict[str, str] = {}
    for name in _MODULES:
        module = sys.modules.get(name)
        if module is not None:
            version = getattr(module, "__version__", None)
            if version is not None:
                found[name] = str(version)
            files[name] = str(getattr(module, "__file__", None))
    nccl = _nccl()
    if nccl:
        found["nccl"] = nccl
    return {"versions": found, "files": files}


def _nccl() -> str | None:
    """Version of the NCCL library that torch has loaded; None without one."""
    torch = sys.modules.get("torch")
    if torch is None or not cuda_in_use():
        return None
    version = torch.cuda.nccl.version()
    return ".".join(map(str, version)) if isinstance(version, tuple) else str(version)


def cuda_in_use() -> bool:
    """Whether torch has a CUDA context in this process. Asking doesn't make one."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def start() -> dict[str, object]:
    """Facts of a process that has just imported the engine."""
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "monotonic_ns": time.monotonic_ns(),
        "realtime_ns": time.time_ns(),
    }


def rank(runner: object) -> dict[str, object]:
    """Rank and device, from a model runner that is set up and from torch.

    `rank` is torch's global one where a process group stands, else the tensor-parallel one.
    """
    facts: dict[str, object] = {}
    for name in ("gpu_id", "tp_rank", "pp_rank", "dp_rank"):
        value = getattr(runner, name, None)
        if isinstance(value, int):
            facts[name] = value
    facts["rank"] = facts.get("tp_rank")
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        facts["rank"] = int(distributed.get_rank())
    if torch is not None and cuda_in_use():
        index = torch.cuda.current_device()
        facts["device"] = str(torch.cuda.get_device_name(index))
        facts["device_index"] = int(index)
        facts["device_uuid"] = str(getattr(torch.cuda.get_device_properties(index), "uuid", ""))
    else:
        facts["device"] = str(getattr(runner, "device", "cpu"))
        if facts["device"] == "cpu":
            facts.pop("gpu_id", None)
    return facts

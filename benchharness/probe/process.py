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


def all_reduce() -> dict[str, object]:
    """`all_reduce`: the ways that this rank's tensor-parallel group has set up, in the order of their use.

    A kernel of the engine's own comes before NCCL, which it bypasses for the sizes that it takes; empty where
    there is one rank or nothing is known. Attributes are named as in
    SGLang 0.5.12; where a release has others, they are missing.
    """
    state = sys.modules.get("sglang.srt.distributed.parallel_state")
    group = getattr(state, "_TP", None)
    if getattr(group, "world_size", 1) < 2:
        return {}
    found: list[str] = []
    for name in ("ca_comm", "qr_comm", "pymscclpp_comm", "torch_symm_mem_comm", "pynccl_comm"):
        way = getattr(group, name, None)
        # pynccl is switched on for graphs only; the others say by `disabled` that they couldn't be set up.
        off = "available" if name == "pynccl_comm" else "disabled"
        if way is not None and getattr(way, off, None) is not (off == "disabled"):
            found.append(type(way).__name__)
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    device_group = getattr(group, "device_group", None)
    if distributed is not None and device_group is not None:
        found.append(f"torch.distributed {distributed.get_backend(device_group)}")
    return {"all_reduce": found}


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

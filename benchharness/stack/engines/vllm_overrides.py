"""Which environment variables vLLM is known to change before its workers start."""

from __future__ import annotations

ALWAYS = {
    "VLLM_WORKER_MULTIPROC_METHOD": "vLLM sets it to spawn where a fork would not be safe",
    "TORCHINDUCTOR_COMPILE_THREADS": "vLLM forces it to 1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "vLLM forces it to 1",
    "LD_LIBRARY_PATH": "OpenCV, which vLLM imports, puts its own folder in front (so may vLLM a CUDA "
    "compatibility folder)",
    "OMP_NUM_THREADS": "vLLM chooses it where it is not set",
    "NCCL_GRAPH_REGISTER": "vLLM sets it to 0 where it is not set",
}

ON_CPU = {
    "VLLM_WORKER_MULTIPROC_METHOD": "on a CPU vLLM forces it to spawn",
    "NUMEXPR_MAX_THREADS": "on a CPU vLLM sets it to the number of threads",
    "TORCHINDUCTOR_CPP_DYNAMIC_THREADS": "on a CPU vLLM forces it to 1",
    "VLLM_DISABLE_SHARED_EXPERTS_STREAM": "on a CPU vLLM forces it to 1",
    "LOCAL_WORLD_SIZE": "on a CPU vLLM sets it to the number of ranks",
    "LD_PRELOAD": "on a CPU vLLM adds torch's OpenMP library unless one is named, and its own tcmalloc",
}


def who_changes(variable: str, *, on_cpu: bool) -> str:
    """Who is known to change that variable; empty where nobody is."""
    return (ON_CPU.get(variable) if on_cpu else None) or ALWAYS.get(variable, "")

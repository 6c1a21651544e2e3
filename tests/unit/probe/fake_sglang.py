"""Lays out packages named sglang as real releases have them, with phases that only sleep.

`v1` is like 0.5.9 with EAGLEWorker, `v2` like 0.5.12 with EAGLEWorkerV2 and overlap, `plain` any release
without speculation, `thread` like 0.5.2's overlap worker, `ngram` like 0.5.9's NGRAMWorker, `renamed` a
release whose worker has another name, and `unknown` one in which nothing is where it was.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

BATCH = """
    from enum import IntEnum, auto

    class ForwardMode(IntEnum):
        EXTEND = auto()
        DECODE = auto()
        MIXED = auto()
        IDLE = auto()
        TARGET_VERIFY = auto()

        def is_extend(self):
            return self == ForwardMode.EXTEND

    class Req:
        def __init__(self, length):
            self.origin_input_ids = [0] * length
            self.output_ids = []

    class Batch:
        def __init__(self, mode, reqs):
            self.forward_mode = mode
            self.reqs = reqs
            self.seq_lens_sum = sum(len(r.origin_input_ids) + len(r.output_ids) for r in reqs)

    class Tensor:
        # On a device until it was copied.
        is_cpu = False

        def __init__(self, values):
            self.values = values

        def tolist(self):
            assert self.is_cpu
            return list(self.values)

    class Result:
        accept_length_per_req_cpu = None
        accept_lens = None
        next_draft_input = None
        num_accepted_tokens = 0
        can_run_cuda_graph = True

        def __init__(self, **told):
            self.__dict__.update(told)
"""

RUNNER = """
    import time

    class CudaGraphRunner:
        def capture(self):
            time.sleep(0.001)

        def replay(self, forward_batch):
            time.sleep(0.003)
            return "logits"

    class ModelRunner:
        def __init__(self, gpu_id, tp_rank, is_draft_worker=False):
            self.gpu_id, self.tp_rank, self.is_draft_worker = gpu_id, tp_rank, is_draft_worker
            self.device = "cpu"
            self.graph_runner = CudaGraphRunner()
            self.graph_runner.capture()

        def forward(self, forward_batch, skip_attn_backend_init=False):
            if forward_batch.forward_mode.is_extend():
                return "logits", False
            return self.graph_runner.replay(forward_batch), True
"""

TP_WORKER = """
    from sglang.srt.managers.batch import Result
    from sglang.srt.model_executor.model_runner import ModelRunner

    class TpModelWorker:
        def __init__(self, gpu_id, tp_rank):
            self.model_runner = ModelRunner(gpu_id, tp_rank)

        def forward_batch_generation(self, batch, is_verify=False):
            logits, graph = self.model_runner.forward(batch)
            return Result(can_run_cuda_graph=graph)
"""

SCHEDULER = """
    import os, time
    from collections import deque
    from sglang.srt.managers.batch import Batch, ForwardMode, Req

    class Scheduler:
        overlap = False

        def __init__(self, gpu_id, tp_rank):
            # As late as 0.5.23 imports it.
            from sglang.srt.managers.tp_worker import TpModelWorker
            self.tp_worker = TpModelWorker(gpu_id, tp_rank)
            self.model_worker = self.make_worker()
            self.last = deque()

        def make_worker(self):
            return self.tp_worker

        def run_batch(self, batch):
            return self.model_worker.forward_batch_generation(batch)

        def process_batch_result(self, batch, result):
            if result.accept_lens is not None:
                result.accept_lens.is_cpu = True

        def step(self, batch):
            self.last.append((batch, self.run_batch(batch)))
            while len(self.last) > self.overlap:
                self.process_batch_result(*self.last.popleft())

        def request(self, cycles, context=16):
            reqs = [Req(context)]
            self.step(Batch(ForwardMode.EXTEND, reqs))
            for _ in range(cycles):
                self.step(Batch(ForwardMode.DECODE, reqs))
            while self.last:
                self.process_batch_result(*self.last.popleft())

    def make_scheduler(gpu_id, tp_rank):
        return Scheduler(gpu_id, tp_rank)

    def run_scheduler_process(gpu_id, tp_rank, job):
        scheduler = make_scheduler(gpu_id, tp_rank)
        if job == "forever":
            number = 0
            while True:
                scheduler.request(1)
                number += 1
                print(os.getpid(), number, flush=True)
        for cycles in job:
            scheduler.request(cycles)
"""

V1 = """
    import time
    from sglang.srt.managers.batch import Result
    from sglang.srt.managers.tp_worker import TpModelWorker

    class VerifyOutput:
        accept_length_per_req_cpu = [1]

    class EAGLEWorker(TpModelWorker):
        def __init__(self, target_worker):
            self.target_worker = target_worker

        def forward_batch_generation(self, batch):
            if batch.forward_mode.is_extend():
                return self.target_worker.forward_batch_generation(batch)
            spec = self.draft(batch)
            logits, output, _, graph = self.verify(batch, spec)
            self.forward_draft_extend_after_decode(batch)
            return Result(
                can_run_cuda_graph=graph, accept_length_per_req_cpu=output.accept_length_per_req_cpu
            )

        def draft(self, batch):
            time.sleep(0.001)

        def verify(self, batch, spec_info):
            result = self.target_worker.forward_batch_generation(batch, is_verify=True)
            time.sleep(0.001)
            return "logits", VerifyOutput(), batch, result.can_run_cuda_graph

        def forward_draft_extend_after_decode(self, batch):
            time.sleep(0.001)

    class StandaloneWorker(EAGLEWorker):
        pass
"""

V2 = """
    import time
    from sglang.srt.managers.batch import Result, Tensor
    from sglang.srt.speculative.eagle_draft_cuda_graph_runner import EAGLEDraftCudaGraphRunner

    class EagleDraftWorker:
        def __init__(self):
            self.graph_runner = EAGLEDraftCudaGraphRunner()

        def draft(self, batch):
            return self.graph_runner.replay(batch)

        def _draft_extend_for_decode(self, batch, batch_result):
            time.sleep(0.001)

    class EAGLEWorkerV2:
        def __init__(self, target_worker):
            self.target_worker = target_worker
            self.draft_worker = EagleDraftWorker()

        def forward_batch_generation(self, model_worker_batch):
            batch = model_worker_batch
            if batch.forward_mode.is_extend():
                result = self.target_worker.forward_batch_generation(batch)
                result.next_draft_input = "draft"
                return result
            self.draft_worker.draft(batch)
            result = self.verify(batch)
            self.draft_worker._draft_extend_for_decode(batch, result)
            return result

        def verify(self, batch):
            result = self.target_worker.forward_batch_generation(batch, is_verify=True)
            time.sleep(0.001)
            return Result(next_draft_input="draft", accept_lens=Tensor([3] * len(batch.reqs)))
"""

DRAFT_GRAPHS = """
    import time

    class EAGLEDraftCudaGraphRunner:
        def replay(self, forward_batch):
            time.sleep(0.001)
"""

NGRAM = """
    import time
    from sglang.srt.managers.batch import Result

    class NGRAMWorker:
        def __init__(self, target_worker):
            self.target_worker = target_worker

        def _prepare_for_speculative_decoding(self, batch):
            time.sleep(0.001)

        def forward_batch_generation(self, batch):
            if batch.forward_mode.is_extend():
                return self.target_worker.forward_batch_generation(batch)
            self._prepare_for_speculative_decoding(batch)
            self.target_worker.forward_batch_generation(batch, is_verify=True)
            return Result(num_accepted_tokens=3, can_run_cuda_graph=True)
"""

RENAMED = """

    def make_tp_worker(gpu_id, tp_rank):
        from sglang.srt.managers.renamed_worker import RenamedWorker
        return RenamedWorker(gpu_id, tp_rank)

    class RenamedScheduler(Scheduler):
        def __init__(self, gpu_id, tp_rank):
            self.tp_worker = self.model_worker = make_tp_worker(gpu_id, tp_rank)
            self.last = deque()

    make_scheduler = RenamedScheduler
"""

THREAD = """

    import queue, threading

    class TpModelWorkerClient:
        def __init__(self, worker):
            self.worker = worker
            self.batches, self.results = queue.Queue(), queue.Queue()
            threading.Thread(target=self.forward_thread_func, daemon=True).start()

        def forward_thread_func(self):
            while True:
                self.results.put(self.worker.forward_batch_generation(self.batches.get()))

        def forward_batch_generation(self, batch):
            self.batches.put(batch)
            return self.results.get(timeout=30)

    Scheduler.make_worker = lambda self: TpModelWorkerClient(self.tp_worker)
"""

SPECULATIVE = {
    "v1": ("eagle_worker", "StandaloneWorker", V1, False),
    "v2": ("eagle_worker_v2", "EAGLEWorkerV2", V2, True),
    "ngram": ("ngram_worker", "NGRAMWorker", NGRAM, False),
}

UNKNOWN = """
    def run_scheduler_process(gpu_id, tp_rank, job):
        import sglang.new.engine
"""

ENGINE = """
    import multiprocessing, os, sys

    def main():
        from sglang.srt.managers.scheduler import run_scheduler_process
        job = sys.argv[1] if sys.argv[1] == "forever" else [int(n) for n in sys.argv[1].split(",")]
        workers = []
        for rank in range(int(sys.argv[2])):
            if rank == 1 and "STRIP" in os.environ:
                os.environ.pop("NCCL_ALGO", None)
                os.environ["NCCL_NVLS_ENABLE"] = "0"
            context = multiprocessing.get_context("spawn")
            workers.append(context.Process(target=run_scheduler_process, args=(rank, rank, job)))
            workers[-1].start()
        for worker in workers:
            worker.join()

    if __name__ == "__main__":
        main()
"""


def lay_out(folder: Path, layout: str) -> Path:
    """Write the package and an engine that runs it; returns the engine's script."""
    files = {
        "sglang/__init__.py": "__version__ = '0.5.99'",
        "sglang/srt/__init__.py": "",
        "sglang/srt/managers/__init__.py": "",
        "sglang/srt/managers/batch.py": BATCH,
        "sglang/srt/managers/tp_worker.py": TP_WORKER,
        "sglang/srt/managers/scheduler.py": SCHEDULER,
        "sglang/srt/model_executor/__init__.py": "",
        "sglang/srt/model_executor/model_runner.py": _model_runner(),
        "sglang/srt/model_executor/cuda_graph_runner.py": _graph_runner(),
        "sglang/srt/speculative/__init__.py": "",
        "sglang/srt/speculative/eagle_draft_cuda_graph_runner.py": DRAFT_GRAPHS,
        "engine.py": ENGINE,
    }
    if layout in SPECULATIVE:
        module, cls, source, overlap = SPECULATIVE[layout]
        files[f"sglang/srt/speculative/{module}.py"] = source
        files["sglang/srt/managers/scheduler.py"] = SCHEDULER + _speculative(module, cls, overlap)
    if layout == "thread":
        files["sglang/srt/managers/scheduler.py"] = SCHEDULER + THREAD
    if layout == "renamed":
        files["sglang/srt/managers/scheduler.py"] = SCHEDULER + RENAMED
        del files["sglang/srt/managers/tp_worker.py"]
        files["sglang/srt/managers/renamed_worker.py"] = TP_WORKER.replace("TpModelWorker", "RenamedWorker")
    if layout == "unknown":
        files = {name: text for name, text in files.items() if "/srt/m" not in name or "batch" in name}
        files["sglang/new/__init__.py"] = files["sglang/new/engine.py"] = ""
        files["sglang/srt/managers/__init__.py"] = ""
        files["sglang/srt/managers/scheduler.py"] = UNKNOWN
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return folder / "engine.py"


def _model_runner() -> str:
    """The model runner without the graph runner's class, which stands in a module of its own."""
    last = RUNNER.index("    class ModelRunner")
    imported = "    from sglang.srt.model_executor.cuda_graph_runner import CudaGraphRunner\n\n"
    return imported + RUNNER[last:]


def _graph_runner() -> str:
    first, last = RUNNER.index("    class CudaGraphRunner"), RUNNER.index("    class ModelRunner")
    return "    import time\n\n" + RUNNER[first:last]


def _speculative(module: str, cls: str, overlap: bool) -> str:
    # Imported late, as SGLang does it.
    return f"""
    class SpeculativeScheduler(Scheduler):
        overlap = {overlap}

        def make_worker(self):
            from sglang.srt.speculative.{module} import {cls}
            return {cls}(self.tp_worker)

    make_scheduler = SpeculativeScheduler
"""

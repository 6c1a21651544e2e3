"""What the probe wraps: one row a method, over all releases of SGLang from 0.4.4 to 0.5.23.

A release has only some of these; what a release lacks is left alone. Inherited methods have no row: a
method is wrapped in the class that defines it. tests/unit/probe/test_hooks.py holds the table against
every release.
"""

from __future__ import annotations

# One decode (or prefill) pass of a speculative worker.
CYCLE = "cycle"
DRAFT = "draft"
VERIFY = "verify"
DRAFT_EXTEND = "draft_extend"
# The target's worker: a cycle of its own without speculation; inside a cycle it stands for verify where
# the speculative worker has no such method.
TARGET = "target"
# The model's forward, of the target or of a draft model.
FORWARD = "forward"
REPLAY = "replay"
DRAFT_REPLAY = "draft_replay"
EXTEND_REPLAY = "extend_replay"
CAPTURE = "capture"
# Where a process has learnt its rank.
RANK = "rank"
# The scheduler's step: times the cycle where neither CYCLE nor TARGET was found.
STEP = "step"
# Where what was accepted has reached the host.
RESULT = "result"

_SPECULATIVE = "sglang.srt.speculative."
_MANAGERS = "sglang.srt.managers."
_EXECUTOR = "sglang.srt.model_executor."

_WORKERS = (
    # module, class of the cycle, its cycle methods, class of draft and extend, draft, verify, extend
    (
        "eagle_worker",
        "EAGLEWorker",
        ("forward_batch_speculative_generation", "forward_batch_generation"),
        (("EAGLEWorker", "draft"),),
        ("verify",),
        (("EAGLEWorker", "forward_draft_extend_after_decode"),),
    ),
    (
        "eagle_worker_v2",
        "EAGLEWorkerV2",
        ("forward_batch_generation",),
        (("EAGLEWorkerV2", "draft"), ("EagleDraftWorker", "draft")),
        ("verify",),
        (("EagleDraftWorker", "_draft_extend_for_decode"),),
    ),
    (
        "multi_layer_eagle_worker",
        "MultiLayerEagleWorker",
        ("forward_batch_generation",),
        (("MultiLayerEagleWorker", "draft"),),
        ("verify",),
        (("MultiLayerEagleWorker", "forward_draft_extend_after_decode"),),
    ),
    (
        "multi_layer_eagle_worker_v2",
        "MultiLayerEagleWorkerV2",
        ("forward_batch_generation",),
        (("MultiLayerEagleDraftWorker", "draft"),),
        ("verify",),
        (("MultiLayerEagleDraftWorker", "_draft_extend_for_decode"),),
    ),
    (
        "frozen_kv_mtp_worker",
        "FrozenKVMTPWorker",
        ("forward_batch_generation",),
        (("FrozenKVMTPWorker", "draft"),),
        ("verify",),
        (("FrozenKVMTPWorker", "forward_draft_extend_after_decode"),),
    ),
    (
        "frozen_kv_mtp_worker_v2",
        "FrozenKVMTPWorkerV2",
        ("forward_batch_generation",),
        (("FrozenKVMTPDraftWorker", "draft"),),
        (),
        (("FrozenKVMTPDraftWorker", "_draft_extend_for_decode"),),
    ),
    (
        "ngram_worker",
        "NGRAMWorker",
        ("forward_batch_generation",),
        (("NGRAMWorker", "_prepare_for_speculative_decoding"),),
        (),
        (),
    ),
    (
        "dflash_worker",
        "DFlashWorker",
        ("forward_batch_generation",),
        (("DFlashWorker", "_prepare_for_speculative_decoding"),),
        (),
        (),
    ),
    ("dflash_worker_v2", "DFlashWorkerV2", ("forward_batch_generation",), (), (), ()),
    ("dspark_components.dspark_worker_v2", "DSparkWorkerV2", ("forward_batch_generation",), (), (), ()),
    (
        "uno_worker_v2",
        "UnoWorkerV2",
        ("forward_batch_generation",),
        (("UnoWorkerV2", "_run_draft_block"),),
        ("_run_target_block",),
        (),
    ),
)

_PLAIN = (
    (_MANAGERS + "tp_worker", "TpModelWorker", "forward_batch_generation", TARGET),
    (_MANAGERS + "scheduler", "Scheduler", "run_batch", STEP),
    (_MANAGERS + "scheduler", "Scheduler", "process_batch_result", RESULT),
    (_EXECUTOR + "model_runner", "ModelRunner", "__init__", RANK),
    (_EXECUTOR + "model_runner", "ModelRunner", "forward", FORWARD),
    (_EXECUTOR + "cuda_graph_runner", "CudaGraphRunner", "replay", REPLAY),
    (_EXECUTOR + "cuda_graph_runner", "CudaGraphRunner", "capture", CAPTURE),
    (_EXECUTOR + "runner.decode_cuda_graph_runner", "DecodeCudaGraphRunner", "execute", REPLAY),
    (_EXECUTOR + "runner.decode_cuda_graph_runner", "DecodeCudaGraphRunner", "capture", CAPTURE),
)
_DRAFT_GRAPHS = tuple(
    (_SPECULATIVE + module, cls, method, role)
    for module, cls, role in (
        ("eagle_draft_cuda_graph_runner", "EAGLEDraftCudaGraphRunner", DRAFT_REPLAY),
        ("eagle_draft_extend_cuda_graph_runner", "EAGLEDraftExtendCudaGraphRunner", EXTEND_REPLAY),
    )
    for method in ("replay", "execute")
)


def _of_workers() -> list[tuple[str, str, str, str]]:
    rows: list[tuple[str, str, str, str]] = []
    for module, cls, cycles, drafts, verifies, extends in _WORKERS:
        rows += [(_SPECULATIVE + module, cls, method, CYCLE) for method in cycles]
        rows += [(_SPECULATIVE + module, owner, method, DRAFT) for owner, method in drafts]
        rows += [(_SPECULATIVE + module, cls, method, VERIFY) for method in verifies]
        rows += [(_SPECULATIVE + module, owner, method, DRAFT_EXTEND) for owner, method in extends]
    return rows


HOOKS = (*_of_workers(), *_PLAIN, *_DRAFT_GRAPHS)
"""(module, class, method, role), in no particular order."""

BY_MODULE: dict[str, list[tuple[str, str, str]]] = {}
"""module -> its (class, method, role)."""
for _module, _cls, _method, _role in HOOKS:
    BY_MODULE.setdefault(_module, []).append((_cls, _method, _role))

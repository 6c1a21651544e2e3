"""Takes a variable from one rank of SGLang, for a run that shows how the harness names such a rank.

SGLang hands its variables to every rank alike. With this folder on PYTHONPATH, STRIP_VARIABLE=NAME and
STRIP_RANK=N, rank N loses the variable when it begins to run, before NCCL reads it: as on hosts where what is
set in one place doesn't reach every process. See sglang-stripped-rank.yaml.
"""

import functools
import importlib.abc
import importlib.util
import os
import sys

MODULE = "sglang.srt.managers.scheduler"


def stripped(run):
    """The function that runs a rank, and loses the variable in that one first."""

    @functools.wraps(run)
    def run_stripped(server_args, port_args, gpu_id, tp_rank, *others, **named):
        if str(tp_rank) == os.environ.get("STRIP_RANK"):
            os.environ.pop(os.environ.get("STRIP_VARIABLE", ""), None)
        return run(server_args, port_args, gpu_id, tp_rank, *others, **named)

    return run_stripped


class Finder(importlib.abc.MetaPathFinder):
    """Wraps that function once its module is imported."""

    def find_spec(self, name, path=None, target=None):
        """The module's own spec, with a loader that wraps the function afterwards; None for other modules."""
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def executed(module):
            execute(module)
            # multiprocessing finds it by its name in its module, here and in the new process.
            module.run_scheduler_process = stripped(module.run_scheduler_process)

        spec.loader.exec_module = executed
        return spec


if os.environ.get("STRIP_RANK"):
    sys.meta_path.insert(0, Finder())

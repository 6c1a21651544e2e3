"""What did the GPUs do meanwhile?"""

from __future__ import annotations

from collections.abc import Iterator

from benchharness.records import Finding, Trial

MOST_THROTTLED_SHARE = 0.01
"""Share of a trial's time for which a clock may be held down without a word."""


def clocks_held(trial: Trial) -> Iterator[Finding]:
    """Neither power nor heat held a GPU's clock down."""
    for gpu in trial.gpus:
        reasons = sorted(set(gpu.throttle) - {"clocks-set-by-user"})
        share = (gpu.throttled_ms or 0.0) / max(_wall_ms(trial), 1e-9)
        if reasons or share > MOST_THROTTLED_SHARE:
            clock = f"SM clock {gpu.sm_mhz_median} of {gpu.sm_mhz_limit} MHz as requests ended"
            why = f" ({', '.join(reasons)})" if reasons else ""
            counted = f" for {share:.0%} of the time by the driver's count" if gpu.throttled_ms else ""
            sentence = f"power or heat held the clock of GPU {gpu.index} down{counted}{why}; {clock}"
            yield Finding("clocks-held", False, sentence)


def clocks_known(trial: Trial) -> Iterator[Finding]:
    """Where cycles ran on a GPU, its clock was watched."""
    on_gpu = any(cycle.clock == "cuda-event" for cycle in trial.cycles)
    if on_gpu and not any(gpu.sm_mhz_median is not None for gpu in trial.gpus):
        why = "NVML does not answer" if not trial.gpus else "the driver doesn't tell them"
        yield Finding("clocks-known", False, f"GPU clocks unknown: {why}, so throttling would not be seen")


def gpu_alone(trial: Trial) -> Iterator[Finding]:
    """Nobody else computed on the engine's GPUs."""
    for gpu in trial.gpus:
        if gpu.other_pids:
            listed = ", ".join(str(pid) for pid in gpu.other_pids[:4])
            yield Finding("gpu-alone", False, f"other processes used GPU {gpu.index}: {listed}")


def _wall_ms(trial: Trial) -> float:
    return (trial.finished_ns - trial.started_ns) / 1e6

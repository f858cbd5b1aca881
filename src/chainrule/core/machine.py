"""Memory of this machine, to compare with what a model or a run would take."""

import contextlib
import os
from pathlib import Path

import jax

_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def memory() -> int:
    """Bytes that arrays can take: those of an accelerator where there is one, else of the machine or container."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    device = jax.devices()[0]
    if device.platform != "cpu":
        stats = device.memory_stats() or {}
        return int(stats.get("bytes_limit", limits[0]))
    with contextlib.suppress(OSError, ValueError):  # no such file, or "max": not limited
        limits.append(int(_CONTAINER.read_text()))
    return min(limits)


__all__ = ["memory"]

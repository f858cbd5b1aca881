"""Where and with what numbers were taken: enough to judge them, nothing that names a machine or a person."""

import datetime
import os
import platform
from importlib.metadata import version
from pathlib import Path

from chainrule import __version__

PACKAGES = ("jax", "jaxlib", "optax", "equinox", "numpy")


def machine() -> dict[str, str | int | float]:
    """Processor, cores, memory."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"processor": model, "cores": os.cpu_count() or 0, "memory_gib": round(memory, 1)}


def versions() -> dict[str, str]:
    """Python and the packages that matter."""
    found = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "chainrule": __version__, **found}


def today() -> str:
    """The date, UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


__all__ = ["machine", "today", "versions"]

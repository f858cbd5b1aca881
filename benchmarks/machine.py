"""Where and with what numbers were taken: enough to judge them, nothing that names a machine or a person."""

import datetime
import os
import platform
from importlib.metadata import version
from pathlib import Path

from chainrule import __version__

PACKAGES = ("jax", "jaxlib", "optax", "equinox", "numpy")


INSTRUCTIONS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_tile")
"""Sets of instructions that decide how fast arithmetic is."""


def machine() -> dict[str, str | int | float]:
    """Processor, its sets of instructions, cores, memory."""
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": facts.get("model name", platform.machine()),
        "instructions": " ".join(one for one in INSTRUCTIONS if one in facts.get("flags", "").split()),
        "cores": os.cpu_count() or 0,
        "memory_gib": round(memory, 1),
    }


def versions() -> dict[str, str]:
    """Python and the packages that matter."""
    found = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "chainrule": __version__, **found}


def today() -> str:
    """The date, UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


__all__ = ["machine", "today", "versions"]

"""Entropic transport on one GPU beside ott-jax: one problem, and many small ones.

The same as `transport`, with the peer that runs there. Needs a GPU, and ott-jax importable beside JAX in the same
environment, for example from a folder on PYTHONPATH.
"""

import importlib.util
import sys
from pathlib import Path

import jax

from benchmarks.harness import BenchmarkError, Options, Report
from benchmarks.suite import transport

PEERS = ("ott-log", "ott-kernel")
SMOKE = True
CHOICES = ("one", "batch")


def run(options: Options) -> Report:
    """Measure on the GPU."""
    if jax.default_backend() != "gpu":
        raise BenchmarkError("no GPU found: this benchmark compares on one")
    if importlib.util.find_spec("ott") is None:
        raise BenchmarkError("ott-jax is not importable: put a folder with it on PYTHONPATH")
    report = transport.compare(options, (1_000, 10_000, 30_000), PEERS, Path(sys.executable), grow=False)
    versions = {**report.versions, "device": jax.devices()[0].device_kind}
    return Report(report.cases, notes=report.notes, versions=versions)


__all__ = ["run"]

"""Entropic transport on one GPU beside ott-jax and geomloss: one problem, many small ones, and one without a matrix.

The same as `transport`, with the peers that run there; geomloss is given the points and makes the costs itself, for all
pairs at once. Needs a GPU, and the peers importable beside JAX in the same environment, for example from a folder on
PYTHONPATH. Before them a problem between 100,000 and 100,000 points, whose matrix would take 40 GB, in blocks.
"""

import importlib.util
import sys
import time
from pathlib import Path

import jax

from benchmarks.harness import BenchmarkError, Options, Report
from benchmarks.suite import transport

PEERS = ("ott-log", "ott-kernel", "geomloss")
PACKAGES = ("ott", "geomloss")
STREAMED = 100_000
SMOKE = True
GOALS = {"one": 1.0, "batch": 1.0}
CHOICES = tuple(GOALS)


def run(options: Options) -> Report:
    """Measure on the GPU."""
    if jax.default_backend() != "gpu":
        raise BenchmarkError("no GPU found: this benchmark compares on one")
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    if missing:
        raise BenchmarkError(f"{' and '.join(missing)} not importable: put a folder with them on PYTHONPATH")
    # First, so that the peak of memory is its own.
    large = () if options.smoke or options.case else (_streamed(STREAMED),)
    report = transport.compare(options, transport.SIZES, PEERS, Path(sys.executable), goals=GOALS, grow=False)
    versions = {**report.versions, "device": jax.devices()[0].device_kind}
    return Report(report.cases, notes=(*large, *report.notes), versions=versions)


def _streamed(count: int) -> str:
    work = transport.streamed(count)
    found = work()
    began = time.perf_counter()
    work()
    peak = jax.devices()[0].memory_stats()["peak_bytes_in_use"]
    return (
        f"n = {count:,} in blocks: cost {found:.5g} in {time.perf_counter() - began:.3g} s, "
        f"{peak / 2**20:.0f} MiB of the device at most"
    )


__all__ = ["run"]

"""The diffusion U-Net on one GPU, in bfloat16: a training step and DDIM sampling against PyTorch.

PyTorch is compiled, once as it comes and once with its launches recorded as CUDA graphs.

Needs a GPU, and PyTorch beside JAX in the same environment.
"""

import jax

from benchmarks.harness import BenchmarkError, Options, Report
from benchmarks.suite.diffusion import GPU, choices, compare, own_python

FORMS = {"torch-compile": "compile", "torch-compile-graphs": "graphs"}
CHOICES = choices(GPU)


def run(options: Options) -> Report:
    """Measure the network on the GPU."""
    if jax.default_backend() != "gpu":
        raise BenchmarkError("no GPU found: this benchmark compares on one")
    return compare(options, GPU, own_python(), "cuda", FORMS)


__all__ = ["run"]

"""A step of DCGAN and one with a gradient penalty on one GPU in bfloat16, beside PyTorch.

Sizes are those of the published network, 64 pixels a side; PyTorch computes in bfloat16 by autocast, channels last,
eager, compiled, and compiled with its launches recorded as CUDA graphs. Needs a GPU, and PyTorch beside JAX in the same
environment; `--smoke` runs toy sizes anywhere.
"""

import jax

from benchmarks.harness import BenchmarkError, Options, Report
from benchmarks.suite.adversarial import CHOICES, SMOKE, Workload, compare
from benchmarks.suite.diffusion import own_python

FORMS = {"torch": "eager", "torch-compile": "compile", "torch-compile-graphs": "graphs"}
GPU = Workload(64, 64, 256, 64, "bfloat16", "cuda", 2e-2)


def run(options: Options) -> Report:
    """Measure both steps on the GPU."""
    if jax.default_backend() != "gpu" and not options.smoke:
        raise BenchmarkError("no GPU found: this benchmark compares on one; --smoke runs toy sizes anywhere")
    return compare(options, GPU, own_python(), FORMS)


__all__ = ["CHOICES", "SMOKE", "run"]

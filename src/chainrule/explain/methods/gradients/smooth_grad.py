"""SmoothGrad: slopes averaged over noisy copies of the input (Smilkov et al., 2017, arXiv:1706.03825).

Slopes of networks jump from point to point; their mean over a neighbourhood is the slope of the smoothed function.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.explain.methods.functions import Function
from chainrule.explain.methods.gradients.base import Output, ask
from chainrule.explain.methods.gradients.sampling import SlopeMoments, moments, sampled_mean, slopes_at
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.train import Run


def smooth_grad(
    f: Function | Run,
    x: Any,
    output: Output = None,
    *,
    noise: float = 0.15,
    samples: int = 50,
    seed: int = 0,
    features: Sequence[str] = (),
) -> Explanation:
    """The mean slope over copies with normal noise, whose deviation is `noise` times the range of each input's entries.

    Every input meets the same noise, in its own scale.

    >>> smooth_grad(lambda x: x[0] - 2 * x[1], np.array([5.0, 3.0])).values
    array([ 1., -2.])
    """
    where = "smooth_grad"
    question = ask(where, f, x, output, features)
    if not noise > 0:
        raise ArgumentError(
            f"{where}(noise={noise}): a share of the range of the inputs", remedy="choose a positive number"
        )
    count = whole(where, "samples", samples, least=2)
    generator = np.random.default_rng(seed)
    drawn = generator.standard_normal((count, *question.x.shape[1:])).astype(question.x.dtype)
    values, errors = sampled_mean(question, _around, (noise * drawn,))
    outputs = question.values()
    return question.answer(
        values,
        outputs,
        outputs,
        errors=errors,
        method=f"SmoothGrad, {count} samples with noise {noise:g}",
        slopes=True,
        evaluations=count * len(question.x),
    )


@eqx.filter_jit
def _around(f: Function, x: Array, outputs: Array, noise: Array) -> SlopeMoments:
    axes = tuple(range(1, x.ndim))
    spread = x.max(axis=axes, keepdims=True) - x.min(axis=axes, keepdims=True)
    return moments(slopes_at(f, x[None] + spread[None] * noise[:, None], outputs))


__all__ = ["smooth_grad"]

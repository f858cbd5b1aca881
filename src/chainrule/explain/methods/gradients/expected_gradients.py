"""Expected gradients: integrated gradients averaged over baselines drawn from data (Erion et al., 2021).

One number per feature without a baseline that somebody chose: every sample draws a row of the background and a point on
the straight way from it, together (arXiv:1906.10670). The mean adds up to `f(x)` minus the mean output of the
background; standard errors and the residual say how far a finite sample is from that.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.types import Array
from chainrule.explain.methods.functions import Function
from chainrule.explain.methods.gradients.base import Output, ask, checked_background
from chainrule.explain.methods.gradients.sampling import SlopeMoments, moments, sampled_mean, slopes_at
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.train import Run


def expected_gradients(
    f: Function | Run,
    x: Any,
    background: Any,
    output: Output = None,
    *,
    samples: int = 256,
    seed: int = 0,
    features: Sequence[str] = (),
) -> Explanation:
    """What each input adds on the way from rows of the background, with standard errors.

    Rows of the background come in turn, and points lie one in each of `samples` equal parts of the way, in random
    pairs. Both are spread more evenly than by chance, so that the errors, which are those of independent draws, are on
    the cautious side.

    >>> rows = np.array([[0.0, 0.0], [2.0, 2.0]])
    >>> found = expected_gradients(lambda x: 3 * x[:, 0] + x[:, 1], np.array([[2.0, 1.0]]), rows)
    >>> found.values.tolist(), found.base.tolist()
    ([[3.0, 0.0]], [4.0])
    """
    where = "expected_gradients"
    question = ask(where, f, x, output, features)
    rows = checked_background(question, background)
    count = whole(where, "samples", samples, least=2)
    generator = np.random.default_rng(seed)
    taken = rows[generator.permutation(np.arange(count) % len(rows))]
    at = ((generator.permutation(count) + generator.uniform(size=count)) / count).astype(rows.dtype)
    values, errors = sampled_mean(question, _on_the_way, (taken, at))
    base = {
        number: question.values(rows, np.full(len(rows), number)).mean()
        for number in set(question.outputs.tolist())
    }
    return question.answer(
        values,
        np.array([base[number] for number in question.outputs.tolist()]),
        question.values(),
        errors=errors,
        method=f"expected gradients, {count} samples",
        kind="background rows, along straight ways",
        evaluations=count * len(question.x) + len(rows),
    )


@eqx.filter_jit
def _on_the_way(f: Function, x: Array, outputs: Array, starts: Array, at: Array) -> SlopeMoments:
    way = x[None] - starts[:, None]
    t = jnp.asarray(at).reshape(len(at), *(1,) * x.ndim)
    return moments(way * slopes_at(f, starts[:, None] + t * way, outputs))


__all__ = ["expected_gradients"]

"""Gradient times input: slopes times how far each input lies from zero (Shrikumar et al., 2017, arXiv:1605.01713).

The first-order share of each input in going from a baseline to the input. It adds up where the function is linear along
the way, as networks of rectifiers without biases are from zero; elsewhere the residual says how far it is from that.
"""

from collections.abc import Sequence
from typing import Any

from chainrule.explain.methods.functions import Function
from chainrule.explain.methods.gradients.base import Output, ask, checked_baseline, in_blocks, slopes_of_block
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.train import Run


def gradient_times_input(
    f: Function | Run, x: Any, output: Output = None, *, baseline: Any = None, features: Sequence[str] = ()
) -> Explanation:
    """`(x - baseline) * slope`; the baseline is zero unless given.

    >>> found = gradient_times_input(lambda x: 2 * x[0] + x[1] ** 2, [5.0, 3.0])
    >>> found.values, float(found.residual)
    (array([10., 18.]), -9.0)
    """
    question = ask("gradient_times_input", f, x, output, features)
    start = checked_baseline(question, baseline)
    found = in_blocks(
        lambda x, output: slopes_of_block(question.f, x, output),
        (question.x, question.outputs),
        question.rows_at_once(1),
    )
    return question.answer(
        (question.x - start) * found.slopes,
        question.values(start),
        found.values,
        method="gradient times input",
        kind="baseline",
        evaluations=2 * len(question.x),
    )


__all__ = ["gradient_times_input"]

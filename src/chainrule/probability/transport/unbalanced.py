"""Transport between weights of different totals: mass may appear and disappear, at a price (Chizat et al., 2018).

    min over P of <C, P> + eps KL(P | a b') + rho KL(P 1 | a) + rho KL(P' 1 | b)

KL is the divergence of measures, `Σ p log(p/q) - p + q`. The price `"mass"` takes the total mass that differs instead:
what is too far to be worth moving stays where it is (partial transport).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.probability.transport.costs import weights_of
from chainrule.probability.transport.entropic.costs import EntropicProblem
from chainrule.probability.transport.entropic.iteration import DEPTH
from chainrule.probability.transport.entropic.marginals import MarginalPrice, Partial, Relaxed
from chainrule.probability.transport.entropic.result import EntropicTransport
from chainrule.probability.transport.entropic.solving import solved
from chainrule.probability.transport.sinkhorn import (
    MOST,
    as_costs,
    as_result,
    limits_of,
    sinkhorn,
    strength,
    warn_unless_converged,
)


def unbalanced(
    a: Any,
    b: Any,
    cost: Any,
    eps: Any = None,
    rho: Any = 1.0,
    *,
    penalty: str = "kl",
    tolerance: float | None = None,
    max_iterations: int = MOST,
) -> EntropicTransport:
    """The best plan between weights of any totals, where keeping them is worth `rho` for each unit of `penalty`.

    The larger `rho`, the more of the weights is kept, with `rho=inf` all of them; `mass` of the result is what was
    moved. Everything else is as in `sinkhorn`.

    >>> found = unbalanced([2.0], [3.0], [[1.0]], 0.3, 0.7)
    >>> round(float(found.mass), 5)
    1.59319
    """
    check_choice("unbalanced", "penalty", penalty, ("kl", "mass"))
    costs = as_costs("unbalanced", cost)
    rows, columns = (
        weights_of("unbalanced", name, weights, count, costs.dtype)
        for name, weights, count in zip("ab", (a, b), costs.shape, strict=True)
    )
    for name, mass in (("a", rows), ("b", columns)):
        if not isinstance(mass, jax.core.Tracer) and not float(mass.sum()) > 0:
            raise ArgumentError(
                f"unbalanced({name}): all weights are zero", remedy="give some point a weight"
            )
    price = jnp.asarray(rho, costs.dtype)
    if not isinstance(price, jax.core.Tracer):
        if not (price.ndim == 0 and float(price) > 0):
            raise ArgumentError(
                f"unbalanced(rho={rho}): the price of mass is one positive number",
                remedy="where weights have to be kept use rho=inf or sinkhorn(a, b, cost)",
            )
        if np.isinf(float(price)):
            return sinkhorn(a, b, costs, eps, tolerance=tolerance, max_iterations=max_iterations)
    marginals: MarginalPrice = Relaxed(price) if penalty == "kl" else Partial(price)
    problem = EntropicProblem(rows, columns, strength("unbalanced", eps, costs), marginals)
    limits = limits_of("unbalanced", tolerance, max_iterations, costs.dtype)
    result = as_result(costs, problem, solved(costs, problem, limits, DEPTH), limits)
    warn_unless_converged("unbalanced", result)
    return result


__all__ = ["unbalanced"]

"""The linear programme of a decision problem: how often to make each choice, so that most is earned.

Discounted visits x of choices earn r'x; what flows into a state must flow out of it again, and every state starts with
the same share. The prices of these equations are the optimal values (d'Epenoux, 1963; Puterman, Markov Decision
Processes, 1994, section 6.9). Solved by HiGHS, as all large linear programs here.
"""

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from chainrule.agents.mdp.choices import Choices
from chainrule.core.errors import ArgumentError
from chainrule.derive.implicit.optimization import highs
from chainrule.derive.implicit.optimization.results import Status


def linear_programme(
    problem: Choices, gamma: float
) -> tuple[Float[np.ndarray, "states"], Int[np.ndarray, "states"]]:
    """Optimal values and, for each state, the choice that is made most."""
    count = len(problem.owner)
    leaving = scipy.sparse.csr_array((np.ones(count), (problem.owner, np.arange(count))))
    balance = leaving - gamma * scipy.sparse.csr_array(problem.transition).T
    visits, prices, _, status = highs.vertex(
        -problem.rewards, balance, np.full(problem.states, 1 / problem.states)
    )
    if status is not Status.SOLVED:
        raise ArgumentError(
            f'solve(method="linear-programme"): HiGHS gave up on {problem.states} states and {count} choices',
            remedy='use method="policy-iteration"',
        )
    return prices, problem.first_best(visits)


__all__ = ["linear_programme"]

"""Decision problems without a discount, made ready to be solved: total rewards that have a limit, and only one.

With gamma = 1 Bellman's equation may have many solutions (states between which one can wander for nothing are worth
whatever one believes) or none (a loop that pays, a loss that never ends). So what can be had for nothing is taken
together into one state that may also rest for ever; every loop that is left must lose, which a linear programme proves;
and from every state something must lead to the end for sure. Then the optimum is unique, and every method finds it
(Bertsekas and Tsitsiklis, An analysis of stochastic shortest path problems, 1991; de Alfaro, 1997).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Int
from scipy.sparse import csgraph

from chainrule.agents.mdp import checks
from chainrule.agents.mdp.choices import Choices
from chainrule.derive.implicit.optimization import highs

_REST = -1
_LOSING = -1e-12
"""A loop loses when it earns less than this on average."""


class GroupedChoices(NamedTuple):
    """A problem without a discount in which states that are joined for nothing are one."""

    problem: Choices
    """Of groups of states."""
    group: Int[np.ndarray, "states"]
    origin: Int[np.ndarray, "choices"]
    """The choice of the original problem that each choice of a group is; -1 for resting."""
    inner: Bool[np.ndarray, "original"]
    """Choices of the original problem that stay within a group and earn nothing."""
    start: Int[np.ndarray, "groups"]
    """Choices that lead to the end for sure."""


def grouped(problem: Choices, names: Sequence[str]) -> GroupedChoices:
    """The problem with wandering for nothing taken out; raises where returns have no limit."""
    group, inner = _end_components(problem, problem.rewards == 0)
    groups = int(group.max()) + 1
    membership = np.eye(groups)[group]
    resting = np.unique(group[problem.owner[inner]])
    outer = np.flatnonzero(~inner)
    owner = np.concatenate([group[problem.owner[outer]], resting])
    transition = np.concatenate([problem.transition[outer] @ membership, np.zeros((len(resting), groups))])
    rewards = np.concatenate([problem.rewards[outer], np.zeros(len(resting))])
    origin = np.concatenate([outer, np.full(len(resting), _REST)])
    order = np.argsort(owner, kind="stable")
    joined = Choices(owner[order], transition[order], rewards[order])
    _check_loops(joined, group, names)
    return GroupedChoices(joined, group, origin[order], inner, _sure_start(joined, group, names))


def spread(
    original: Choices, found: GroupedChoices, chosen: Int[np.ndarray, "groups"]
) -> Int[np.ndarray, "states"]:
    """A choice for each state that does what was chosen for its group."""
    result = np.full(original.states, _REST)
    for group, choice in enumerate(found.origin[chosen]):
        members = found.group == group
        within = found.inner & members[original.owner]
        if choice == _REST:
            result[members] = _first(original.owner, within, original.states)[members]
            continue
        leaver = np.arange(original.states) == original.owner[choice]
        result[members] = _layers(original, within, leaver)[members]
        result[leaver] = choice
    return result


def _end_components(
    problem: Choices, allowed: Bool[np.ndarray, "choices"]
) -> tuple[Int[np.ndarray, "states"], Bool[np.ndarray, "choices"]]:
    """Sets of states in which one can stay for ever by allowed choices: a label for each state, and these choices."""
    possible = problem.transition > 0
    allowed = allowed & possible.any(1)
    moves = scipy.sparse.csr_array(possible.astype(float))
    numbers = np.arange(len(allowed))
    while True:
        kept = scipy.sparse.csr_array(
            (allowed.astype(float), (problem.owner, numbers)), shape=(problem.states, len(allowed))
        )
        labels = csgraph.connected_components(kept @ moves, directed=True, connection="strong")[1]
        leaves = (possible & (labels[None, :] != labels[problem.owner][:, None])).any(1)
        if not (allowed & leaves).any():
            return labels, allowed
        allowed = allowed & ~leaves


def _check_loops(problem: Choices, group: np.ndarray, names: Sequence[str]) -> None:
    """Raise where one can stay for ever without losing: nothing is left that earns 0 at every step."""
    labels, inside = _end_components(problem, np.ones(len(problem.owner), bool))
    for label in np.unique(labels[problem.owner[inside]]):
        these = problem.kept(inside & (labels[problem.owner] == label))
        if (these.rewards > 0).any() and _best_average(these) > _LOSING:
            states = np.flatnonzero(labels[group] == label)
            raise checks.endless("solve", states, names, "a policy never leaves, and never loses in,")


def _best_average(problem: Choices) -> float:
    """The largest average reward a step: over visits to choices in which every state is left as often as entered."""
    count = len(problem.owner)
    leaving = scipy.sparse.csr_array(
        (np.ones(count), (problem.owner, np.arange(count))), shape=(problem.states, count)
    )
    balance = leaving - scipy.sparse.csr_array(problem.transition).T
    matrix = scipy.sparse.vstack([balance, np.ones((1, count))]).tocsr()
    total = np.append(np.zeros(problem.states), 1.0)
    return float(problem.rewards @ highs.vertex(-problem.rewards, matrix, total)[0])


def _sure_start(problem: Choices, group: np.ndarray, names: Sequence[str]) -> Int[np.ndarray, "groups"]:
    """Choices by which every state ends for sure; raises where there are none."""
    possible = problem.transition > 0
    ends = possible.sum(1) == 0
    alive = np.ones(problem.states, bool)
    while True:
        # What may lead to a state without such choices is none itself.
        usable = (possible & ~alive[None, :]).sum(1) == 0
        over = np.zeros(problem.states, bool)
        over[problem.owner[ends]] = True
        chosen = np.where(over, _first(problem.owner, ends, problem.states), _layers(problem, usable, over))
        reached = chosen >= 0
        if (reached == alive).all():
            break
        alive = reached
    if not alive.all():
        raise checks.endless("solve", np.flatnonzero(~alive[group]), names, "no policy is sure to end from")
    return chosen


def _layers(
    problem: Choices, usable: Bool[np.ndarray, "choices"], goal: Bool[np.ndarray, "states"]
) -> Int[np.ndarray, "states"]:
    """For each state a usable choice that may lead closer to the goal; -1 where there is none, and in the goal."""
    chosen = np.full(problem.states, _REST)
    reached = goal.copy()
    while True:
        closer = usable & (problem.transition[:, reached] > 0).any(1) & ~reached[problem.owner]
        if not closer.any():
            return chosen
        first = _first(problem.owner, closer, problem.states)
        chosen = np.where(first >= 0, first, chosen)
        reached |= first >= 0


def _first(
    owner: Int[np.ndarray, "choices"], which: Bool[np.ndarray, "choices"], states: int
) -> Int[np.ndarray, "states"]:
    """The first of some choices of each state, -1 where a state has none."""
    found = np.full(states, _REST)
    numbers = np.flatnonzero(which)
    found[owner[numbers][::-1]] = numbers[::-1]
    return found


def steps_to_end(problem: Choices, chosen: Int[np.ndarray, "states"]) -> Float[np.ndarray, "states"]:
    """Expected steps until the end where these choices are made."""
    counted = Choices(problem.owner, problem.transition, np.ones(len(problem.owner)))
    return counted.followed(chosen, 1.0)


__all__ = ["GroupedChoices", "grouped", "spread", "steps_to_end"]

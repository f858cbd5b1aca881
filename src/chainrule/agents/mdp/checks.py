"""Arrays of reward and decision processes as users give them: checked once, in double precision."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError

TOLERANCE = 1e-6
"""How far the sum of a row may be from 1."""
_SHOWN = 6


class ProcessArrays(NamedTuple):
    """A decision process; a reward process is one with a single action."""

    transition: Float[np.ndarray, "states actions states"]
    """Rows sum to 1, or are all 0 where nothing follows."""
    rewards: Float[np.ndarray, "states actions"]


def process_arrays(where: str, P: Any, r: Any) -> ProcessArrays:
    """P[s, a, s'] with r[s, a] or r[s]; or P[s, s'] with r[s], which leaves nothing to decide."""
    transition, rewards = _numbers(where, "P", P), _numbers(where, "r", r)
    if transition.ndim == 2:
        transition = transition[:, None]
    if transition.ndim != 3 or transition.shape[0] != transition.shape[2] or not transition.size:
        raise ArgumentError(
            f"{where}(P): shape {np.shape(P)} is none of (states, actions, states) and (states, states)",
            remedy="P[s, a, t] is the probability of going from state s to state t by action a",
        )
    states, actions, _ = transition.shape
    _check_rows(where, transition, np.ndim(P))
    if rewards.shape == (states,):
        rewards = np.repeat(rewards[:, None], actions, axis=1)
    if rewards.shape != (states, actions):
        wanted = f"({states}, {actions}) or ({states},)" if np.ndim(P) == 3 else f"({states},)"
        raise ArgumentError(f"{where}(r): shape {np.shape(r)}, but P of shape {np.shape(P)} needs {wanted}")
    return ProcessArrays(transition, rewards)


def discount(where: str, gamma: Any) -> float:
    """A discount between 0 and 1."""
    if not isinstance(gamma, int | float | np.number) or isinstance(gamma, bool) or not 0 <= gamma <= 1:
        raise ArgumentError(f"{where}(gamma={gamma}): gamma must be a number between 0 and 1")
    return float(gamma)


def state_names(where: str, names: Sequence[str], states: int) -> tuple[str, ...]:
    """Names of states: their numbers unless some are given."""
    if not names:
        return tuple(str(state) for state in range(states))
    if len(names) != states:
        raise ArgumentError(f"{where}(names): {len(names)} names for {states} states")
    return tuple(names)


def spelled(states: Sequence[int] | np.ndarray, names: Sequence[str]) -> str:
    """A set of states by name, long ones cut short.

    >>> spelled([0, 2], ["hunting", "hungry", "relaxed"])
    '{hunting, relaxed}'
    """
    shown = ", ".join(names[int(state)] for state in states[:_SHOWN])
    return f"{{{shown}{', ...' if len(states) > _SHOWN else ''}}}"


def endless(where: str, states: Sequence[int] | np.ndarray, names: Sequence[str], why: str) -> ArgumentError:
    """The error of a return without discount that has no limit."""
    return ArgumentError(
        f"{where}(gamma=1): {why} {spelled(states, names)}, so that returns have no limit",
        remedy="use gamma below 1, a finite horizon, or rows of zeros where an episode ends",
    )


def _numbers(where: str, name: str, given: Any) -> np.ndarray:
    try:
        found = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{where}({name}): needs an array of numbers, not {type(given).__name__}"
        ) from None
    bad = np.argwhere(~np.isfinite(found))
    if len(bad):
        at = ", ".join(str(i) for i in bad[0])
        raise ArgumentError(
            f"{where}({name}): {name}[{at}] is {found[tuple(bad[0])]}; numbers must be finite"
        )
    return found


def _check_rows(where: str, transition: np.ndarray, axes: int) -> None:
    def at(index: np.ndarray) -> str:
        return f"P[{index[0]}, {index[1]}]" if axes == 3 else f"P[{index[0]}]"

    negative = np.argwhere(transition < 0)
    if len(negative):
        index = negative[0]
        raise ArgumentError(
            f"{where}(P): row {at(index)} holds {transition[tuple(index)]:g}: no probability is negative"
        )
    sums = transition.sum(-1)
    off = np.argwhere((np.abs(sums - 1) > TOLERANCE) & (sums != 0))
    if len(off):
        raise ArgumentError(
            f"{where}(P): row {at(off[0])} sums to {sums[tuple(off[0])]:.6g}; rows must sum to 1, or be all 0 where "
            "an episode ends",
            remedy="to rescale counts or rounded numbers: P / P.sum(axis=-1, keepdims=True)",
        )


__all__ = ["TOLERANCE", "ProcessArrays", "discount", "endless", "process_arrays", "spelled", "state_names"]

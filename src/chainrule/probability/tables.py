"""Joint probability tables with named axes: marginals, conditionals, Bayes' rule, tests of independence.

Tables are exact, in double precision on the host. A conditional distribution exists only where the condition has
probability: asking for it elsewhere raises, and tables of conditionals carry a mask that says where they hold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array, Key
from chainrule.probability.distributions import Distribution

_TOLERANCE = 1e-6


@final
@dataclass(frozen=True, init=False, eq=False)
class JointTable:
    """The probabilities of all combinations of values of named variables.

    >>> table = JointTable([[0.1, 0.3], [0.2, 0.4]], ("rain", "wet"))
    >>> table.marginal("wet").values.round(6).tolist(), table.given(wet=1).values.round(4).tolist()
    ([0.3, 0.7], [0.4286, 0.5714])
    """

    values: np.ndarray
    axes: tuple[str, ...]

    def __init__(self, values: Any, axes: Sequence[str], *, normalize: bool = False) -> None:
        """`axes` names the axes of `values` in order; `normalize` divides by the sum, so that counts will do."""
        table = np.asarray(values, np.float64)
        names = (axes,) if isinstance(axes, str) else tuple(axes)
        if table.ndim != len(names) or len(set(names)) != len(names):
            raise ArgumentError(
                f"JointTable(axes={names}): {table.ndim} axes of shape {table.shape} need as many different names"
            )
        if not (table >= 0).all() or not np.isfinite(table).all():
            raise ArgumentError("JointTable(values): a probability is neither negative nor missing")
        total = table.sum()
        if not normalize and abs(total - 1) > _TOLERANCE:
            raise ArgumentError(
                f"JointTable(values): sums to {total:.6g} instead of 1",
                remedy="pass normalize=True to divide by the sum",
            )
        if not total > 0:
            raise ArgumentError("JointTable(values): all entries are zero, which no normalisation mends")
        object.__setattr__(self, "values", table / total)
        object.__setattr__(self, "axes", names)

    def marginal(self, *axes: str) -> "JointTable":
        """The table of some of the variables, in this order."""
        self._known("marginal", axes)
        kept = self.values.sum(axis=tuple(k for k, name in enumerate(self.axes) if name not in axes))
        order = [name for name in self.axes if name in axes]
        return JointTable(np.transpose(kept, [order.index(name) for name in axes]), axes)

    def given(self, **observed: int) -> "JointTable":
        """The table of the other variables, given values of these; raises where they have no probability."""
        self._known("given", tuple(observed))
        index = tuple(
            self._value("given", name, observed[name]) if name in observed else slice(None)
            for name in self.axes
        )
        sliced = self.values[index]
        if not sliced.sum() > 0:
            raise ArgumentError(
                f"given({_spelled(observed)}): has probability 0, so nothing is distributed given it",
                remedy="conditional(...) has a mask that says which conditions are possible",
            )
        return JointTable(sliced, [name for name in self.axes if name not in observed], normalize=True)

    def conditional(self, of: str | Sequence[str], given: str | Sequence[str]) -> "ConditionalTable":
        """The distribution of some variables for every value of others."""
        of, given = _names(of), _names(given)
        joint = self.marginal(*given, *of).values
        mass = joint.reshape(*joint.shape[: len(given)], -1).sum(axis=-1)
        mass = mass.reshape(*mass.shape, *(1,) * len(of))
        possible = (mass > 0).reshape(joint.shape[: len(given)])
        values = np.divide(joint, mass, out=np.zeros_like(joint), where=mass > 0)
        return ConditionalTable(values, possible, of, given)

    def probability(self, **events: int | Sequence[int]) -> float:
        """The probability that each variable takes one of the values named for it."""
        self._known("probability", tuple(events))
        table = self.values
        for axis, name in enumerate(self.axes):
            if name in events:
                chosen = np.atleast_1d(np.asarray(events[name], int))
                mask = np.zeros(table.shape[axis], bool)
                mask[[self._value("probability", name, int(value)) for value in chosen]] = True
                table = table * mask.reshape([-1 if k == axis else 1 for k in range(table.ndim)])
        return float(table.sum())

    def independence(
        self, a: str | Sequence[str], b: str | Sequence[str], given: str | Sequence[str] = ()
    ) -> "TableIndependence":
        """Whether two sets of variables are independent, given others; with the largest violation and its position.

        >>> JointTable([[0.5, 0.0], [0.0, 0.5]], ("x", "y")).independence("x", "y").violation
        0.25
        """
        a, b, given = _names(a), _names(b), _names(given)
        if len({*a, *b, *given}) != len(a) + len(b) + len(given):
            raise ArgumentError("independence(a, b, given): a variable stands in two of them")
        joint = self.marginal(*given, *a, *b).values
        shape = [int(np.prod([self._size(name) for name in part], dtype=int)) for part in (given, a, b)]
        cells = joint.reshape(shape)
        mass = cells.sum(axis=(1, 2), keepdims=True)
        chance = np.divide(cells, mass, out=np.zeros_like(cells), where=mass > 0)
        product = chance.sum(axis=2, keepdims=True) * chance.sum(axis=1, keepdims=True)
        gap = np.abs(chance - product)
        at = np.unravel_index(int(gap.argmax()), joint.shape)
        worst = float(gap.max())
        witness = dict(zip((*given, *a, *b), (int(k) for k in at), strict=True))
        return TableIndependence(worst <= 1e-12, worst, witness)

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> dict[str, Array]:
        """Draws of all variables, by their names."""
        with np.errstate(divide="ignore"):
            logits = jnp.asarray(np.log(self.values).ravel())
        flat = jax.random.categorical(key, logits, shape=shape)
        return dict(zip(self.axes, jnp.unravel_index(flat, self.values.shape), strict=True))

    def _size(self, name: str) -> int:
        return self.values.shape[self.axes.index(name)]

    def _value(self, where: str, name: str, value: int) -> int:
        if not 0 <= value < self._size(name):
            raise ArgumentError(f"{where}({name}={value}): {name} has values 0 to {self._size(name) - 1}")
        return value

    def _known(self, where: str, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.axes:
                raise ArgumentError(
                    f"{where}: no variable {name!r}{suggest(name, self.axes)}",
                    remedy=f"it has {', '.join(self.axes)}",
                )


@final
@dataclass(frozen=True, eq=False)
class ConditionalTable:
    """A distribution of some variables for each value of others that is possible."""

    values: np.ndarray
    """Axes of `given`, then axes of `of`."""
    possible: Bool[np.ndarray, "..."]
    """Which values of `given` have probability; where not, the entries are zero and no distribution."""
    of: tuple[str, ...]
    given: tuple[str, ...]

    def at(self, **observed: int) -> JointTable:
        """The distribution for one value of each of `given`."""
        if set(observed) != set(self.given):
            raise ArgumentError(f"at({_spelled(observed)}): needs a value of each of {', '.join(self.given)}")
        index = tuple(observed[name] for name in self.given)
        if not self.possible[index]:
            raise ArgumentError(
                f"at({_spelled(observed)}): has probability 0, so nothing is distributed given it",
                remedy="see `possible` for conditions that are",
            )
        return JointTable(self.values[index], self.of)

    def joint(self, prior: JointTable) -> JointTable:
        """The joint table of `given` and `of`, for a distribution of `given`."""
        weights = prior.marginal(*self.given).values
        if weights.shape != self.possible.shape:
            raise ArgumentError(
                f"joint(prior): shape {weights.shape} for conditions of shape {self.possible.shape}"
            )
        if (weights[~self.possible] > 0).any():
            raise ArgumentError(
                "joint(prior): gives probability to a condition under which there is no distribution"
            )
        weights = weights.reshape(*weights.shape, *(1,) * len(self.of))
        return JointTable(self.values * weights, (*self.given, *self.of))

    def inverted(self, prior: JointTable) -> "ConditionalTable":
        """Bayes' rule: the distribution of `given` for each value of `of`, from a prior of `given`.

        >>> trial = JointTable([[0.475, 0.025], [0.05, 0.45]], ("ill", "positive"))
        >>> test = trial.conditional("positive", "ill")
        >>> float(test.inverted(JointTable([0.99, 0.01], ["ill"])).at(positive=1).values[1].round(4))
        0.1538
        """
        return self.joint(prior).conditional(self.given, self.of)


@final
@dataclass(frozen=True)
class TableIndependence:
    """Whether variables are independent, and how far from it they are."""

    value: bool
    violation: float
    """The largest difference between a joint probability and the product of its parts, given the condition."""
    witness: dict[str, int]
    """Where it is."""

    def __bool__(self) -> bool:
        return self.value


@final
@dataclass(frozen=True)
class JointDensity:
    """Whether several variables have a density together."""

    rank: int
    size: int

    @property
    def value(self) -> bool:
        """Whether they do."""
        return self.rank == self.size

    def __str__(self) -> str:
        return "a joint density" if self.value else f"no joint density; rank {self.rank} of {self.size}"


def joint_density(
    key: Key, source: Distribution, variables: Callable[[Array], Array], draws: int = 16
) -> JointDensity:
    """Whether variables that are functions of a continuous `source` have a density together.

    They do where the derivative of the variables has full rank; the lowest rank at random draws is reported. Each of X
    and Y = X has a density, the pair has none: it lives on a line.

    >>> from chainrule.probability import Normal
    >>> print(joint_density(jax.random.key(0), Normal(0.0, 1.0), lambda x: jnp.stack([x, x])))
    no joint density; rank 1 of 2
    """
    with jax.enable_x64(True):
        points = jnp.asarray(np.asarray(source.sample(key, (draws,))), float)
        slopes = jax.vmap(jax.jacfwd(lambda x: jnp.ravel(variables(x))))(points)
        slopes = np.asarray(slopes).reshape(draws, slopes.shape[1], -1)
    return JointDensity(int(np.linalg.matrix_rank(slopes).min()), slopes.shape[1])


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _spelled(observed: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in observed.items())


__all__ = ["ConditionalTable", "JointDensity", "JointTable", "TableIndependence", "joint_density"]

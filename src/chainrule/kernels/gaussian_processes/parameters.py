"""The hyper-parameters of a Gaussian process as one vector: which there are, how far each may go, and the way back.

What a kernel keeps as a logarithm (`log_scale`) is learnt as one and called by its value (`scale`); so is the variance
of the noise. An `offset` is learnt as it is, from zero on, and weights of networks inside a kernel without bounds.
Tables of similarities (`Precomputed`), noise of zero and noise that is given point by point stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core import tree
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array
from chainrule.kernels.functions import Precomputed
from chainrule.kernels.gaussian_processes.process import GaussianProcess
from chainrule.kernels.kernel import Kernel

WIDEST = (1e-5, 1e5)
"""Between what a positive parameter is learnt unless told."""
QUIETEST = 1e-6
"""The least variance of noise that is learnt unless told."""
_LOG = "log_"
_NOISE = "noise"


@final
class Parameter(NamedTuple):
    """One hyper-parameter, a number or several."""

    name: str
    start: Float[np.ndarray, " entries"]
    """Where learning begins: the logarithm, where it is `logarithmic`."""
    low: float
    high: float
    logarithmic: bool

    def entry(self, index: int) -> str:
        """What an entry is called."""
        return self.name if len(self.start) == 1 else f"{self.name}[{index}]"


@final
class Parameters(NamedTuple):
    """All hyper-parameters that are learnt, and the process without them."""

    each: tuple[Parameter, ...]
    learnt: Kernel
    """The arrays of the kernel that are learnt; nothing elsewhere."""
    rest: Kernel
    noise: bool
    """Whether the noise is learnt."""
    process: GaussianProcess

    @property
    def start(self) -> Float[np.ndarray, " entries"]:
        """The vector that stands for the process as it was given."""
        return np.concatenate([one.start for one in self.each]) if self.each else np.zeros(0)

    @property
    def bounds(self) -> Float[np.ndarray, "entries 2"]:
        """The least and the largest of every entry."""
        rows = [np.tile([one.low, one.high], (len(one.start), 1)) for one in self.each]
        return np.concatenate(rows) if rows else np.zeros((0, 2))

    @property
    def names(self) -> list[str]:
        """What every entry is called."""
        return [one.entry(i) for one in self.each for i in range(len(one.start))]

    def parts(self, vector: Array) -> dict[str, Array]:
        """Values of the parameters by name; logarithms become what they are of."""
        found, first = {}, 0
        for one in self.each:
            part = vector[first : first + len(one.start)]
            found[one.name] = jnp.exp(part) if one.logarithmic else part
            first += len(one.start)
        return found

    def at(self, vector: Array | np.ndarray) -> GaussianProcess:
        """The process with these hyper-parameters."""
        xp: Any = jnp if isinstance(vector, jax.Array) else np  # NumPy has no programs to dispatch
        own = vector[:-1] if self.noise else vector
        leaves, structure = jax.tree.flatten(self.learnt)
        sizes = np.cumsum([leaf.size for leaf in leaves])[:-1].tolist()
        parts = xp.split(own, sizes) if leaves else []
        filled = [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
        kernel = eqx.combine(jax.tree.unflatten(structure, filled), self.rest)
        noise = xp.exp(vector[-1:]).reshape(self.process.noise.shape) if self.noise else self.process.noise
        return eqx.tree_at(lambda p: (p.kernel, p.noise), self.process, (kernel, noise))

    def flat(self, kernel: Kernel, noise: float) -> Float[np.ndarray, " entries"]:
        """The gradient as a vector, from that in the arrays of the kernel and in the variance of the noise."""
        kept = jax.tree.map(lambda own, slope: slope, self.learnt, kernel)
        parts = [np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(kept)]
        if self.noise:
            parts.append(np.atleast_1d(noise * float(np.asarray(self.process.noise).reshape(()))))
        return np.concatenate(parts)


def parameters(
    process: GaussianProcess,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fixed: Sequence[str] = (),
) -> Parameters:
    """The hyper-parameters of a process in double precision; call it where that is on.

    `bounds` and `fixed` name parameters by their whole name or its last part.

    >>> from chainrule.kernels import RBF
    >>> parameters(GaussianProcess(2.0 * RBF([1.0, 3.0]), noise=0.1)).names
    ['first.scale[0]', 'first.scale[1]', 'second.value', 'noise']
    """
    spec = jax.tree.map(
        lambda node: False if isinstance(node, Precomputed) else eqx.is_inexact_array(node),
        process.kernel,
        is_leaf=lambda node: isinstance(node, Precomputed),
    )
    arrays = eqx.filter(process.kernel, spec)
    names = [_shown(name) for name, _ in tree.named_leaves(arrays)]
    known = [*names, _NOISE]
    for asked in [*(bounds or {}), *fixed]:
        if not any(_matches(name, asked) for name in known):
            raise ArgumentError(
                f"{asked!r}: the process has no such hyper-parameter{suggest(asked, known)}",
                remedy=f"it has {', '.join(known)}",
            )
    kept = iter([not any(_matches(name, one) for one in fixed) for name in names])
    chosen = jax.tree.map(lambda _: next(kept), arrays)
    learnt, rest = eqx.partition(
        process.kernel, eqx.combine(chosen, jax.tree.map(lambda _: False, process.kernel))
    )
    each = [
        _parameter(_shown(name), np.asarray(leaf, np.float64), bounds or {}, logarithmic=_is_log(name))
        for name, leaf in tree.named_leaves(learnt)
    ]
    noise = np.asarray(process.noise, np.float64)
    own = noise.size == 1 and bool(noise.all()) and _NOISE not in fixed
    if own:
        each.append(_parameter(_NOISE, np.log(noise), bounds or {}, logarithmic=True))
    return Parameters(tuple(each), learnt, rest, own, process)


def _is_log(name: str) -> bool:
    return name.split(".")[-1].startswith(_LOG)


def _shown(name: str) -> str:
    """The name of a value by that of the array that holds it."""
    *above, last = name.split(".")
    return ".".join([*above, last.removeprefix(_LOG)])


def _matches(name: str, asked: str) -> bool:
    return name == asked or name.endswith(f".{asked}")


def _parameter(
    name: str, start: np.ndarray, bounds: Mapping[str, tuple[float, float]], *, logarithmic: bool
) -> Parameter:
    start = start.reshape(-1)
    given = [pair for asked, pair in bounds.items() if _matches(name, asked)]
    if given:
        low, high = (float(end) for end in given[0])
        if not low < high or (logarithmic and low <= 0):
            wanted = "0 < low < high" if logarithmic else "low < high"
            raise ArgumentError(f"bounds[{name!r}] = {given[0]}: {wanted} is needed")
        ends = (np.log(low), np.log(high)) if logarithmic else (low, high)
    elif logarithmic:
        least = QUIETEST if name == _NOISE else WIDEST[0]
        ends = min(np.log(least), start.min()), max(np.log(WIDEST[1]), start.max())
    else:
        ends = (0.0, np.inf) if name.split(".")[-1] == "offset" else (-np.inf, np.inf)
    return Parameter(name, np.clip(start, *ends), float(ends[0]), float(ends[1]), logarithmic)


def shown_value(parameter: Parameter, value: Any) -> float:
    """The value of an entry, as a person knows it."""
    return float(np.exp(value)) if parameter.logarithmic else float(value)


__all__ = ["Parameter", "Parameters", "parameters", "shown_value"]

"""Markov-chain Monte Carlo: what a move returns, how chains are run, and what is said of their draws."""

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.core.types import Array, Key
from chainrule.probability.monte_carlo.diagnostics import MIXED, bulk_ess, mean_ess, rhat, tail_ess

LogDensity = Callable[[Array], Array]
"""From one state to a number; it need not be normalised."""
CHAINS = 4
"""Chains below which R-hat says little."""
_ENOUGH = 400
"""Effective draws below which neither quantiles nor R-hat are to be relied on (Vehtari et al., 2021)."""
_SHOWN = 20
"""Entries of a state that are printed."""


@final
class Moved(NamedTuple):
    """A state after one move, the probability with which the move was made, and whether the path to it broke off."""

    state: Array
    acceptance: Array
    diverged: Array


Step = Callable[[Key, Array], Moved]
"""One move of all chains `[chains, *event]`."""


@final
class MCMCResult(NamedTuple):
    """Draws of several chains; printed, it shows for every entry of the state how far they can be trusted."""

    draws: np.ndarray
    """`[chains, draws, *event]`, after burn-in."""
    acceptance: np.ndarray
    """Mean probability with which the moves of each chain were made."""
    divergences: np.ndarray
    """Moves of each chain after burn-in whose path broke off: density not finite, or energy far from conserved."""
    step_size: float
    """The one used after burn-in, in units of `scale`; not a number where moves have none."""
    scale: np.ndarray
    """Standard deviations `[*event]`, or the Cholesky factor of a covariance, by which moves are scaled."""

    @property
    def mean(self) -> np.ndarray:
        """Over all draws of all chains, `[*event]`."""
        mean: np.ndarray = self.draws.mean(axis=(0, 1), dtype=np.float64)
        return mean

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviation over all draws, `[*event]`."""
        deviation: np.ndarray = self.draws.std(axis=(0, 1), dtype=np.float64)
        return deviation

    @property
    def standard_error(self) -> np.ndarray:
        """Monte Carlo error of the mean, `[*event]`: the deviation over the root of the effective sample size."""
        return self.deviation / np.sqrt(mean_ess(self.draws))

    @property
    def rhat(self) -> np.ndarray:
        """Rank-normalised split R-hat, `[*event]`."""
        return rhat(self.draws)

    @property
    def bulk_ess(self) -> np.ndarray:
        """Effective sample size for the centre of the distribution, `[*event]`."""
        return bulk_ess(self.draws)

    @property
    def tail_ess(self) -> np.ndarray:
        """Effective sample size for its tails, `[*event]`."""
        return tail_ess(self.draws)

    def concerns(self) -> list[str]:
        """What is wrong with the chains, a sentence each; nothing if all is well."""
        chains, count = self.draws.shape[:2]
        ratio = np.atleast_1d(self.rhat).ravel()
        size = np.fmin(np.atleast_1d(self.bulk_ess), np.atleast_1d(self.tail_ess)).ravel()
        found = []
        if chains < CHAINS:
            found.append(f"{chains} chain{'s' * (chains > 1)}: R-hat means little with fewer than {CHAINS}")
        if (still := int(np.isnan(ratio).sum())) > 0:
            found.append(f"{still} of {ratio.size} entries of the state never changed")
        if (ratio > MIXED).any():
            found.append(
                f"R-hat is {np.nanmax(ratio):.3f}, above {MIXED}: the chains have not seen the same distribution; use "
                "a longer burn_in and more draws"
            )
        if (size < _ENOUGH).any():
            found.append(
                f"{chains * count:,} draws are worth {np.nanmin(size):.0f} independent ones, fewer than {_ENOUGH}; use "
                "more draws"
            )
        if (broken := int(self.divergences.sum())) > 0:
            found.append(
                f"{broken} of {chains * count:,} moves diverged: where the density is steep it is not explored; use a "
                "smaller step or a higher target_acceptance"
            )
        return found

    def table(self) -> list[list[str | float | int]]:
        """Rows of entry, mean, standard error, deviation, R-hat, bulk and tail effective sample size."""
        columns = (
            self.mean,
            self.standard_error,
            self.deviation,
            self.rhat,
            self.bulk_ess,
            self.tail_ess,
        )
        event = self.draws.shape[2:]
        return [
            [f"x[{', '.join(map(str, at))}]" if at else "x", *(float(column[at]) for column in columns)]
            for at in np.ndindex(event)
        ]

    def __str__(self) -> str:
        head = (
            f"{'':<8}{'mean':>11}{'error':>10}{'deviation':>11}{'R-hat':>8}{'bulk ESS':>10}{'tail ESS':>10}"
        )
        rows = self.table()
        lines = [
            f"{row[0]:<8}{row[1]:>11.4g}{row[2]:>10.2g}{row[3]:>11.4g}{row[4]:>8.3f}{row[5]:>10.0f}{row[6]:>10.0f}"
            for row in rows[:_SHOWN]
        ]
        if len(rows) > _SHOWN:
            lines.append(f"... and {len(rows) - _SHOWN} more")
        chains, count = self.draws.shape[:2]
        moves = (
            f"{chains} chains of {count:,} draws; acceptance {self.acceptance.mean():.2f}, "
            f"{int(self.divergences.sum())} divergences"
        )
        return "\n".join([head, *lines, moves, *(f"warning: {one}" for one in self.concerns())])


def checked_start(where: str, start: Any, log_density: LogDensity | None) -> Array:
    """Starts `[chains, *event]`, at each of which the density is finite."""
    x = jnp.asarray(start)
    if x.ndim == 0 or not len(x):
        raise ArgumentError(
            f"{where}: start of shape {x.shape}; its first axis are the chains",
            remedy=f"for {CHAINS} chains of single numbers give an array of shape ({CHAINS},)",
        )
    if log_density is None:
        return x
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.result_type(float))
    out = jax.eval_shape(log_density, jax.ShapeDtypeStruct(x.shape[1:], x.dtype))
    if out.shape != ():
        raise ArgumentError(
            f"{where}: log_density of a state of shape {x.shape[1:]} has shape {out.shape}; it must be one number",
            remedy="the first axis of start are the chains, log_density takes one of them: sum over its entries",
        )
    found = np.asarray(jax.vmap(log_density)(x))
    if not np.isfinite(found).all():
        first = int(np.argmin(np.isfinite(found)))
        raise ArgumentError(
            f"{where}: log_density is {found[first]} at the start of chain {first}",
            remedy="start where the density is positive",
        )
    return x


def check_lengths(where: str, draws: int, burn_in: int, thin: int) -> None:
    """Raise unless the numbers of moves make sense."""
    whole(where, "draws", draws, least=4)
    whole(where, "burn_in", burn_in, least=0)
    whole(where, "thin", thin)


def collect(step: Step, x: Array, key: Key, draws: int, thin: int) -> tuple[Array, Moved]:
    """The chains' ends, and `draws` of each, `thin` moves apart, as `Moved` with a leading axis (one scan)."""

    def one(x: Array, key: Key) -> tuple[Array, Moved]:
        moved = step(key, x)
        return moved.state, moved

    def kept(x: Array, key: Key) -> tuple[Array, Moved]:
        x, between = jax.lax.scan(one, x, jax.random.split(key, thin))
        return x, Moved(x, between.acceptance.mean(axis=0), between.diverged.sum(axis=0))

    return jax.lax.scan(kept, x, jax.random.split(key, draws))


def result(moved: Moved, step_size: Any = math.nan, scale: Any = (), *, warn: bool) -> MCMCResult:
    """What `collect` gave, on the host, chains first; a warning for every concern."""
    found = MCMCResult(
        np.moveaxis(np.asarray(moved.state), 0, 1),
        np.asarray(moved.acceptance).mean(axis=0),
        np.asarray(moved.diverged).sum(axis=0),
        float(step_size),
        np.asarray(scale),
    )
    if warn:
        for concern in found.concerns():
            warnings.warn(concern, ChainruleWarning, stacklevel=3)
    return found


__all__ = [
    "CHAINS",
    "LogDensity",
    "MCMCResult",
    "Moved",
    "Step",
    "check_lengths",
    "checked_start",
    "collect",
    "result",
]

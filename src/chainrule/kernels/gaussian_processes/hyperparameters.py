"""Learning hyper-parameters: L-BFGS within bounds, from several starts, on the evidence or on points left out.

Where priors are given their log density is added, so that the maximum is that of the posterior of the values. With
priors of all of them, `sample_hyperparameters` draws from that posterior by Hamiltonian Monte Carlo instead.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, ChainruleWarning, check_choice
from chainrule.core.formatting import short_number
from chainrule.core.types import Array, Key, Scalar
from chainrule.kernels.gaussian_processes.climbing import Lowest, lowest
from chainrule.kernels.gaussian_processes.evidence import Objective, evidence, left_out, log_evidence
from chainrule.kernels.gaussian_processes.parameters import Parameters, parameters, shown_value
from chainrule.kernels.gaussian_processes.process import GaussianProcess
from chainrule.kernels.precision import widened
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.monte_carlo import MCMCResult, hmc

OBJECTIVES = ("evidence", "leave-one-out", "cross-validation")
"""What hyper-parameters can be learnt by."""
_APART = 1.5
"""Standard deviation of the logarithms at which further starts begin, around the given ones."""


@final
class Learning(NamedTuple):
    """How hyper-parameters were learnt."""

    objective: float
    """What was maximised, at the end: in nats, priors added."""
    before: float
    """The same for the hyper-parameters as they were given."""
    starts: tuple[float, ...]
    """What each start reached, on the points that it was tried on; the given one first."""
    evaluations: int
    """How often the objective and its gradient were computed, over all starts."""
    converged: bool
    """Whether the best one ended at a maximum instead of at the last iteration."""
    at_bounds: tuple[str, ...]
    """Parameters that ended at one of their bounds."""
    values: Mapping[str, Float[np.ndarray, " entries"]]
    """What was learnt, by name."""


def learn(
    process: GaussianProcess,
    x: Float[np.ndarray, "rows features"],
    y: Float[np.ndarray, " rows *outputs"],
    *,
    objective: str = "evidence",
    restarts: int = 5,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    priors: Mapping[str, Distribution] | None = None,
    fixed: Sequence[str] = (),
    folds: int = 10,
    iterations: int = 200,
    screen: int | None = None,
    key: Key | None = None,
    warn: bool = True,
) -> tuple[GaussianProcess, Learning]:
    """The process with the hyper-parameters that maximise the objective, and how they were found.

    After the given hyper-parameters `restarts` more starts are tried, drawn around them. `bounds` are of values, by
    name: `{"scale": (0.1, 10.0), "noise": (1e-4, 1.0)}`; `priors` are distributions of values; `fixed` names what
    stays. Objectives are in nats: the log marginal likelihood, or the log density of every point (of `folds` parts)
    predicted from the others. With `screen`, starts are compared on that many points drawn at random, and the best one
    goes on with all. Unless told not to `warn`, parameters that end at a bound are named.
    """
    check_choice("optimize", "objective", objective, OBJECTIVES)
    whole("optimize", "restarts", restarts, least=0)
    whole("optimize", "iterations", iterations)
    with jax.enable_x64(True):
        found = parameters(widened(process), bounds, fixed)
        if not found.each:
            raise ArgumentError(
                "optimize: there is nothing to learn: the kernel has no parameters and the noise is fixed"
            )
        key = jax.random.key(0) if key is None else key
        for_starts, for_folds, for_screen = jax.random.split(key, 3)
        judge = _judge(found, x, y, _objective(objective, len(x), folds, for_folds), _prior(found, priors))
        before = -judge(found.start)[0]
        vectors = _starts(found, for_starts, restarts)
        screened: list[Lowest] = []
        if screen is not None and restarts and whole("optimize", "screen", screen) < len(x):
            some = np.asarray(jax.random.permutation(for_screen, len(x)))[:screen]
            quick = _judge(
                found,
                x[some],
                y[some],
                _objective(objective, screen, folds, for_folds),
                _prior(found, priors),
                some,
            )
            screened = [lowest(quick, start, found.bounds, iterations) for start in vectors]
            vectors = [min(screened, key=lambda one: one.value).at]
        results = [lowest(judge, start, found.bounds, iterations) for start in vectors]
        best = min(results, key=lambda one: one.value)
        learnt = jax.tree.map(
            lambda a: np.asarray(a) if isinstance(a, jax.Array) else a, found.at(jnp.asarray(best.at))
        )
        values = {name: np.asarray(value) for name, value in found.parts(jnp.asarray(best.at)).items()}
    count = 1 + sum(one.evaluations for one in [*screened, *results])
    reached = tuple(-one.value for one in screened or results)
    hit = _at_bounds(found, best.at, warn)
    learning = Learning(-best.value, before, reached, count, best.converged, hit, values)
    return learnt, learning


def _starts(found: Parameters, key: Key, restarts: int) -> list[np.ndarray]:
    """The given hyper-parameters, and others drawn around them."""
    ends = found.bounds
    drawn = np.asarray(jax.random.normal(key, (restarts, len(found.start)), jnp.float64))
    # Only logarithms have a natural distance at which to begin again.
    spread = np.concatenate([np.full(len(p.start), _APART if p.logarithmic else 0.0) for p in found.each])
    further = [np.clip(found.start + row * spread, ends[:, 0], ends[:, 1]) for row in drawn]
    return [found.start, *further]


def _objective(name: str, rows: int, folds: int, key: Key) -> Objective:
    if name == "evidence":
        return evidence
    if name == "leave-one-out":
        return left_out()
    count = whole("optimize", "folds", folds, least=2)
    if count > rows:
        raise ArgumentError(f"optimize(folds={folds}): there are {rows} points")
    order = np.asarray(jax.random.permutation(key, rows))
    return left_out(np.array_split(order, count))


def _judge(
    found: Parameters,
    x: np.ndarray,
    y: np.ndarray,
    objective: Objective,
    prior: Callable[[np.ndarray], tuple[float, np.ndarray]],
    some: np.ndarray | None = None,
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """What is minimised: the negative objective with its gradient in the vector; of `some` points, if given."""
    columns = y.reshape(len(y), -1)
    targets = columns - np.asarray(found.process.mean_of(jnp.asarray(x), columns.shape[1]))
    on_device = objective is evidence and some is None and jax.default_backend() != "cpu"
    slope = _device_slope(found, x, targets) if on_device else None

    def judge(vector: np.ndarray) -> tuple[float, np.ndarray]:
        added, added_slope = prior(vector)
        if slope is not None:
            value, steepest = slope(jnp.asarray(vector))
            return -(float(value) + added), -(np.asarray(steepest) + added_slope)
        at = found.at(vector)
        noise: Any = np.asarray(at.noise)
        noise = np.broadcast_to(noise[some] if some is not None and noise.size > 1 else noise, (len(x),))
        try:
            judged = objective(at.kernel, noise, x, targets)
        except ArgumentError:  # no jitter helps: a point that the search turns away from
            return np.inf, np.zeros_like(vector)
        gradient = found._replace(process=at).flat(judged.kernel, float(judged.noise.sum()))
        return -(judged.value + added), -(gradient + added_slope)

    return judge


def _device_slope(
    found: Parameters, x: np.ndarray, targets: np.ndarray
) -> Callable[[Array], tuple[Scalar, Array]]:
    """The evidence and its gradient by JAX."""
    points, columns = jnp.asarray(x), jnp.asarray(targets)
    return eqx.filter_jit(jax.value_and_grad(lambda vector: traced_evidence(found, vector, points, columns)))


def traced_evidence(found: Parameters, vector: Array, x: Array, targets: Array) -> Scalar:
    """The log marginal likelihood by the vector of hyper-parameters, for traced code."""
    at = found.at(vector)
    noise = jnp.diag(jnp.broadcast_to(at.noise, (len(x),)))
    return log_evidence(at.kernel.tile(x, x) + noise, targets)


def _prior(
    found: Parameters, priors: Mapping[str, Distribution] | None
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    if not priors:
        return lambda vector: (0.0, np.zeros_like(vector))
    checked = _priors(found, priors)
    slope = jax.jit(jax.value_and_grad(lambda vector: log_prior(found, checked, vector)))

    def judged(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = slope(jnp.asarray(vector))
        return float(value), np.asarray(gradient)

    return judged


def _priors(found: Parameters, priors: Mapping[str, Distribution]) -> dict[str, Distribution]:
    """Priors by the whole names of parameters, in double precision."""
    names = [one.name for one in found.each]
    chosen: dict[str, Distribution] = {}
    for asked, prior in priors.items():
        meant = [name for name in names if name == asked or name.endswith(f".{asked}")]
        if not meant:
            raise ArgumentError(
                f"priors[{asked!r}]: no such hyper-parameter is learnt",
                remedy=f"these are: {', '.join(names)}",
            )
        chosen |= dict.fromkeys(meant, widened(prior))
    return chosen


def log_prior(found: Parameters, priors: Mapping[str, Distribution], vector: Array) -> Scalar:
    """The log density of the values under their priors."""
    values = found.parts(vector)
    return jnp.stack([priors[name].log_prob(values[name]).sum() for name in priors]).sum()


def _at_bounds(found: Parameters, vector: np.ndarray, warn: bool) -> tuple[str, ...]:
    ends = found.bounds
    names, owners = found.names, [one for one in found.each for _ in one.start]
    hit = [
        i for i in range(len(names)) if np.isfinite(ends[i]).any() and np.isclose(vector[i], ends[i]).any()
    ]
    if hit and warn:
        said = ", ".join(f"{names[i]} = {short_number(shown_value(owners[i], vector[i]))}" for i in hit[:4])
        more = f" and {len(hit) - 4} more" if len(hit) > 4 else ""
        warnings.warn(
            f"optimize: {said}{more} ended at a bound: the data hardly tell, or the units do not suit. Other bounds: "
            f"optimize(bounds={{{owners[hit[0]].name!r}: (low, high)}}); a scale at its upper end does not matter",
            ChainruleWarning,
            stacklevel=4,
        )
    return tuple(names[i] for i in hit)


@final
class SampledHyperparameters(NamedTuple):
    """Draws of hyper-parameters given the data."""

    chains: MCMCResult
    """Draws of the vector of hyper-parameters, logarithms where that is what is learnt, and what they are worth."""
    names: tuple[str, ...]
    values: Mapping[str, Float[np.ndarray, "chains draws entries"]]
    """Draws of the values by name."""
    process_at: Callable[[Any], GaussianProcess]
    """The process by one draw of the vector."""


def sample_hyperparameters(
    process: GaussianProcess,
    x: Float[np.ndarray, "rows features"],
    y: Float[np.ndarray, " rows *outputs"],
    key: Key,
    *,
    priors: Mapping[str, Distribution],
    chains: int = 4,
    fixed: Sequence[str] = (),
    **options: Any,
) -> SampledHyperparameters:
    """Hyper-parameters drawn from their posterior by Hamiltonian Monte Carlo; `options` are those of `hmc`.

    Every parameter that is not `fixed` needs a prior of its value: without one the posterior may not be a distribution.
    """
    with jax.enable_x64(True):
        found = parameters(widened(process), None, fixed)
        checked = _priors(found, priors)
        missing = [one.name for one in found.each if one.name not in checked]
        if missing:
            raise ArgumentError(
                f"sample_hyperparameters: {missing[0]} has no prior", remedy="give one, or name it in fixed="
            )
        points, columns = jnp.asarray(x, jnp.float64), jnp.asarray(y, jnp.float64).reshape(len(y), -1)
        targets = columns - found.process.mean_of(points, columns.shape[1])
        logs = np.concatenate([np.full(len(p.start), float(p.logarithmic)) for p in found.each])

        def log_density(vector: Array) -> Scalar:
            # Densities of values become those of logarithms by the derivative of the exponential.
            change = (jnp.asarray(logs) * vector).sum()
            return (
                traced_evidence(found, vector, points, targets) + log_prior(found, checked, vector) + change
            )

        for_start, for_chains = jax.random.split(key)
        apart = 0.1 * jax.random.normal(for_start, (chains, len(found.start)), jnp.float64)
        drawn = hmc(log_density, jnp.asarray(found.start)[None] + apart, for_chains, **options)
        flat = np.asarray(drawn.draws)
        of_each = jax.vmap(jax.vmap(found.parts))(jnp.asarray(flat))
        values = {name: np.asarray(value) for name, value in of_each.items()}
    return SampledHyperparameters(
        drawn, tuple(found.names), values, lambda vector: found.at(jnp.asarray(vector))
    )


__all__ = [
    "OBJECTIVES",
    "Learning",
    "SampledHyperparameters",
    "learn",
    "sample_hyperparameters",
]

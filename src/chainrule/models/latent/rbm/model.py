"""The restricted Boltzmann machine, trained by contrastive divergence (Hinton, 2002; Tieleman, 2008).

    p(v) = exp(-F(v)) / Z,    gradient of -log p = statistics of the data - statistics of the model

The statistics of the model come from short Gibbs chains: from the data and a few sweeps on (contrastive divergence), or
carried along from step to step (persistent). What is minimised cannot be computed, so the loss shows what can: the
negative pseudo-log-likelihood of zeros and ones, Hyvärinen's score of numbers.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.example_files import arrays_of
from chainrule.data.schema import Schema
from chainrule.models.latent.coded import Entries
from chainrule.models.latent.rbm import pictures
from chainrule.models.protocol import (
    CanDecode,
    CanEncode,
    CanSample,
    Config,
    HasDensity,
    HasEnergy,
    HasLogProb,
    HasPictures,
    HasState,
    LogPartition,
    Metrics,
    read_options,
    require_binary,
)
from chainrule.networks import units
from chainrule.probability.boltzmann import (
    BinaryRBM,
    GaussianRBM,
    RestrictedBoltzmannMachine,
    annealed_log_partition,
    contrastive_loss,
)

_ANNEALED = (200, 2000)
"""Chains and steps by which log Z is estimated."""
_SMALL = 0.01
"""Standard deviation of couplings at the beginning."""
_REMEMBERED = 0.01
"""Share of a batch in the running mean of the data."""
_RARE = 1e-3
"""Visible units of an annealed chain begin as one at least this often, and as zero."""


@final
class RBMConfig(Config):
    """Settings of the restricted Boltzmann machine."""

    hidden: int = Field(64, ge=1, le=100_000, description="hidden units; up to 20 the likelihood is exact")
    visible: Literal["auto", "bernoulli", "gaussian"] = Field(
        "auto", description="visible units: zeros and ones, or numbers; auto: as the data are"
    )
    k: int = Field(5, ge=1, le=10_000, description="sweeps of the Gibbs chains in a step")
    persistent: bool = Field(
        True, description="carry the chains along from step to step; false: they begin at the data every time"
    )
    chains: int = Field(100, ge=1, le=100_000, description="persistent: chains that are carried along")
    scale: Literal["learned", "fixed"] = Field(
        "learned", description="gaussian: the spread of an entry given the hidden units"
    )
    sigma: float = Field(1.0, ge=1e-3, description="gaussian: that spread, or where it begins")
    sparsity: float = Field(
        0.0, ge=0, description="weight of the squared distance of hidden units' activity from activity"
    )
    activity: float = Field(0.1, gt=0, lt=1, description="sparsity: how often a hidden unit is to be one")


class RBM(HasState, HasEnergy, CanSample, CanEncode, CanDecode, HasPictures):
    """A restricted Boltzmann machine over the entries of an example."""

    machine: RestrictedBoltzmannMachine
    particles: Bool[Array, "chains hidden"] | None
    """Persistent: where the chains of training are, by their hidden units."""
    mean: Float[Array, " visible"]
    """Running mean of the data, from which estimates of log Z set out."""
    updates: Int[Array, ""]
    config: RBMConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(
        self, config: RBMConfig, schema: Schema, machine: RestrictedBoltzmannMachine, key: Key
    ) -> None:
        self.config, self.schema, self.machine = config, schema, machine
        shape = (config.chains, config.hidden)
        self.particles = jax.random.bernoulli(key, 0.5, shape) if config.persistent else None
        self.mean = jnp.full(schema.dimensions, 0.0 if self.is_density else 0.5)
        self.updates = jnp.zeros((), jnp.int32)

    @property
    def is_density(self) -> bool:
        """Whether the visible units are numbers."""
        return isinstance(self.machine, GaussianRBM)

    # ------------------------------------------------------------------ training

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """A cost that needs no Z, with the gradient of the likelihood as far as the chains know it."""
        for_noise, for_chains, for_cost = jax.random.split(key, 3)
        x = batch.x.astype(jnp.promote_types(batch.x.dtype, jnp.float32))
        v = self.rows(units.dequantized(self.schema, x, for_noise) if self.is_density else x)
        begin, walk = jax.random.split(for_chains)
        machine = self._held()
        h = machine.draw_hidden(begin, v) if self.particles is None else self.particles.astype(v.dtype)
        drawn, h = machine.chain(walk, h, self.config.k)
        on = jax.nn.sigmoid(self.machine.hidden_logits(v))
        followed = contrastive_loss(self._learning(), v, drawn)
        if self.config.sparsity:
            distance = jnp.square(on.mean(axis=0) - self.config.activity).sum()
            followed = followed + self.config.sparsity * distance
        cost = jax.lax.stop_gradient(self.machine.proper_score(for_cost, v).mean())
        rebuilt = jnp.square(self.machine.visible_mean(on) - v).mean()
        metrics = {
            "reconstruction": rebuilt,
            "free_energy_above_chains": jax.lax.stop_gradient(followed),
            "activity": on.mean(),
        }
        loss = cost + followed - jax.lax.stop_gradient(followed)
        return loss, jax.lax.stop_gradient(metrics), self._moved(v, h)

    def _held(self) -> RestrictedBoltzmannMachine:
        """The machine without a gradient: chains are drawn, not differentiated."""
        arrays, rest = eqx.partition(self.machine, eqx.is_array)
        found: RestrictedBoltzmannMachine = eqx.combine(jax.lax.stop_gradient(arrays), rest)
        return found

    def _learning(self) -> RestrictedBoltzmannMachine:
        if isinstance(self.machine, GaussianRBM) and self.config.scale == "fixed":
            still = jax.lax.stop_gradient(self.machine.log_scale)
            return eqx.tree_at(lambda machine: machine.log_scale, self.machine, still)
        return self.machine

    def _moved(self, v: Array, h: Array) -> Self:
        share = jnp.maximum(_REMEMBERED, 1 / (self.updates + 1)).astype(self.mean.dtype)
        mean = self.mean + share * (jax.lax.stop_gradient(v).mean(axis=0).astype(self.mean.dtype) - self.mean)
        moved = eqx.tree_at(lambda model: (model.mean, model.updates), self, (mean, self.updates + 1))
        if self.particles is None:
            return moved
        found: Self = eqx.tree_at(lambda model: model.particles, moved, h > 0.5)
        return found

    def state(self) -> Sequence[Tree]:
        """The chains, the mean of the data, and over how many batches it was taken."""
        return (self.particles, self.mean, self.updates)

    # ------------------------------------------------------------------ densities

    def free_energy(self, x: Array) -> Float[Array, " batch"]:
        """F of each example; of numbers, that of a density in the units of the model."""
        return self.machine.free_energy(self.rows(x)) - self._units()

    def _units(self) -> float:
        """What a log-density gains by going from the units of the machine to those of the model."""
        return self.schema.dimensions * math.log(2.0) if self._moves_units else 0.0

    @property
    def _moves_units(self) -> bool:
        return self.is_density and units.unit(self.schema)

    # ------------------------------------------------------------------ examples and codes

    def rows(self, x: Array) -> Float[Array, "batch visible"]:
        """Examples as states of the visible units."""
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        return (units.to_network(self.schema, wide) if self._moves_units else wide).reshape(len(x), -1)

    def examples(self, v: Float[Array, "batch visible"]) -> Float[Array, "batch ..."]:
        """The way back."""
        x = v.reshape(len(v), *self.schema.shape)
        return units.to_model(self.schema, x) if self._moves_units else x

    def encode(self, x: Array) -> Float[Array, "batch hidden"]:
        """The probability of each hidden unit to be one."""
        return jax.nn.sigmoid(self.machine.hidden_logits(self.rows(x)))

    def decode(self, z: Array) -> Array:
        """The mean of every entry given the hidden units."""
        return self.examples(self.machine.visible_mean(z))

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        sweeps: Annotated[int, Field(ge=1, le=10_000_000, description="of every Gibbs chain")] = 1000,
        chains: Annotated[
            Literal["auto", "training", "fresh"],
            Field(
                description="where the chains begin: at those of training, or at random; auto: at those of training "
                "where there are any"
            ),
        ] = "auto",
        start: Annotated[
            Any,
            Field(
                description="examples at which the chains begin: a file with an array samples, in the units of the "
                "data, or an array"
            ),
        ] = None,
        temperature: Annotated[
            float, Field(gt=0, le=100, description="divides the energy; above 1 chains wander more easily")
        ] = 1.0,
        entries: Entries = "auto",
    ) -> Array:
        """`n` examples at the ends of Gibbs chains."""
        read_options(
            self.sample_options(),
            {"sweeps": sweeps, "chains": chains, "temperature": temperature, "entries": entries},
        )
        begin, walk = jax.random.split(key)
        h = self._beginning(begin, n, chains, start, temperature)
        mean = kinds.of(self.schema).spatial if entries == "auto" else entries == "mean"
        return self.examples(
            _ends(self.machine, walk, h, jnp.asarray(sweeps), jnp.asarray(temperature), mean)
        )

    def _beginning(
        self, key: Key, n: int, chains: str, start: Any, temperature: float
    ) -> Float[Array, "chains hidden"]:
        if start is not None:
            return self.machine.draw_hidden(key, self.rows(self._given(start, n)), temperature)
        if chains == "training" and self.particles is None:
            raise CapabilityError(
                "chains=training: it was trained with persistent=false, and has no chains of training",
                remedy="use chains=fresh, or start=FILE to begin at examples",
            )
        dtype = self.machine.weights.dtype
        if self.particles is None or chains == "fresh":
            return jax.random.bernoulli(key, 0.5, (n, self.config.hidden)).astype(dtype)
        order = jax.random.permutation(key, len(self.particles))
        return self.particles[order[jnp.arange(n) % len(order)]].astype(dtype)

    def _given(self, start: Any, n: int) -> Array:
        if isinstance(start, str | Path):
            start = arrays_of(Path(start), ("samples",), self.schema)["samples"]
        given = np.asarray(start, np.float32)
        given = given[None] if given.shape == self.schema.shape else given
        if given.shape[1:] != self.schema.shape or not 0 < len(given) <= n:
            raise ArgumentError(
                f"start: shape {given.shape}; the data have shape {self.schema.shape}",
                remedy=f"give up to n={n} examples",
            )
        return jnp.asarray(given[np.arange(n) % len(given)])

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Filters, fantasy particles, reconstructions, and free energies of training and held-out examples."""
        return pictures.all_of(self, data, key)


@eqx.filter_jit
def _ends(
    machine: RestrictedBoltzmannMachine, key: Key, h: Array, sweeps: Array, temperature: Array, mean: bool
) -> Array:
    walk, last = jax.random.split(key)

    def sweep(number: Array, h: Array) -> Array:
        return machine.sweep(jax.random.fold_in(walk, number), h, temperature)[1]

    h = jax.lax.fori_loop(0, sweeps - 1, sweep, h)
    return machine.visible_mean(h) if mean else machine.draw_visible(last, h, temperature)


@final
class CountedRBM(RBM, HasLogProb):
    """One of zeros and ones with a layer that can be enumerated: its probabilities are exact."""

    def log_prob(self, x: Array) -> Float[Array, " batch"]:
        """The log-probability of each example."""
        return -self.free_energy(x) - self.machine.log_partition()

    def log_partition(self, key: Key) -> LogPartition:
        """By visiting all states of a layer."""
        del key
        return _counted(self.machine)


@final
class CountedGaussianRBM(RBM, HasDensity):
    """One of numbers whose hidden layer can be enumerated: its density is exact."""

    def log_prob(self, x: Array) -> Float[Array, " batch"]:
        """The log-density of each example."""
        return -self.free_energy(x) - self.machine.log_partition()

    def log_partition(self, key: Key) -> LogPartition:
        """By visiting all states of a layer."""
        del key
        return _counted(self.machine)


def _counted(machine: RestrictedBoltzmannMachine) -> LogPartition:
    return LogPartition(float(machine.log_partition()), 0.0, "", 1.0)


@final
class EstimatedRBM(RBM):
    """One with two large layers: its normalisation is estimated."""

    def log_partition(self, key: Key) -> LogPartition:
        """By annealed importance sampling."""
        chains, steps = _ANNEALED
        base = self.mean
        if not self.is_density:
            often = jnp.clip(self.mean, _RARE, 1 - _RARE)
            base = jnp.log(often) - jnp.log1p(-often)
        found = annealed_log_partition(self.machine, key, base=base, chains=chains, steps=steps, warn=False)
        effective = float(found.weights.effective_sample_size) / chains
        return LogPartition(found.value, found.standard_error, "AIS", effective)


def build(config: RBMConfig, schema: Schema, key: Key) -> CountedRBM | CountedGaussianRBM | EstimatedRBM:
    """A machine that suits the data, by what can be computed of it."""
    for_weights, for_chains = jax.random.split(key)
    weights = _SMALL * jax.random.normal(for_weights, (schema.dimensions, config.hidden))
    biases = jnp.zeros(schema.dimensions), jnp.zeros(config.hidden)
    machine: RestrictedBoltzmannMachine
    if config.visible == "bernoulli" or (config.visible == "auto" and schema.levels == 2):
        require_binary("rbm with visible=bernoulli", schema, "chainrule train rbm visible=gaussian")
        machine = BinaryRBM(weights, *biases)
    else:
        machine = GaussianRBM(weights, *biases, jnp.full(schema.dimensions, math.log(config.sigma)))
    made: dict[bool, Callable[..., CountedRBM | CountedGaussianRBM | EstimatedRBM]]
    made = {True: CountedRBM if isinstance(machine, BinaryRBM) else CountedGaussianRBM, False: EstimatedRBM}
    return made[machine.countable](config, schema, machine, for_chains)


__all__ = ["RBM", "CountedGaussianRBM", "CountedRBM", "EstimatedRBM", "RBMConfig", "build"]

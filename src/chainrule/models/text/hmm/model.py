"""A hidden Markov model of series: exact likelihood, states of every step, forecasts; learned by Baum-Welch."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.information.compression.direct import EntryCode
from chainrule.information.compression.sources import HasCode
from chainrule.models.protocol import (
    CanEncode,
    CanForecast,
    CanSample,
    HasLogProb,
    HasOwnTraining,
    HasPictures,
    Metrics,
)
from chainrule.models.text.hmm import pictures
from chainrule.models.text.hmm.coding import series_code
from chainrule.models.text.hmm.config import HMMConfig
from chainrule.models.text.hmm.emission import LevelStates, NormalStates, StateEmission
from chainrule.models.text.hmm.learning import learned
from chainrule.probability import HiddenMarkov


@final
class HMM(HasOwnTraining, HasLogProb, CanSample, CanEncode, CanForecast, HasPictures, HasCode):
    """A chain of hidden states; each emits normal vectors, or one of the levels of the data."""

    start: Float[Array, " states"]
    transition: Float[Array, "states states"]
    emission: StateEmission
    done: Bool[Array, ""]
    begun: Bool[Array, ""]
    config: HMMConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: HMMConfig, schema: Schema, key: Key) -> None:
        del key  # training begins from the data
        features = schema.shape[1]
        if schema.levels and features > 1:
            raise CapabilityError(
                f"hmm emits one level at each step; these sequences have {features} features of {schema.levels} levels",
                remedy="keep one of the columns, for example data.drop=...",
            )
        states = config.states
        self.start = jnp.full(states, 1 / states)
        self.transition = jnp.full((states, states), 1 / states)
        self.emission = (
            LevelStates(states, schema.levels)
            if schema.levels
            else NormalStates(states, features, config.covariance == "diagonal")
        )
        self.done = self.begun = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def hidden(self) -> HiddenMarkov:
        """The chain with its emissions: posterior, viterbi, filter and more."""
        start, transition = (one / one.sum(axis=-1, keepdims=True) for one in (self.start, self.transition))
        return HiddenMarkov(start, transition, self.emission.distribution())

    def loss_unit(self) -> str:
        """That of a log-density."""
        return "nats per number"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean negative log-likelihood of a number, in nats."""
        del key
        return -self.log_prob(batch.x).mean() / self.schema.dimensions, {}

    def iterate(self, examples: Batch, key: Key) -> tuple["HMM", Metrics]:
        """Two iterations of Baum-Welch; the first of all begin at clusters, or frequencies, of the data."""
        y = np.asarray(self.emission.read(np.asarray(examples.x)))
        if y.dtype.kind == "f":
            y = y.astype(np.float64)
        model = self.hidden() if bool(self.begun) else self.emission.guess(key, self.config.states, y)
        found, before, converged = learned(model, y, self.config)
        new = eqx.tree_at(
            lambda m: (m.start, m.transition, m.emission, m.done, m.begun),
            self,
            (
                jnp.asarray(found.start, self.start.dtype),
                jnp.asarray(found.transition, self.start.dtype),
                self.emission.fitted(found.emission),
                jnp.asarray(converged),
                jnp.ones((), bool),
            ),
        )
        each = before / len(y) + self.emission.log_unit(y.shape[1])
        return new, {"loss": jnp.asarray(-each / self.schema.dimensions)}

    @property
    def converged(self) -> bool:
        """When an iteration gains next to nothing."""
        return bool(self.done)

    def log_prob(self, x: Float[Array, "batch time features"]) -> Float[Array, " batch"]:
        """Exact log-likelihood of each series, by the forward recursion."""
        return jnp.asarray(self.hidden().log_prob(self.emission.read(x))) + self.emission.log_unit(x.shape[1])

    def sample(  # type: ignore[override]  # the options of this model, by name
        self, key: Key, n: int, *, length: int | None = None
    ) -> Float[Array, "batch time features"]:
        """New series."""
        steps = self.schema.shape[0] if length is None else length
        if steps < 1:
            raise ArgumentError(f"length={length}: a series has at least one step")
        return self.emission.written(jnp.asarray(self.hidden().sample(key, steps, (n,)).y))

    def encode(self, x: Float[Array, "batch time features"]) -> Float[Array, "batch time states"]:
        """The probability of each state at each step, given the whole series."""
        return jnp.asarray(self.hidden().posterior(self.emission.read(x)))

    def forecast_quantiles(
        self, key: Key, history: Float[Array, "batch past features"], steps: int, levels: Sequence[float]
    ) -> Float[np.ndarray, "levels batch steps features"]:
        """Those of the mixtures that the states at each of the next steps emit, feature by feature; exact."""
        del key
        weights = np.asarray(self.hidden().predict(np.asarray(self.emission.read(history)), steps))
        return self.emission.quantiles(weights, levels)

    def code(self) -> EntryCode:
        """Step after step, each level by its probability given those before it."""
        return series_code(self)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """States over a held-out series, what each emits, how they follow each other."""
        del key
        held = data.val if len(data.val) else data.train
        return pictures.all_of(self.hidden(), self.emission, np.asarray(held.x[:1]))


__all__ = ["HMM"]

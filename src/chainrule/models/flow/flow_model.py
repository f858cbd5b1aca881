"""Normalizing flows as models: a bijection between data and codes, and a distribution of the codes.

`log p(x) = log p_z(T⁻¹(x)) + log |det J_{T⁻¹}(x)|`: density, draws and codes all are exact. What differs between models
of the family is the bijection; everything else is here. A flow may be told a class, labels or numbers beside each
example. They are left out now and then in training, so that examples can be drawn and judged without.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.example_files import known_entries
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.information.compression.bits_back import LatentCode
from chainrule.information.compression.sources import HasCode
from chainrule.models.flow import grids, pictures, published
from chainrule.models.flow.coding import flow_code
from chainrule.models.flow.drawing import FlowOptions, inpainted, passes_in_words
from chainrule.models.flow.settings import FlowConfig
from chainrule.models.protocol import (
    CanDecode,
    CanEncode,
    CanSample,
    HasAudit,
    HasBatchMoments,
    HasConditionalDensity,
    HasPictures,
    HasSampleCaption,
    HasScores,
    Metrics,
    OptionGroup,
    Scored,
    read_options,
)
from chainrule.networks import units
from chainrule.networks.condition_values import values
from chainrule.networks.conditions import ClassEncoder, ConditionEncoder, class_numbers
from chainrule.networks.flows import checking
from chainrule.networks.flows.audit import audit
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.base_distributions import BaseDistribution
from chainrule.networks.flows.continuous import solver_evaluations
from chainrule.networks.flows.findings import Audit
from chainrule.networks.flows.multiscale import MultiScale
from chainrule.networks.flows.normalization import batch_norms, held, recalibrated
from chainrule.networks.flows.tails import has_splines, tail_share

_FIRST = 2048
"""Training examples that say where layers begin."""
_NUMBERS = 2**28
"""Numbers of training examples whose moments are taken at most; of more, some examples stand for all."""


class FlowDraws(NamedTuple):
    """Draws of a flow, with what one pass tells of them."""

    x: Array
    """In model units."""
    log_prob: Float[Array, " batch"]
    z: Array
    """The codes they come from."""


@final
class FlowModel(
    HasSampleCaption,
    HasConditionalDensity,
    HasBatchMoments,
    HasScores,
    CanEncode,
    CanDecode,
    HasAudit,
    HasPictures,
    CanSample,
    HasCode,
):
    """`x = T(z)` with codes z from a base distribution, both perhaps given a condition."""

    bijection: Bijection
    base: BaseDistribution
    condition: ConditionEncoder | None
    """What it is told of an example, as numbers; none for flows that are told nothing."""
    config: FlowConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(
        self,
        bijection: Bijection,
        base: BaseDistribution,
        condition: ConditionEncoder | None,
        config: FlowConfig,
        schema: Schema,
    ) -> None:
        if bijection.shape != schema.shape or base.shape != schema.shape:
            raise ArgumentError(
                f"a flow of examples of shape {schema.shape} has codes as large as they are; the layers map shape "
                f"{bijection.shape}, the distribution of codes has {base.shape}",
                remedy="for codes smaller than examples, train a vae",
            )
        self.bijection, self.base, self.condition = bijection, base, condition
        self.config, self.schema = config, schema

    # ------------------------------------------------------------------ training

    def loss_unit(self) -> str:
        """That of a log-likelihood."""
        return "nats per example"

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """Mean negative log-density, some conditions left out, and the flow with its running averages moved on."""
        for_noise, for_condition, for_layers = jax.random.split(key, 3)
        x = self.filled(batch.x, for_noise)
        given = self._encoded(None if self.condition is None else self._kept(batch.y, for_condition), len(x))
        (z, log_det), moved = self.bijection.trained_inverse(x, given, for_layers)
        loss, metrics = self._cost(z, log_det, given)
        return loss, metrics, eqx.tree_at(lambda model: model.bijection, self, moved)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """The same with running averages in place of moments of the batch, as for any single example."""
        for_noise, for_condition, for_layers = jax.random.split(key, 3)
        x = self.filled(batch.x, for_noise)
        given = self._encoded(None if self.condition is None else self._kept(batch.y, for_condition), len(x))
        z, log_det = self.bijection.inverse_estimate(x, given, for_layers)
        return self._cost(z, log_det, given)

    def state(self) -> Sequence[Tree]:
        """Running averages, and whatever is held."""
        return held((self.bijection, self.base))

    @property
    def couples_examples(self) -> bool:
        """Whether there are batch norms among its layers."""
        return bool(batch_norms(self.bijection))

    @property
    def least_batch(self) -> int:
        """Two examples where the moments of a batch are needed."""
        return 2 if self.couples_examples else 1

    def with_moments_of(self, split: Split) -> Self:
        """The flow whose batch norms have the moments of these examples, as it is judged by."""
        most = min(len(split), max(2, _NUMBERS // self.schema.dimensions))
        batch = split.batch(np.unique(np.linspace(0, len(split) - 1, most).astype(int)))
        y = None if batch.y is None else jnp.asarray(batch.y)
        moved = _recalibrated(self, jnp.asarray(batch.x, jnp.float32), y, jax.random.key(0))
        return eqx.tree_at(lambda m: m.bijection, self, moved)

    @property
    def gaps(self) -> Float[Array, " *shape"] | None:
        """The distance of values of each entry that lie on a grid, in units of the model."""
        return jnp.asarray([gap for _, gap in self.config.grid]) if self.config.grid else None

    def filled(self, x: Array, key: Key) -> Array:
        """Examples with noise between levels, or between values that lie on a grid."""
        return units.dequantized(self.schema, x, key, self.gaps)

    def _kept(self, y: Any, key: Key) -> Array:
        assert self.condition is not None
        return self.condition.dropped(y, self.config.condition_dropout, key)

    def _cost(self, z: Array, log_det: Array, given: Array | None) -> tuple[Scalar, Metrics]:
        code = -self.base.log_prob(z, given).mean()
        volume = -log_det.mean()
        return code + volume, {"code_nats": code, "volume_nats": volume}

    # ------------------------------------------------------------------ density, draws, codes

    def log_prob(self, x: Array, condition: Any = None) -> Float[Array, " batch"]:
        """Exact log-density of each example, given its condition where one is named."""
        x = checking.events("log_prob", self.schema.shape, x)
        given = self._given(condition, len(x))
        z, log_det = self.bijection.inverse(x, given)
        return self.base.log_prob(z, given) + log_det

    def log_prob_given(self, batch: Batch) -> Float[Array, " batch"]:
        """The same of a batch of the data, whose targets are conditions as the flow was told them."""
        given = self._encoded(batch.y, len(batch.x))
        z, log_det = self.bijection.inverse(batch.x, given)
        return self.base.log_prob(z, given) + log_det

    def encode(self, x: Array, condition: Any = None) -> Float[Array, "batch size"]:
        """The code of each example, as a vector."""
        x = checking.events("encode", self.schema.shape, x)
        z = self.bijection.inverse(x, self._given(condition, len(x))).value
        return z.reshape(len(z), -1)

    def codes(self, x: Array, condition: Any = None) -> list[Array]:
        """The code of each example as the layers give it; of a flow on several scales one for each, finest first."""
        x = checking.events("codes", self.schema.shape, x)
        z = self.bijection.inverse(x, self._given(condition, len(x))).value
        return self.bijection.codes(z) if isinstance(self.bijection, MultiScale) else [z]

    def decode(self, z: Any, condition: Any = None) -> Array:
        """The example of each code, given as a vector, in the shape of an example, or as `codes` gives them."""
        if isinstance(z, list | tuple):
            if isinstance(self.bijection, MultiScale):
                z = self.bijection.joined(z)
            elif len(z) == 1 and np.ndim(z[0]) == 1 + len(self.schema.shape):
                (z,) = z
        codes = jnp.asarray(z)
        if codes.ndim == 2 and codes.shape[1] == self.schema.dimensions:
            codes = codes.reshape(len(codes), *self.schema.shape)
        codes = checking.events("decode", self.schema.shape, codes)
        return self.bijection.forward(codes, self._given(condition, len(codes))).value

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """A condition, where the flow knows any, and a temperature."""
        return [OptionGroup("options", "Options of this model.", FlowOptions)]

    def sample(self, key: Key, n: int, **options: Any) -> Array:
        """`n` examples from codes of the base distribution; of data in [0, 1], no entry leaves it."""
        chosen = read_options(self.sample_options(), options)["options"]
        assert isinstance(chosen, FlowOptions)
        given = self._given(chosen.condition, n)
        warmth = jnp.asarray(chosen.temperature, float)
        if chosen.inpaint is None:
            return _generated(self, key, n, given, warmth)
        known, mask = map(jnp.asarray, known_entries(self.schema, chosen.inpaint))
        z = self.base.draw(key, n, given, warmth)
        return self._as_data(inpainted(self.bijection, z, known, mask, given, chosen.inpaint_steps))

    def _as_data(self, x: Array) -> Array:
        """No entry outside of the range of the data, and those that lie on a grid at the nearest point of it."""
        x = jnp.clip(x, 0, 1) if units.unit(self.schema) else x
        if not self.config.grid:
            return x
        first, gap = jnp.asarray(self.config.grid, x.dtype).T[:, None]
        whole = jnp.where(gap > 0, gap, 1)
        return jnp.where(gap > 0, first + whole * jnp.round((x - first) / whole), x)

    def sample_caption(self, **options: Any) -> str:
        """How many passes of the network it takes, one after another, and what the temperature means."""
        warmth, steps = options.get("temperature", 1.0), options.get("inpaint_steps", 300)
        note = "" if warmth == 1 else f"; at temperature {warmth:g}, not the distribution of the model"
        if options.get("inpaint") is not None:
            note = f"; by {steps} steps of descent over codes that fit what is known{note}"
        return f"{passes_in_words(self.bijection)}{note}"

    @property
    def passes(self) -> tuple[int, int]:
        """Passes of the network that wait for each other: of a density, and of a draw."""
        each = self.bijection.passes
        return each.inverse, each.forward

    def sample_and_log_prob(self, key: Key, n: int, condition: Any = None) -> FlowDraws:
        """Examples with their log-densities, in one pass from the codes."""
        given = self._given(condition, n)
        z = self.base.draw(key, n, given)
        x, log_det = self.bijection.forward(z, given)
        return FlowDraws(x, self.base.log_prob(z, given) - log_det, z.reshape(n, -1))

    @property
    def conditional(self) -> bool:
        """Whether it is told anything of examples."""
        return self.condition is not None

    def conditions(self, condition: Any, n: int) -> Array:
        """The conditions of `n` examples: one class, vector or number for all, or one for each."""
        if self.condition is None:
            raise CapabilityError(
                "the flow knows no conditions: it was trained without them",
                remedy="leave the condition out, or train with conditional=true on data with targets",
            )
        if isinstance(self.condition, ClassEncoder):
            return class_numbers(self.schema, condition, n)
        return values(self.condition, self.schema, condition, n)

    def no_condition(self, n: int) -> Array | None:
        """What layers are told of `n` examples whose condition is not known."""
        return self._encoded(None, n)

    def _given(self, condition: Any, n: int) -> Array | None:
        return self._encoded(None if condition is None else self.conditions(condition, n), n)

    def _encoded(self, condition: Array | None, n: int) -> Array | None:
        """The condition of each of `n` examples as layers read it; none in particular where there is none."""
        if self.condition is None:
            return None
        return self.condition(self.condition.null(n) if condition is None else condition).summary

    def code(self) -> LatentCode:
        """Bits of the noise between levels come back: examples cost minus the log-density with noise."""
        return flow_code(self)

    # ------------------------------------------------------------------ judgement

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """How much lies beyond splines, and what solving an equation took."""
        x = self.filled(batch.x, key)
        found = {}
        if has_splines(self.bijection):
            found["tail_share"] = Scored(tail_share(self.bijection, x, self.no_condition(len(x))))
        taken = solver_evaluations(self.bijection, x, self._given(None, len(x)))
        if taken is not None:
            each = jnp.broadcast_to(taken.astype(x.dtype), (len(x),))
            found["solver_evaluations"] = Scored(each, "of the velocity, for a batch")
        return found

    def audit(self, x: Array, key: Key, condition: Any = None) -> Audit:
        """Whether the map is what it claims to be at these examples: inverse, volumes, total probability."""
        x = checking.events("audit", self.schema.shape, x)
        return audit(self.bijection, self.base, x, key, self._given(condition, len(x)))

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Codes, what layers do, and the audit; in the plane also densities and grids; of images published figures."""
        beside = published.pictures(data, key, lambda x, k: self.log_prob(self.filled(x, k)))
        return [*pictures.all_of(self, data, key), *beside]


@eqx.filter_jit
def _generated(
    model: FlowModel, key: Key, n: int, given: Array | None, temperature: Float[Array, ""]
) -> Array:
    z = model.base.draw(key, n, given, temperature)
    return model._as_data(model.bijection.forward(z, given).value)


def started(model: FlowModel, data: Data) -> FlowModel:
    """The flow that training begins with: layers whose start the data say are set by some training examples.

    Columns of values that lie on a grid are found too, and are known to the settings from then on.
    """
    if not model.config.grid:
        config = model.config.model_copy(update={"grid": grids.measured(data)})
        model = FlowModel(model.bijection, model.base, model.condition, config, model.schema)
    few = np.unique(np.linspace(0, len(data.train) - 1, _FIRST).astype(int))
    batch = data.train.batch(few)
    x = model.filled(jnp.asarray(batch.x, jnp.float32), jax.random.key(0))
    given = None if model.condition is None else model.condition(jnp.asarray(batch.y)).summary
    return eqx.tree_at(lambda m: m.bijection, model, model.bijection.started(x, given))


@eqx.filter_jit
def _recalibrated(model: FlowModel, x: Array, y: Any, key: Key) -> Bijection:
    for_noise, for_layers = jax.random.split(key)
    given = None if model.condition is None else model.condition(y).summary
    return recalibrated(model.bijection, model.filled(x, for_noise), given, for_layers)


__all__ = ["FlowDraws", "FlowModel", "FlowOptions", "started"]

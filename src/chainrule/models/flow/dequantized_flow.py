"""Flows of levels with noise that is learned: variational dequantisation.

Uniform noise between levels asks a flow for densities with edges. A second, small flow draws the noise instead, seeing
the example, and both are trained together for the bound

    log P(v) >= E_q [log p(v + u) - log q(u | v)]

of which uniform noise is the special case with `log q = 0` (Ho, Chen, Srinivas, Duan and Abbeel, Flow++, ICML 2019).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, final

import equinox as eqx
import jax

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.information.compression.codes import Code
from chainrule.information.compression.sources import HasCode
from chainrule.models.flow import pictures, published
from chainrule.models.flow.flow_model import FlowModel, started
from chainrule.models.flow.settings import FlowConfig
from chainrule.models.protocol import (
    CanDecode,
    CanEncode,
    CanSample,
    HasAudit,
    HasImportanceBound,
    HasPictures,
    HasSampleCaption,
    HasState,
    Metrics,
    OptionGroup,
)
from chainrule.networks.flows.findings import Audit
from chainrule.networks.flows.level_noise import LevelNoise


@final
class DequantizedFlow(
    HasSampleCaption,
    HasImportanceBound,
    HasState,
    CanEncode,
    CanDecode,
    HasAudit,
    HasPictures,
    CanSample,
    HasCode,
):
    """A flow of continuous numbers, and learned noise that makes levels continuous."""

    flow: FlowModel
    """Of data without levels."""
    noise: LevelNoise
    config: FlowConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def loss_unit(self) -> str:
        """That of a log-likelihood."""
        return "nats per example"

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """That of the flow at examples with noise, and what the noise costs."""
        for_noise, for_flow = jax.random.split(key)
        drawn = self.noise(batch.x, for_noise)
        loss, metrics, moved = self.flow.loss_and_state(batch._replace(x=drawn.value), for_flow)
        noise = drawn.log_q.mean()
        model = eqx.tree_at(lambda model: model.flow, self, moved)
        return loss + noise, {**metrics, "noise_nats": noise}, model

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """The same as for any single example."""
        for_noise, for_flow = jax.random.split(key)
        drawn = self.noise(batch.x, for_noise)
        loss, metrics = self.flow.loss(batch._replace(x=drawn.value), for_flow)
        noise = drawn.log_q.mean()
        return loss + noise, {**metrics, "noise_nats": noise}

    def state(self) -> Sequence[Tree]:
        """That of the flow."""
        return self.flow.state()

    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """Log-density at one draw of the noise, less that of the noise."""
        drawn = self.noise(x, key)
        return self.flow.log_prob(drawn.value) - drawn.log_q

    @property
    def likelihood_note(self) -> str:
        """How levels became continuous."""
        return "variational dequantisation"

    def encode(self, x: Array, condition: Any = None) -> Float[Array, "batch size"]:
        """The code of each example, without noise."""
        return self.flow.encode(x, condition)

    def codes(self, x: Array, condition: Any = None) -> list[Array]:
        """The codes of each example on all scales, without noise."""
        return self.flow.codes(x, condition)

    def decode(self, z: Any, condition: Any = None) -> Array:
        """The example of each code."""
        return self.flow.decode(z, condition)

    def code(self) -> Code:
        """Refused, with what would do."""
        raise CapabilityError(
            "dequantization=variational: the noise between levels is learned, and its bits do not come back",
            remedy="train with dequantization=uniform",
        )

    def sample(self, key: Key, n: int, **options: Any) -> Array:
        """Draws of the flow."""
        return self.flow.sample(key, n, **options)

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """Those of the flow."""
        return FlowModel.sample_options()

    @property
    def conditional(self) -> bool:
        """Whether the flow is told anything of examples."""
        return self.flow.conditional

    def sample_caption(self, **options: Any) -> str:
        """That of the flow."""
        return self.flow.sample_caption(**options)

    def audit(self, x: Array, key: Key, condition: Any = None) -> Audit:
        """That of the flow."""
        return self.flow.audit(x, key, condition)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Those of the flow, at examples with learned noise."""
        shown = pictures.all_of(self.flow, data, key, eqx.filter_jit(lambda x, k: self.noise(x, k).value))
        return [*shown, *published.pictures(data, key, self.elbo)]


def continuous(schema: Schema) -> Schema:
    """The same data as numbers without levels; an error where they have none to begin with."""
    if not schema.levels:
        raise ArgumentError(
            "dequantization=variational: these data have no levels to put noise between",
            remedy="use dequantization=uniform",
        )
    return replace(schema, levels=0)


def begun(model: FlowModel | DequantizedFlow, data: Data) -> FlowModel | DequantizedFlow:
    """The model that training begins with, as `flow_model.started` has it."""
    if isinstance(model, FlowModel):
        return started(model, data)
    return eqx.tree_at(lambda model: model.flow, model, started(model.flow, data))


__all__ = ["DequantizedFlow", "begun", "continuous"]

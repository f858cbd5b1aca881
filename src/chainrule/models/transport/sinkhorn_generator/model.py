"""A generator trained by optimal transport alone (Genevay, Peyré and Cuturi, 2018).

A step draws as many examples from noise as there are real ones in the batch and follows the gradient of the Sinkhorn
divergence between the two sets. There is no second network and no game: the loss falls, and means something.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    Alarm,
    Config,
    HasDiagnostics,
    HasGenerator,
    HasParts,
    HasPictures,
    HasSnapshots,
    Metrics,
    OptionGroup,
    Part,
    SampleOptions,
    read_options,
)
from chainrule.models.transport.sinkhorn_generator import diagnostics, pictures
from chainrule.models.transport.sinkhorn_generator.losses import (
    TransportDistance,
    divergence,
    entropic,
    mean_cost,
    sliced,
    suited_eps,
)
from chainrule.models.transport.sinkhorn_generator.networks import NoiseGenerator

_KEPT = 2**17
"""Numbers of the examples that are kept along the way, at most; of images eight at least."""


@final
class SinkhornGeneratorConfig(Config):
    """Settings of a generator trained by optimal transport."""

    latent: int = Field(
        16,
        ge=1,
        le=4096,
        description="entries of the noise; if not given: those of a vector, up to 16; images: 32",
    )
    width: int = Field(256, ge=1, le=8192, description="vectors: units of each hidden layer")
    depth: int = Field(3, ge=0, le=32, description="vectors: hidden layers; 0 is an affine map of the noise")
    channels: int = Field(
        32,
        ge=4,
        le=1024,
        multiple_of=4,
        description="images: channels at their full size, twice as many at each half",
    )
    distance: Literal["divergence", "entropic", "sliced"] = Field(
        "divergence",
        description="what is minimised: Sinkhorn divergence, entropic cost (which shrinks what is learned), or sliced "
        "transport",
    )
    cost: Literal["sqeuclidean", "euclidean"] = Field(
        "sqeuclidean",
        description="cost of moving one example to another; if not given: euclidean for vectors, sqeuclidean for "
        "images",
    )
    eps: float = Field(
        0.05,
        gt=0,
        le=1e6,
        description="entropic strength, beside the mean cost between examples of the batch; if not given: 0.01 for "
        "cost=euclidean, 0.05 for sqeuclidean",
    )
    absolute: bool = Field(False, description="eps is in units of the cost instead")
    anneal: float = Field(
        0.2,
        ge=0,
        le=1,
        description="share of the run in which eps falls to its value from the mean cost; absolute: not at all",
    )
    directions: int = Field(128, ge=1, le=10_000, description="sliced: directions drawn for each batch")


@final
class NoiseOptions(SampleOptions):
    """How noise is drawn."""

    temperature: float = Field(
        1.0, gt=0, le=100, description="factor of the noise; below 1: more typical examples, less variety"
    )


@final
class SinkhornGenerator(HasParts, HasGenerator, HasDiagnostics, HasSnapshots, HasPictures):
    """Examples from noise, as cheap to move to the data as can be."""

    generator: NoiseGenerator
    config: SinkhornGeneratorConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: SinkhornGeneratorConfig, schema: Schema, key: Key) -> None:
        self.config, self.schema = config, schema
        self.generator = NoiseGenerator(
            schema, config.latent, width=config.width, depth=config.depth, channels=config.channels, key=key
        )

    # ------------------------------------------------------------------ training

    def parts(self) -> Sequence[Part[Any]]:
        """One part; its loss changes while eps falls."""
        return [
            Part(
                "generator",
                lambda model: model.generator,
                type(self).generator_move,
                loss_at=type(self).generator_move,
            )
        ]

    @property
    def least_batch(self) -> int:
        """Two: one example has no distribution to compare with."""
        return 2

    def generator_move(
        self, batch: Batch, key: Key, progress: Scalar | float = 1.0
    ) -> tuple[Scalar, Metrics, Self]:
        """The distance of as many generated examples from these, when this share of the run's steps is done."""
        x = self._rows(batch.x)
        y = self._drawn(random.named(key, "noise"), len(x), x)
        eps = self._eps(x, progress)
        found = self._distance(x, y, eps, random.named(key, "directions"))
        if self.config.distance == "sliced":  # sorting has neither
            return found.value, {}, self
        return found.value, {"eps": eps, "marginal_error": jax.lax.stop_gradient(found.error)}, self

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """The distance at the last eps; beside it, for half of the batch, the same and what it is of real halves.

        A distance of finite sets is never zero: what two sets of real examples are apart is as low as it can get.
        """
        x = self._rows(batch.x)
        y = self._drawn(random.named(key, "noise"), len(x), x)
        eps, axes = self._eps(x, 1.0), random.named(key, "directions")
        found = self._distance(x, y, eps, axes)
        half = len(x) // 2
        if not half:
            return found.value, {}
        distance = self._distance(x[:half], y[:half], eps, axes).value
        floor = self._distance(x[:half], x[half : 2 * half], eps, axes).value
        return found.value, {"half_distance": distance, "floor": floor}

    def _rows(self, x: Array) -> Float[Array, "batch entries"]:
        return x.reshape(len(x), -1).astype(jnp.promote_types(x.dtype, jnp.float32))

    def _drawn(self, key: Key, n: int, like: Array) -> Float[Array, "batch entries"]:
        return self._rows(self.generator(jax.random.normal(key, (n, self.config.latent), like.dtype)))

    def _eps(self, x: Array, progress: Scalar | float) -> Scalar:
        if self.config.absolute:
            return jnp.asarray(self.config.eps, x.dtype)
        mean = jnp.maximum(mean_cost(x, self.config.cost), jnp.finfo(x.dtype).tiny)
        if not self.config.anneal:
            return self.config.eps * mean
        done = jnp.clip(jnp.asarray(progress, x.dtype) / self.config.anneal, 0.0, 1.0)
        return self.config.eps**done * mean

    def _distance(self, x: Array, y: Array, eps: Scalar, key: Key) -> TransportDistance:
        if self.config.distance == "sliced":
            return sliced(x, y, self.config.directions, key)
        measure = divergence if self.config.distance == "divergence" else entropic
        return measure(x, y, eps, self.config.cost)

    def loss_unit(self) -> str:
        """What is minimised."""
        if self.config.distance == "sliced":
            return "sliced transport"
        return "Sinkhorn divergence" if self.config.distance == "divergence" else "entropic cost"

    def log_prob(self, x: Array) -> Array:
        """Raises: the model is implicit."""
        del x
        raise CapabilityError(
            "log_prob: this model is implicit, a function of noise whose density is not known",
            remedy="train a model with a density: chainrule train spline-flow (points, tables) or glow (images)\n"
            "or judge samples by distances from held-out data: chainrule score RUN",
        )

    # ------------------------------------------------------------------ examples

    def noise(self, key: Key, n: int) -> Float[Array, "n size"]:
        """Normal noise."""
        return jax.random.normal(key, (n, self.config.latent))

    def generate(self, z: Float[Array, "n size"], condition: Any = None) -> Array:
        """The example of each vector of noise, in model units; there are no conditions."""
        if condition is not None:
            raise ArgumentError(
                "condition (class=, y=): this model was trained without classes or values",
                remedy="leave the condition out",
            )
        return _generated(self.generator, jnp.asarray(z))

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """How far out noise is drawn."""
        return [OptionGroup("options", "Options of this model.", NoiseOptions)]

    def sample(self, key: Key, n: int, **options: Any) -> Array:
        """`n` examples from fresh noise; the option is `temperature`."""
        chosen = read_options(self.sample_options(), options)["options"]
        assert isinstance(chosen, NoiseOptions)
        return self.generate(chosen.temperature * self.noise(key, n))

    def snapshot(self, key: Key) -> Array:
        """Examples of fixed noise."""
        most = 512 if len(self.schema.shape) == 1 else 64
        return self.generate(self.noise(key, max(8, min(most, _KEPT // self.schema.dimensions))))

    # ------------------------------------------------------------------ what is shown

    def alarms(self, history: Mapping[str, np.ndarray]) -> Sequence[Alarm]:
        """Plans that were far from converged."""
        config = self.config
        return diagnostics.alarms(
            history,
            config.eps,
            annealed=bool(config.anneal) and not config.absolute,
            least=0.0 if config.absolute else suited_eps(config.cost),
        )

    def curves(self, history: Mapping[str, np.ndarray]) -> Sequence[Picture]:
        """The distance beside that of real examples from each other, and eps on its way down."""
        return diagnostics.curves(history, self.loss_unit(), self.alarms_along(history))

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """The ways transport would send generated points, modes, walks through the noise."""
        return pictures.all_of(self, data, key)


@eqx.filter_jit
def _generated(generator: NoiseGenerator, z: Array) -> Array:
    return generator(z)


__all__ = ["SinkhornGenerator", "SinkhornGeneratorConfig"]

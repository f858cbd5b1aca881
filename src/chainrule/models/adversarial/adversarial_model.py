"""Training of two players, and all that models of this family have in common.

A step is `n_critic` moves of the discriminator, each on a fresh real batch and as many fresh generated examples through
which no gradient flows, and one move of the generator. Neither move touches parameters, running averages or singular
vectors of the other. Real and generated examples go through the discriminator one after the other where it normalises
by the batch, because statistics of a mixed batch would tell them apart; otherwise together, which is the same and
faster.

The losses of a game say nothing about progress. `loss`, by which checkpoints are compared and which stands in the
progress line, is the kernel distance between real and generated examples instead.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.adversarial import diagnostics, pictures, rejection
from chainrule.models.adversarial.augmenting import changed
from chainrule.models.adversarial.building import GameConfig
from chainrule.models.adversarial.distance import coverage_and_precision, kernel_distance, spread
from chainrule.models.adversarial.draw_options import DrawOptions
from chainrule.models.adversarial.games import AdversarialGame, right_share
from chainrule.models.adversarial.networks import BASES, Discriminator, Generator, couples_examples
from chainrule.models.adversarial.penalties import scores_and_slopes
from chainrule.models.protocol import (
    Alarm,
    HasDiagnostics,
    HasDiscriminator,
    HasParts,
    HasPictures,
    HasSnapshots,
    Metrics,
    OptionGroup,
    Part,
    read_options,
)
from chainrule.networks import units
from chainrule.networks.condition_values import values
from chainrule.networks.conditions import ClassEncoder, class_numbers
from chainrule.nn.sequential import running_statistics

_QUANTILES = {"low": 0.1, "middle": 0.5, "high": 0.9}
_KEPT = 2**17
"""Numbers of the examples that are kept along the way, at most; of images eight at least."""


class Verdict(NamedTuple):
    """What a discriminator says of a real and a generated batch."""

    real: Float[Array, " decisions"]
    fake: Float[Array, " decisions"]
    slopes: tuple[Float[Array, "batch ..."], Float[Array, "batch ..."]] | None
    """Gradients of the scores in real and in generated examples, where they were asked for."""
    moved: Discriminator


class AdversarialModel(HasParts, HasDiscriminator, HasDiagnostics, HasSnapshots, HasPictures):
    """A generator and a discriminator that learn against each other."""

    generator: eqx.AbstractVar[Generator]
    discriminator: eqx.AbstractVar[Discriminator]
    config: eqx.AbstractVar[Any]
    schema: eqx.AbstractVar[Schema]

    # ------------------------------------------------------------------ what a game is made of

    @property
    @abc.abstractmethod
    def game(self) -> AdversarialGame:
        """What both players minimise."""

    @property
    def real_target(self) -> float:
        """Default: the target of real examples is not smoothed."""
        return 1.0

    @property
    def changes(self) -> Sequence[str]:
        """Default: images are not augmented."""
        return ()

    @property
    def needs_slopes(self) -> bool:
        """Default: the discriminator's loss does not depend on slopes at real and generated examples."""
        return False

    def charge(self, judged: Verdict, real: Array, fake: Array, y: Any, key: Key) -> tuple[Scalar, Metrics]:
        """Default: nothing is added to the discriminator's loss."""
        del judged, real, fake, y, key
        return jnp.zeros(()), {}

    @property
    def projection(self) -> Callable[[Tree], Tree]:
        """Default: parameters of the discriminator stay where a move brings them."""
        return _as_it_is

    def to_networks(self, x: Array) -> Array:
        """Default: examples as the players see them are in the units of the network, and of the shape they have."""
        return units.to_network(self.schema, x)

    def from_networks(self, x: Array) -> Array:
        """Default: the inverse of `to_networks` as it is by default."""
        return units.to_model(self.schema, x)

    # ------------------------------------------------------------------ training

    def parts(self) -> Sequence[Part[Any]]:
        """The discriminator first, then the generator."""
        return [
            Part(
                "discriminator",
                lambda model: model.discriminator,
                type(self).discriminator_move,
                repeat=self.config.n_critic,
                state=lambda model: running_statistics(model.discriminator),
                project=self.projection,
            ),
            Part(
                "generator",
                lambda model: model.generator,
                type(self).generator_move,
                state=lambda model: running_statistics(model.generator),
            ),
        ]

    def step_loss(self, metrics: Mapping[str, Array]) -> Array:
        """The kernel distance of the generator's batch from the data: the number that validation measures too."""
        return metrics["generator.distance"]

    @property
    def least_batch(self) -> int:
        """As many as are judged together, and two: a single example has no distance from others of its kind."""
        return max(2, self.discriminator.pack)

    def discriminator_move(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The discriminator's loss on real examples and on as many generated ones, which stay as they are."""
        real, y = self._real(batch)
        drawn, _ = self.generator.advance(self.noise(random.named(key, "noise"), len(real), real.dtype), y)
        fake = jax.lax.stop_gradient(drawn)
        real, fake = (
            changed(x, self.changes, random.named(key, name)) for x, name in ((real, "real"), (fake, "fake"))
        )
        judged = self.judged(real, fake, y, slopes=self.needs_slopes)
        loss = self.game.discriminator(judged.real, judged.fake, self.real_target)
        charge, more = self.charge(judged, real, fake, y, random.named(key, "charge"))
        moved = eqx.tree_at(lambda model: model.discriminator, self, judged.moved)
        return loss + charge, {**self._seen(judged, loss, charge), **more}, moved

    def generator_move(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The generator's loss on fresh examples; of the real ones most games see nothing."""
        real, y = self._real(batch)
        fake, generator = self.generator.advance(
            self.noise(random.named(key, "noise"), len(real), real.dtype), y
        )
        shown = changed(fake, self.changes, random.named(key, "fake"))
        if self.game.paired:
            judged = self.judged(changed(real, self.changes, random.named(key, "real")), shown, y)
            loss = self.game.generator(judged.real, judged.fake)
        else:
            scores, _ = self.discriminator.advance(*self._whole_packs(shown, y))
            loss = self.game.generator(scores, scores)
        ours, theirs = (self.from_networks(jax.lax.stop_gradient(x)) for x in (fake, real))
        seen = {
            "distance": kernel_distance(theirs, ours),
            "spread": spread(ours) / jnp.maximum(spread(theirs), 1e-12),
        }
        return loss, seen, eqx.tree_at(lambda model: model.generator, self, generator)

    def judged(self, real: Array, fake: Array, y: Any, *, slopes: bool = False) -> Verdict:
        """What the discriminator says of both as in training: together, or apart where examples see each other."""
        (real, y_real), (fake, y_fake) = self._whole_packs(real, y), self._whole_packs(fake, y)
        if couples_examples(self.discriminator):
            a_real, in_real, moved = _scored(self.discriminator, real, y_real, slopes)
            a_fake, in_fake, moved = _scored(moved, fake, y_fake, slopes)
        else:
            both = None if y_real is None else jnp.concatenate([y_real, y_fake])
            found, slope, moved = _scored(self.discriminator, jnp.concatenate([real, fake]), both, slopes)
            a_real, a_fake = jnp.split(found, 2)
            in_real, in_fake = jnp.split(slope, 2) if slopes else (slope, slope)
        return Verdict(a_real, a_fake, (in_real, in_fake) if slopes else None, moved)

    def _real(self, batch: Batch) -> tuple[Array, Any]:
        x = batch.x.astype(jnp.promote_types(batch.x.dtype, jnp.float32))
        return self.to_networks(x), self.given(batch.y)

    def given(self, y: Any) -> Array | None:
        """Targets of a batch as networks read them, or nothing where examples are made without conditions."""
        if (encoder := self.generator.condition) is None:
            return None
        y = jnp.asarray(y)
        return y if isinstance(encoder, ClassEncoder) else y.astype(jnp.promote_types(y.dtype, jnp.float32))

    def _whole_packs(self, x: Array, y: Any) -> tuple[Array, Any]:
        count = len(x) // self.discriminator.pack * self.discriminator.pack
        if not count:
            raise ArgumentError(
                f"pack={self.discriminator.pack}: a batch of {len(x)} fills no decision",
                remedy=f"use batch={self.discriminator.pack} or more",
            )
        return x[:count], None if y is None else y[:count]

    def _seen(self, judged: Verdict, loss: Scalar, charge: Scalar) -> dict[str, Array]:
        right = right_share(self.game, judged.real, judged.fake, self.real_target)
        levels = jnp.asarray(list(_QUANTILES.values()))
        seen = {"game_loss": loss, "penalty": charge, "gap": judged.real.mean() - judged.fake.mean()}
        for name, scores, share in (("real", judged.real, right[0]), ("fake", judged.fake, right[1])):
            seen |= {f"{name}_mean": scores.mean(), f"{name}_accuracy": share}
            marks = jnp.quantile(scores.astype(jnp.float32), levels)
            seen |= {f"{name}_{word}": mark for word, mark in zip(_QUANTILES, marks, strict=True)}
        return jax.lax.stop_gradient(seen)

    # ------------------------------------------------------------------ judging

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """The kernel distance of as many generated examples from these, and how the two sets lie in each other.

        Beside it stands the distance of every second example of the batch from the others: unbiased as it is, that it
        is one of fewer examples does not matter.
        """
        x = batch.x.astype(jnp.promote_types(batch.x.dtype, jnp.float32))
        drawn = self.from_networks(self.generator(self.noise(key, len(x), x.dtype), self.given(batch.y)))
        coverage, precision = coverage_and_precision(x, drawn)
        seen = {"coverage": coverage, "precision": precision}
        one, other = x[::2], x[1::2]
        if len(other) > 1:
            seen["distance_of_real"] = kernel_distance(one, other)
        return kernel_distance(x, drawn), seen

    def loss_unit(self) -> str:
        """What the game is judged by."""
        return "kernel distance"

    def loss_resolution(self) -> float:
        """About what the distance varies by between samples of a few hundred examples of one distribution."""
        return 2e-3

    def log_prob(self, x: Array) -> Array:
        """Raises: the model is implicit."""
        del x
        raise CapabilityError(
            "log_prob: this model is implicit, a function of noise whose density is not known",
            remedy="train a model with a density: chainrule train spline-flow (points, tables) or glow (images)\n"
            "or judge samples by distances from held-out data: chainrule score RUN",
        )

    # ------------------------------------------------------------------ examples

    def noise(self, key: Key, n: int, dtype: Any = jnp.float32) -> Float[Array, "n size"]:
        """Noise as examples are made of."""
        return BASES[self.config.base](key, (n, self.config.latent), dtype)

    def generate(self, z: Float[Array, "n size"], condition: Any = None) -> Array:
        """The example of each vector of noise, in model units; a condition has to be given where there are any."""
        z = jnp.asarray(z)
        if z.ndim != 2 or z.shape[1] != self.config.latent:
            raise ArgumentError(
                f"generate(z): noise of shape {z.shape}; this model makes an example of {self.config.latent} entries",
                remedy="draw it: model.noise(key, n), or give one row for each example",
            )
        y = None if self.generator.condition is None else self.conditions(condition, len(z))
        return _generated(self, z, y)

    def judge(self, x: Array, condition: Any = None) -> Float[Array, " n"]:
        """The score of each example; of each pack of them where decisions are about packs."""
        x = jnp.asarray(x)
        if x.shape[1:] != self.schema.shape:
            raise ArgumentError(
                f"judge(x): examples of shape {x.shape[1:]}; this model knows examples of shape {self.schema.shape}",
                remedy="the first axis runs over examples, in model units: run.data.test.batch(np.arange(8)).x",
            )
        y = None if self.generator.condition is None else self.conditions(condition, len(x))
        return _scores(self, x, y)

    @property
    def conditional(self) -> bool:
        """Whether examples are made given conditions."""
        return self.generator.condition is not None

    @property
    def needs_condition(self) -> bool:
        """Whether nothing can be drawn without naming a condition: classes can be drawn, values cannot."""
        return self.conditional and not isinstance(self.generator.condition, ClassEncoder)

    def conditions(self, condition: Any, n: int) -> Array:
        """The conditions of `n` examples: one class or value for all, or one for each."""
        encoder = self.generator.condition
        if encoder is None:
            raise ArgumentError(
                "condition (class=, y=): this model was trained without classes or values",
                remedy="train it with conditional=true, or leave the condition out",
            )
        if condition is None:
            raise ArgumentError(
                "condition (class=, y=): this model draws examples given a class or value",
                remedy="name one for all, or one for each: condition=...",
            )
        if isinstance(encoder, ClassEncoder):
            return class_numbers(self.schema, condition, n)
        return values(encoder, self.schema, condition, n)

    def _drawn_conditions(self, condition: Any, key: Key, n: int) -> Any:
        """The conditions asked for; where none is, classes as often as in the data."""
        if condition is not None or not isinstance(self.generator.condition, ClassEncoder):
            return condition if self.conditional or condition is None else self.conditions(condition, n)
        assert isinstance(self.config, GameConfig)
        shares = self.config.shares(len(self.schema.classes))
        return np.asarray(jax.random.choice(key, len(shares), (n,), p=jnp.asarray(shares, jnp.float32)))

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """A condition, how far out noise is drawn, and whether the discriminator has a say."""
        return [OptionGroup("options", "Options of this model.", DrawOptions)]

    def sample(self, key: Key, n: int, **options: Any) -> Array:
        """`n` examples from fresh noise; the options are `condition`, `temperature` and `reject`."""
        chosen = read_options(self.sample_options(), options)["options"]
        assert isinstance(chosen, DrawOptions)
        y = self._drawn_conditions(chosen.condition, random.named(key, "classes"), n)

        def draw(key: Key) -> Array:
            return self.generate(chosen.temperature * self.noise(random.named(key, "noise"), n), y)

        if not chosen.reject:
            return draw(key)
        return rejection.accepted(self, draw, lambda x: self.judge(x, y), key, n)

    def snapshot(self, key: Key) -> Array:
        """Examples of fixed noise, every class in turn where there are classes."""
        most = 512 if len(self.schema.shape) == 1 else 64
        n = max(8, min(most, _KEPT // self.schema.dimensions))
        return self.generate(self.noise(key, n), self.some_conditions(n))

    def some_conditions(self, n: int, repeat: int = 1) -> Array | None:
        """Conditions to show `n` times `repeat` examples by: classes in turn, the mean of values, no labels."""
        encoder = self.generator.condition
        if encoder is None:
            return None
        if isinstance(encoder, ClassEncoder):
            return jnp.repeat(jnp.arange(n) % len(self.schema.classes), repeat)
        return jnp.zeros((n * repeat, *encoder.shape))

    # ------------------------------------------------------------------ what is shown

    def alarms(self, history: Mapping[str, np.ndarray]) -> Sequence[Alarm]:
        """What has gone wrong."""
        return diagnostics.alarms(self.game, history, self.config)

    def curves(self, history: Mapping[str, np.ndarray]) -> Sequence[Picture]:
        """Scores of both kinds of examples, how often they are told apart, both players' gradients, coverage."""
        return diagnostics.curves(self.game, history, self.alarms_along(history))

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Scores over the plane with the ways generated points would go, modes, walks through the noise, slopes."""
        return pictures.all_of(self, data, key)


def _as_it_is(owned: Tree) -> Tree:
    return owned


def _scored(
    discriminator: Discriminator, x: Array, y: Any, slopes: bool
) -> tuple[Array, Array, Discriminator]:
    """Scores, slopes (nothing in their at unless asked for), and the discriminator moved on."""
    if slopes:
        return scores_and_slopes(discriminator, x, y)
    scores, moved = discriminator.advance(x, y)
    return scores, jnp.zeros(()), moved


@eqx.filter_jit
def _generated(model: AdversarialModel, z: Array, y: Any) -> Array:
    x = model.from_networks(model.generator(z, y))
    return jnp.clip(x, 0, 1) if model.generator.bounded else x


@eqx.filter_jit
def _scores(model: AdversarialModel, x: Array, y: Any) -> Array:
    return model.discriminator(model.to_networks(x), y)


__all__ = ["AdversarialModel", "Verdict"]

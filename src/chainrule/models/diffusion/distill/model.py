"""Distilled diffusion model: a student that draws in half the steps of its teacher."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.diffusion import samplers
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.models.diffusion.diffusion import Diffusion, DiffusionConfig
from chainrule.models.diffusion.distill.teaching import equal_steps, least_noise, lesson, weight
from chainrule.models.diffusion.process import Level, noised
from chainrule.models.diffusion.walk_options import walk_options
from chainrule.models.protocol import (
    Config,
    HasPictures,
    HasSampleCaption,
    HasScores,
    HasState,
    Metrics,
    Model,
    OptionGroup,
    Scored,
)

STEPS = 4
_SHOWN = 64


@final
class DistillConfig(Config):
    """Settings of the student, and of the model that teaches it."""

    student_steps: int = Field(
        STEPS,
        ge=1,
        le=1024,
        description="steps in which the student draws; its teacher takes twice as many. from=RUN of a student halves "
        "its steps",
    )
    frozen: bool = Field(
        False, description="the teacher stays as it is: what from=RUN chooses; otherwise both learn"
    )
    body: DiffusionConfig = Field(
        DiffusionConfig(), description="the teacher, a diffusion model; from=RUN takes that of the run"
    )


@final
class Distilled(HasState, HasSampleCaption, HasScores, HasPictures):
    """Learns to go in one step where its teacher goes in two.

    The student is kept as what it adds to every number of its teacher, zero at first: it begins as a copy of whatever
    model it comes to stand beside.
    """

    body: Diffusion
    """The teacher."""
    change: LearnedDenoiser
    config: DistillConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: DistillConfig, schema: Schema, key: Key) -> None:
        _check(config.body)
        self.config, self.schema = config, schema
        self.body = Diffusion(config.body, schema, key)
        self.change = jax.tree.map(
            lambda a: jnp.zeros_like(a) if eqx.is_inexact_array(a) else a, self.body.denoiser
        )

    @property
    def student(self) -> Diffusion:
        """The model that draws in few steps."""
        # By leaves: layers that are watched carry their names, which differ in the two trees.
        theirs, structure = jax.tree.flatten(self.body.denoiser)
        own = [
            jax.lax.stop_gradient(a) + b if eqx.is_inexact_array(a) else a
            for a, b in zip(theirs, jax.tree.leaves(self.change), strict=True)
        ]
        return eqx.tree_at(lambda model: model.denoiser, self.body, jax.tree.unflatten(structure, own))

    # ------------------------------------------------------------------ training

    def state(self) -> Sequence[Tree]:
        """The frozen teacher: nothing moves it."""
        return [self.body] if self.config.frozen else []

    def loss_unit(self) -> str:
        """That of the distance from the teacher."""
        return "weighted squared error"

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """How far the student is from where two steps of the teacher end, at all levels of its walk."""
        for_steps, for_noise, for_dropping, for_teacher = jax.random.split(key, 4)
        x0 = self.body.to_network_units(batch.x.astype(jnp.promote_types(batch.x.dtype, jnp.float32)))
        number = _spread(for_steps, len(x0), self.config.student_steps)
        with jax.ensure_compile_time_eval():
            fine = Level(
                *(jnp.asarray(p, x0.dtype) for p in equal_steps(self.body, 2 * self.config.student_steps))
            )
        here, between, there = (fine.at(2 * number + k) for k in range(3))
        x = noised(x0, jax.random.normal(for_noise, x0.shape, x0.dtype), here)
        condition = self.body.dropped(batch.y, for_dropping)
        teacher = jax.lax.stop_gradient(self.body.denoiser)
        wanted = jax.lax.stop_gradient(lesson(teacher, x, (here, between, there), condition))
        said = self.student.denoiser.value("x0", x, here, condition)
        error = jnp.square(said - wanted).reshape(len(x0), -1).mean(axis=1)
        loss = (weight(here) * error).mean()
        if self.config.frozen:
            return loss, {}, self
        taught, _ = self.body.loss(batch, for_teacher)
        return loss + taught, {"student": loss, "teacher": taught}, self

    # ------------------------------------------------------------------ samples

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """Those of diffusion; the steps are those of the student unless given."""
        walk = walk_options(Diffusion.default_sampler, STEPS, tuple(samplers.samplers))
        return [
            OptionGroup(group.name, group.summary, walk) if group.name == "walk" else group
            for group in Diffusion.sample_options()
        ]

    def sample(self, key: Key, n: int, **options: Any) -> Array:
        """`n` new examples by DDIM in as many steps as the student was taught; all options are those of diffusion."""
        return self.student.sample(key, n, **self._with_steps(options))

    def sample_caption(self, **options: Any) -> str:
        """As diffusion says it."""
        return self.student.sample_caption(**self._with_steps(options))

    def _with_steps(self, options: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in options.items() if value is not None}
        if "sampler" in given or "spacing" in given:
            return {"steps": self.config.student_steps, **given}
        steps = given.get("steps", self.config.student_steps)
        usual = {"steps": steps, "spacing": "uniform-t"}
        if "sigma_max" not in given and isinstance(steps, int) and steps > 1:
            usual["sigma_min"] = least_noise(self.body, steps)
        return {**usual, **given}

    # ------------------------------------------------------------------ judged and shown

    def drawn(self, key: Key, n: int, y: Any, *, teacher: bool) -> Array:
        """`n` samples in network units from noise that the key alone decides: of the student, or of its teacher.

        The student takes its steps, the teacher twice as many, both without guidance.
        """
        model = self.body if teacher else self.student
        with jax.ensure_compile_time_eval():
            levels = equal_steps(self.body, self.config.student_steps * (2 if teacher else 1))
        noise = jax.random.normal(key, (n, *self.schema.shape), jnp.float32)
        condition = None if model.denoiser.condition_encoder is None else y
        clip = "static" if model.unit else "none"
        return samplers.walk(
            model.denoiser, noise, levels, samplers.DDIM(), key, condition=condition, clip=clip
        ).samples

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """How far samples of the student lie from those of its teacher, which starts from the same noise."""
        pair = [self.drawn(key, len(batch.x), batch.y, teacher=teacher) for teacher in (False, True)]
        apart = jnp.square(pair[0] - pair[1]).reshape(len(batch.x), -1).mean(axis=1)
        return {"distance_from_teacher": Scored(jnp.sqrt(apart), "root mean square, units of the network")}

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Samples of the student beside those of its teacher, from the same noise."""
        part = data.val if len(data.val) else data.train
        batch = part.batch(np.arange(min(_SHOWN, len(part))))
        y = None if batch.y is None else jnp.asarray(batch.y)
        kind, found = kinds.of(self.schema), []
        for teacher in (False, True):
            drawn = self.drawn(key, len(batch.x), y, teacher=teacher)
            steps = self.config.student_steps * (2 if teacher else 1)
            who = f"The {'teacher' if teacher else 'student'} in {steps} step{'s' if steps > 1 else ''}"
            shown = kind.picture(self.schema, np.asarray(self.body.to_model_units(drawn)), title=who)
            found.append(replace(shown, name="teacher" if teacher else "student"))
        return found


def adopts(source: Model, known_as: str) -> dict[str, Any]:
    """The settings of a student of a trained model, or of one of a student in half its steps."""
    if isinstance(source, Distilled):
        half = max(1, source.config.student_steps // 2)
        return {"body": source.config.body.model_dump(), "frozen": True, "student_steps": half}
    if not isinstance(source, Diffusion):
        raise CapabilityError(
            f"distill teaches a student of a diffusion model, not of {known_as}",
            remedy="begin with a run of diffusion: chainrule train diffusion",
        )
    _check(source.config)
    return {"body": source.config.model_dump(), "frozen": True}


def teacher(source: Model) -> Model:
    """The model that teaches: of a student that teaches in turn, what it has become."""
    return source.student if isinstance(source, Distilled) else source


def _check(config: DiffusionConfig) -> None:
    if config.target == "eps":
        raise CapabilityError(
            "distill: a network that predicts eps says nothing of the data where there is only noise, and a student "
            "starts there with large steps",
            remedy="train the teacher with target=v, its default",
        )
    if config.variance == "learned":
        raise CapabilityError(
            "distill: steps of a student have no variance of their own",
            remedy="train the teacher with variance=fixed",
        )


def _spread(key: Key, count: int, steps: int) -> Array:
    """Numbers of steps, spread evenly over a batch, in an order that depends on the key."""
    even = (jax.random.uniform(key, ()) + jnp.arange(count) / count) % 1
    return jnp.minimum((even * steps).astype(jnp.int32), steps - 1)


__all__ = ["DistillConfig", "Distilled", "adopts", "teacher"]

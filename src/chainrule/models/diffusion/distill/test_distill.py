"""Step distillation: what is taught is exact, levels are nested, a student begins as its teacher and can teach."""

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import CapabilityError
from chainrule.data import Schema
from chainrule.models.diffusion import samplers
from chainrule.models.diffusion.denoisers.mixture import MixtureDenoiser
from chainrule.models.diffusion.diffusion import Diffusion
from chainrule.models.diffusion.distill import Distilled, equal_steps, lesson
from chainrule.models.diffusion.process import Level
from chainrule.models.protocol import parts_of
from chainrule.train.state import trainable

SCHEMA = Schema("points", (2,), target="class", classes=("a", "b"))
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def base() -> Diffusion:
    model = models.build("diffusion", SCHEMA, width=8, depth=1)
    assert isinstance(model, Diffusion)
    noise = np.random.default_rng(0)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    moved = jax.tree.map(lambda a: jnp.asarray(a + 0.2 * noise.normal(size=a.shape), a.dtype), arrays)
    return eqx.combine(moved, rest)


@pytest.fixture(scope="module")
def student(base: Diffusion) -> Distilled:
    model = models.begin("distill", base, SCHEMA, student_steps=4)
    assert isinstance(model, Distilled)
    return model


@pytest.mark.parametrize("there", [Level(0.9, np.sqrt(0.19)), Level(1.0, 0.0)])
def test_one_step_with_what_is_taught_ends_where_two_steps_of_an_exact_denoiser_do(there: Level) -> None:
    teacher = MixtureDenoiser([0.3, 0.7], [[-1.0, 0.5], [1.0, 0.0]], [0.1, 0.3])
    x = jax.random.normal(KEY, (16, 2))
    levels = Level(0.2, np.sqrt(0.96)), Level(0.6, 0.8), there
    found = lesson(teacher, x, levels)
    walked = Level(*(np.array(part) for part in zip(*levels, strict=True)))
    by_sampler = samplers.walk(teacher, x, walked, samplers.DDIM(), KEY).samples
    eps = (x - levels[0].a * found) / levels[0].s
    np.testing.assert_allclose(there.a * found + there.s * eps, by_sampler, atol=1e-6)


def test_a_student_of_one_gaussian_is_as_linear_as_its_teacher_and_reaches_it() -> None:
    """Two steps of the exact denoiser are a line, and so is the estimate with which one step does the same."""
    mean, variance = 0.5, 0.25
    levels = [(0.1, np.sqrt(0.99)), (0.5, np.sqrt(0.75)), (0.95, np.sqrt(1 - 0.95**2))]
    x = end = np.linspace(-3, 3, 7)
    for (a, s), (after, left) in itertools.pairwise(levels):
        clean = mean + a * variance / (a * a * variance + s * s) * (end - a * mean)
        end = after * clean + left * (end - a * clean) / s
    here, *_, there = levels
    line = np.polyfit(x, (end - there[1] / here[1] * x) / (there[0] - there[1] / here[1] * here[0]), 1)
    teacher = MixtureDenoiser([1.0], [[mean]], [variance])
    found = lesson(teacher, jnp.asarray(x[:, None], jnp.float32), tuple(Level(*one) for one in levels))  # type: ignore[arg-type]
    np.testing.assert_allclose(found[:, 0], np.polyval(line, x), atol=1e-5)


def test_levels_of_half_the_steps_are_every_second_one(base: Diffusion) -> None:
    for steps in (1, 4):
        few, many = equal_steps(base, steps), equal_steps(base, 2 * steps)
        np.testing.assert_allclose(few.a, many.a[::2], atol=1e-5)
        np.testing.assert_allclose(few.s, many.s[::2], atol=1e-5)


def test_a_student_begins_as_its_teacher_and_only_what_it_adds_learns(
    base: Diffusion, student: Distilled
) -> None:
    same = jax.tree.map(
        np.array_equal, *(eqx.filter(m.denoiser, eqx.is_array) for m in (student.student, base))
    )
    assert all(jax.tree.leaves(same))
    moving = trainable(student, parts_of(student))
    assert not any(jax.tree.leaves(moving.body))
    assert any(jax.tree.leaves(moving.change))


def test_a_student_teaches_in_turn_what_it_has_become(student: Distilled) -> None:
    learnt = eqx.tree_at(
        lambda m: m.change,
        student,
        jax.tree.map(lambda a: a + 0.1 if eqx.is_inexact_array(a) else a, student.change),
    )
    after = models.begin("distill", learnt, SCHEMA)
    assert isinstance(after, Distilled)
    assert after.config.student_steps == 2
    for mine, theirs in zip(
        *(
            jax.tree.leaves(eqx.filter(m, eqx.is_array))
            for m in (after.body.denoiser, learnt.student.denoiser)
        ),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)
    assert not any(
        np.asarray(a).any() for a in jax.tree.leaves(eqx.filter(after.change, eqx.is_inexact_array))
    )


def test_samples_take_the_steps_of_the_student_unless_told(student: Distilled) -> None:
    assert student.sample_caption(condition=0).startswith("ddim in 4 steps")
    assert student.sample_caption(condition=0, steps=2).startswith("ddim in 2 steps")
    drawn = student.sample(KEY, 3, condition=0, guidance=1.0)
    noise_led = student.student.sample(
        KEY, 3, condition=0, guidance=1.0, steps=4, sigma_min=float(equal_steps(student.body, 4).sigma[-2])
    )
    np.testing.assert_allclose(drawn, noise_led, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("diffusion", {"target": "eps"}, "train the teacher with target=v"),
        ("diffusion", {"variance": "learned"}, "train the teacher with variance=fixed"),
        ("mlp", {}, "diffusion model, not of mlp"),
    ],
)
def test_a_teacher_that_cannot_be_followed_is_refused(
    name: str, settings: dict[str, Any], message: str
) -> None:
    source = models.build(name, SCHEMA, width=8, depth=1, **settings)
    with pytest.raises(CapabilityError, match=message):
        models.begin("distill", source, SCHEMA)

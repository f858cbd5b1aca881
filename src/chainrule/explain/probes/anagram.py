"""Visual anagrams: images of one class as they stand and of another in another view, judged by a classifier."""

from typing import final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Images, Table
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.denoisers import is_image_diffusion
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasViews, Model
from chainrule.train import Run
from chainrule.train.generation.real_examples import real_examples

_SHOWN = 10


@final
class AnagramSettings(Settings):
    """The two things an image is to be."""

    first: str = Field("6", description="class as the image stands")
    second: str = Field("9", description="class in the other view")
    view: str = Field("rotate(180)", description="the other view")
    n: int = Field(100, ge=1, description="images")
    guidance: float = Field(2.0, ge=0, description="weight of guidance in each view")
    steps: int = Field(50, ge=1, description="steps of the sampler")
    seed: int = Field(0, ge=0, description="noise the images start from")


def examine(run: Run, data: Data, settings: AnagramSettings) -> Outcome:
    """Draw anagrams and let a classifier of the training examples judge them from both sides."""
    model = run.model
    assert isinstance(model, HasViews)
    drawn = model.sample(
        random.key(settings.seed, "probe"),
        settings.n,
        condition=settings.first,
        other=settings.second,
        view=settings.view,
        guidance=settings.guidance,
        steps=settings.steps,
    )
    turned = model.in_view(drawn, settings.view)
    judge = real_examples(data).judge
    names = (settings.first, settings.second)
    numbers = [int(model.conditions(name, 1)[0]) for name in names]
    said = [judge.probabilities(np.asarray(x, np.float64).reshape(settings.n, -1)) for x in (drawn, turned)]
    right = [p.argmax(axis=1) == number for p, number in zip(said, numbers, strict=True)]
    both = float((right[0] & right[1]).mean())
    best = np.argsort(-said[0][:, numbers[0]] * said[1][:, numbers[1]], kind="stable")[:_SHOWN]
    labels = [f"{names[i]}: {said[i][k, numbers[i]]:.1f}" for i in range(2) for k in best]
    sheet = np.clip(np.asarray(jnp.concatenate([drawn[best], turned[best]])), 0, 1)
    return Outcome(
        [
            f"{100 * both:.0f} % of {settings.n} images are {names[0]!r} as they stand and {names[1]!r} under "
            f"{settings.view}, says a classifier of the training examples ({100 * right[0].mean():.0f} % and "
            f"{100 * right[1].mean():.0f} % from one side).",
        ],
        [
            Images(
                "anagrams",
                f"{names[0]} above, {names[1]} below",
                sheet,
                labels,
                len(best),
                "The same images twice, with the probability of each class; the most convincing first.",
            )
        ],
        Table(
            "anagrams-table",
            "Share of images recognised",
            ["view", "class", "share"],
            [
                ["as it stands", names[0], float(right[0].mean())],
                [settings.view, names[1], float(right[1].mean())],
            ],
        ),
        {"both": both, "first": float(right[0].mean()), "second": float(right[1].mean())},
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasViews) and model.classes > 0 and is_image_diffusion(model, schema)


probe = Probe(
    "Visual anagrams: images that are one class as they stand and another turned.",
    "a diffusion model of images with classes",
    _applies,
    examine,
    AnagramSettings,
    toy={"n": 2, "steps": 2},
)

__all__ = ["AnagramSettings", "examine", "probe"]

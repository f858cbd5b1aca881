"""Options of sampling: a new sampler is one new file, and its options are read from it."""

import importlib.util
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Schema
from chainrule.models.diffusion import samplers
from chainrule.models.diffusion.diffusion import Diffusion
from chainrule.models.protocol import option_fields

KEY = jax.random.key(0)
POINTS = Schema("points", (2,), target="class", classes=("a", "b"))
FILE = '''"""Jumps: the estimate of the clean data at once."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from pydantic import Field

from chainrule.models.diffusion.samplers.sampler import NamedSampler


@final
@dataclass(frozen=True)
class Jump(NamedSampler):
    """To a share of the estimate, whatever the level."""

    name: ClassVar[str] = "jump"
    share: Annotated[float, Field(ge=0, le=1, description="of the estimate that is kept")] = 1.0

    @property
    def deterministic(self):
        return True

    def step(self, estimate, x, memory, span, key):
        guess = estimate(x, span.here).x0
        return self.share * guess, memory, guess
'''


def add_sampler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file above beside those of the package, for the length of a test."""
    (folder / "jump.py").write_text(FILE)
    monkeypatch.setattr(samplers, "__path__", [*samplers.__path__, str(folder)])
    monkeypatch.setattr(samplers.samplers, "_things", dict(samplers.samplers._things))
    samplers.discover()
    # For good: what a patch deletes comes back after the test, and the next one would find the module there.
    del sys.modules[f"{samplers.__name__}.jump"]


@pytest.fixture
def model() -> Diffusion:
    return models.build("diffusion", POINTS, width=8, depth=1)


def test_a_new_sampler_is_one_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Diffusion
) -> None:
    assert importlib.util.find_spec(f"{samplers.__name__}.jump") is None
    add_sampler(tmp_path, monkeypatch)
    assert option_fields(model.sample_options())["share"].default == 1.0
    assert np.array_equal(model.sample(KEY, 3, sampler="jump", share=0), np.zeros((3, 2)))
    assert model.sample(KEY, 3, sampler="jump", steps=2).any()
    with pytest.raises(ArgumentError, match="share=2: share must be at least 0 and at most 1"):
        model.sample(KEY, 3, sampler="jump", share=2)
    with pytest.raises(
        ArgumentError, match="sampler 'ddim' does not take share; it is an option of sampler=jump"
    ):
        model.sample(KEY, 3, share=0.5)


def test_every_option_is_described(model: Diffusion) -> None:
    for group in [*model.sample_options(), *models.entry("control").build.sample_options()]:
        for name, field in group.schema.model_fields.items():
            assert field.description, f"{group.name}: {name}"
            assert not field.is_required(), f"{group.name}: {name}"


def test_defaults_are_those_of_the_model() -> None:
    fields = option_fields(models.entry("score").build.sample_options())
    assert (fields["sampler"].default, fields["steps"].default) == ("langevin", 20)
    assert fields["moves"].default == 100

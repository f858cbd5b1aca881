"""Runs to report on: a trained one, and a model that can do everything at once."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, train
from chainrule.core.pictures import Bars, Picture
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import Batch, Data, Rows, Scaling, Schema
from chainrule.models.protocol import CanPredict, CanSample, HasPictures, Metrics
from chainrule.train import Run

PAYLOAD = "<script>alert(1)</script>\"&'<img src=x onerror=alert(1)>"


@final
class Everything(CanPredict, CanSample, HasPictures):
    """Predicts by nearest class mean, samples around the means, and has a picture of its own."""

    means: Array
    schema: Schema = eqx.field(static=True)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        distance = self._distances(batch.x)
        chosen = jnp.take_along_axis(distance, batch.y[:, None], axis=1)
        return chosen.mean(), {"mean_distance": distance.mean()}

    def predict(self, x: Array) -> Array:
        return jax.nn.softmax(-self._distances(x), axis=-1)

    def sample(self, key: Key, n: int, *, condition: Any = None) -> Array:
        which = jnp.zeros(n, dtype=int) if condition is None else jnp.asarray(condition)
        noise = 0.1 * jax.random.normal(key, (n, *self.schema.shape))
        return self.means[which].reshape(n, *self.schema.shape) + noise

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        norms = np.asarray(jnp.linalg.norm(self.means, axis=1))
        return [Bars("../norms", "Norms of the means", "class", "norm", self.schema.classes, {"norm": norms})]

    def _distances(self, x: Array) -> Array:
        flat = x.reshape(len(x), 1, -1)
        return jnp.square(flat - self.means[None]).mean(axis=-1)


def everything(schema: Schema) -> Everything:
    return Everything(jnp.full((len(schema.classes), schema.dimensions), 0.5), schema)


def hostile_data() -> Data:
    """Tiny images whose class names, file names and source try to leave their place on the page."""
    rng = np.random.default_rng(0)
    schema = Schema("image", (4, 4, 1), target="class", classes=(PAYLOAD, "$x_{", "a\nb\x00"), levels=17)

    def rows(n: int) -> Rows:
        y = np.arange(n) % 3
        x = rng.integers(0, 6, (n, 4, 4, 1)) + 5 * y[:, None, None, None]
        return Rows({"x": x.astype(np.uint8), "y": y.astype(np.int32)}, scaling)

    scaling = Scaling(0.0, 1 / 16)
    skipped = ((f"{PAYLOAD}.png", "truncated"),)
    return Data(PAYLOAD, schema, rows(60), rows(12), rows(12), scaling, None, "0" * 64, {}, skipped)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small finished run; copy it before changing it."""
    source = data.load("moons", n=200)
    model = models.build("mlp", source, width=8, depth=2)
    path = tmp_path_factory.mktemp("runs") / "moons-mlp-001"
    settings = {"steps": 30, "log_every": 5, "eval_every": 10, "save_every": 10, "batch": 32}
    return train.fit(model, source, run=path, **settings).path


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Callable[..., Run]:
    """The finished run under another status, as its files would say it."""

    def make(**status: Any) -> Run:
        path = tmp_path / "moons-mlp-001"
        shutil.copytree(trained, path)
        file = path / "status.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **status}))
        return Run.open(path)

    return make


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of a model that can do everything, on data with names that try to escape."""
    source = hostile_data()
    path = tmp_path_factory.mktemp("runs") / "<b>run & 'co'"
    settings = {"steps": 8, "log_every": 2, "eval_every": 4, "save_every": 4, "batch": 12}
    return train.fit(everything(source.schema), source, run=path, **settings)

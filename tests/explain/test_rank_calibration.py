"""The probe of ranks: an exact posterior passes, and one that is too sure does not."""

from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import Batch, Data, from_arrays
from chainrule.explain import probes
from chainrule.explain.probes import ranks
from chainrule.models.protocol import CanSample, Metrics
from chainrule.train import Run, fit


def simulated(n: int = 1500) -> Data:
    """Two parameters from a normal prior, and two numbers seen of them under noise."""
    draw = np.random.default_rng(0)
    theta = draw.normal(size=(n, 2))
    seen = theta @ np.array([[1.0, 1.0], [1.0, -0.5]]) + 0.5 * draw.normal(size=(n, 2))
    return from_arrays(theta, 3 * seen + 5, name="simulated", split=(0.45, 0.05, 0.5))


@final
class LinearPosterior(CanSample):
    """`N(x W, width² C)`: of normal parameters seen through a matrix this is the posterior, at a width of one."""

    weight: Array
    factor: Array
    width: float

    @classmethod
    def fitted(cls, data: Data, width: float) -> "LinearPosterior":
        theta, seen = (np.asarray(part, np.float64) for part in (data.train.x, data.train.y))
        weight = np.linalg.lstsq(seen, theta, rcond=None)[0]
        factor = np.linalg.cholesky(np.cov((theta - seen @ weight).T))
        return cls(jnp.asarray(weight, jnp.float32), jnp.asarray(factor, jnp.float32), width)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        del key
        return 0 * jnp.square(batch.x - batch.y @ self.weight).mean(), {}

    def sample(self, key: Key, n: int, *, condition: Any = None) -> Array:  # type: ignore[override]
        noise = jax.random.normal(key, (n, 2))
        return jnp.asarray(condition) @ self.weight + self.width * noise @ self.factor.T


def examined(width: float, folder: Path) -> Any:
    data = simulated()
    run = fit(LinearPosterior.fitted(data, width), data, run=folder / "exact", steps=1, batch=8)
    return ranks.examine(run, data, ranks.RanksSettings(n=700))


def test_an_exact_posterior_has_uniform_ranks_within_the_band(tmp_path: Path) -> None:
    found = examined(1.0, tmp_path)
    assert found.numbers["uniform"]
    assert found.numbers["concerns"] == {}
    (picture,) = found.pictures
    right, *entries = picture.series.values()
    inside = [(right[2] <= counts) & (counts <= right[3]) for _, counts in entries]
    assert len(inside) == 2
    assert np.mean(inside) > 0.9
    assert "calibrated as far as" in found.findings[0]


def test_a_posterior_that_is_too_sure_is_told_so(tmp_path: Path) -> None:
    found = examined(0.6, tmp_path)
    assert not found.numbers["uniform"]
    assert set(found.numbers["concerns"].values()) == {"too narrow"}
    assert found.findings[0].startswith("The draws are not calibrated")
    assert found.findings[1].endswith("are too narrow.")


def test_it_applies_to_conditional_models_of_rows_alone() -> None:
    data = simulated(60)
    asked = ranks.probe.applies
    assert asked(LinearPosterior.fitted(data, 1.0), data.schema)
    assert not asked(models.build("planar", data, layers=1), data.schema)


@pytest.mark.slow
def test_a_conditional_flow_finds_the_posterior_and_is_calibrated(tmp_path: Path) -> None:
    data = simulated(6000)
    runs: list[Run] = []
    for steps in (1, 600):
        model = models.build("maf", data, layers=2, width=16, blocks=1, conditional=True)
        runs.append(
            fit(model, data, run=tmp_path / str(steps), steps=steps, batch=128, optimizer={"lr": 3e-3})
        )
    early, late = (probes.examine("ranks", run, n=400) for run in runs)
    # Before training, draws are those of the prior whatever was seen, among which parameters rank evenly, too.
    assert early.numbers["uniform"]
    assert min(late.numbers["p_value"].values()) > 1e-3
    # Vectors as conditions, in the units of the data: the posterior of one observation.
    seen = np.array([8.0, 5.0])
    drawn = runs[1].sample(2000, condition=seen)
    a = np.array([[1.0, 1.0], [1.0, -0.5]])
    gain = np.linalg.solve(a.T @ a + 0.25 * np.eye(2), a.T)
    np.testing.assert_allclose(drawn.mean(axis=0), ((seen - 5) / 3) @ gain, atol=0.12)
    exact = np.eye(2) - a @ gain
    np.testing.assert_allclose(np.cov(drawn.T), exact, atol=0.07)

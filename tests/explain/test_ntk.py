"""The probe of the tangent kernel: its numbers by another route, its start, and what it does not apply to."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models
from chainrule.core.errors import CapabilityError
from chainrule.explain import probes
from chainrule.explain.probes import ntk
from chainrule.kernels.empirical import empirical_ntk
from chainrule.train import Run, fit

TRAINING = {"steps": 20, "batch": 16, "log_every": 20, "eval_every": 20, "save_every": 20}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    moons = data.load("moons")
    model = models.build("mlp", moons, width=8, depth=2, normalization="batch")
    return fit(model, moons, run=tmp_path_factory.mktemp("runs") / "moons", **TRAINING)


def test_its_numbers_are_those_of_the_kernel(run: Run) -> None:
    found = probes.examine("ntk", run, examples=7).numbers
    chosen = np.linspace(0, len(run.data.train) - 1, 7).round().astype(int)
    batch = run.data.train.batch(chosen)
    theta = np.asarray(empirical_ntk(run.model, None, jnp.asarray(batch.x), route="jacobian"), np.float64)
    values = np.linalg.eigvalsh(theta)[::-1]
    np.testing.assert_allclose(found["trained"]["eigenvalues"], values, rtol=1e-4, atol=1e-4 * values[0])
    shares = values / values.sum()
    assert found["trained"]["effective_rank"] == pytest.approx(
        np.exp(-(shares * np.log(np.maximum(shares, 1e-30))).sum()), rel=1e-3
    )
    assert sum(found["trained"]["shares"].values()) == pytest.approx(1)
    assert not any("norm.mean" in name for name in found["trained"]["shares"])
    same = np.asarray(batch.y)[:, None] == np.asarray(batch.y)[None, :]
    assert found["trained"]["alignment"] == pytest.approx(ntk.alignment(theta, same.astype(float)), rel=1e-3)


def test_drift_is_measured_from_the_weights_that_the_seed_draws(run: Run) -> None:
    outcome = probes.examine("ntk", run, examples=5)
    first, said = ntk.initial(run, run.data)
    assert first is not None
    assert said == ["The start is what the seed of the run (0) draws."]
    batch = run.data.train.batch(np.linspace(0, len(run.data.train) - 1, 5).round().astype(int))
    x = jnp.asarray(batch.x)
    before, now = (ntk.kernel(model, x).matrix for model in (first, run.model))
    assert outcome.numbers["drift"] == pytest.approx(np.linalg.norm(now - before) / np.linalg.norm(before))
    assert outcome.numbers["drift"] > 0
    assert {picture.name for picture in outcome.pictures} == {"ntk-spectrum", "ntk-by-label", "ntk-layers"}


def test_a_run_that_began_with_another_has_no_start_of_its_own(run: Run, tmp_path: Path) -> None:
    model = models.begin("mlp", run.model, run.data)
    later = fit(model, run.data, run=tmp_path / "later", origin=run.origin, **TRAINING)
    first, said = ntk.initial(later, later.data)
    if 0 in later.checkpoints:
        assert first is not None
    else:
        assert first is None
        assert said == ["How it began is not compared: the run began with another one."]


def test_a_start_at_which_no_output_moves_is_said_to_be_one(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, computed = ntk.initial(run, run.data)[0], ntk.kernel

    def kernel(model: object, x: jax.Array, memory: str | None = None) -> ntk.TangentKernel:
        found = computed(run.model, x, memory)
        return found._replace(matrix=1e-14 * found.matrix) if model is first else found

    monkeypatch.setattr(ntk, "initial", lambda run, data: (first, []))
    monkeypatch.setattr(ntk, "kernel", kernel)
    outcome = probes.examine("ntk", run, examples=5)
    assert "drift" not in outcome.numbers
    assert outcome.findings[-1].startswith("At the start nothing that gradients train moved an output")


def test_values_have_an_alignment_too(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    rows = noise.normal(size=(40, 3))
    table = data.from_arrays(rows.astype(np.float32), rows.sum(axis=1).astype(np.float32))
    trained = fit(models.build("mlp", table, width=4, depth=2), table, run=tmp_path / "values", **TRAINING)
    assert 0 < probes.examine("ntk", trained, examples=12).numbers["trained"]["alignment"] <= 1


@pytest.mark.slow
def test_a_process_by_inducing_inputs_has_the_kernel_of_its_mean(tmp_path: Path) -> None:
    wave = data.load("wave", n=60)
    process = models.build("gp", wave, method="sparse", inducing=8)
    trained = fit(process, wave, run=tmp_path / "wave", **TRAINING)
    outcome = probes.examine("ntk", trained, examples=9)
    assert sum(outcome.numbers["trained"]["shares"].values()) == pytest.approx(1)
    assert outcome.numbers["trained"]["eigenvalues"][0] > 0


def test_models_without_logits_are_refused(tmp_path: Path) -> None:
    moons = data.load("moons")
    model = models.build("ppca", moons)
    trained = fit(model, moons, run=tmp_path / "ppca")
    with pytest.raises(CapabilityError, match=r"ntk does not apply .* follows a gradient"):
        probes.examine("ntk", trained)

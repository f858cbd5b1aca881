"""How far gradients reach in recurrent layers, and what their gates do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, nn, report
from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Table
from chainrule.explain import experiments, probes
from chainrule.explain.methods import gradient_reach
from chainrule.train import Run, fit


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    text = data.load("shakespeare", window=10)
    model = models.build("char-rnn", text, cell="lstm", depth=2, width=6, embedding=4)
    return fit(model, text, run=tmp_path_factory.mktemp("runs") / "text", steps=2, batch=4)


def test_lag_products_are_the_derivatives_of_the_last_states_by_earlier_ones() -> None:
    layer = nn.LSTM(3, 4, key=jax.random.key(0))
    x = jnp.asarray(np.random.default_rng(0).normal(size=(1, 4, 3)), jnp.float32)
    found = gradient_reach.lag_norms(gradient_reach.step_jacobians(layer, x))[0]
    states = [layer.initial((1,))]
    for t in range(4):
        states.append(layer.step(x[:, t], states[-1]))
    for back in (1, 2, 4):
        last = lambda h, c, back=back: layer(x[:, 4 - back :], (h, c))[1]  # noqa: E731
        slope = jax.jit(jax.jacobian(last, argnums=(0, 1)))(*states[4 - back])
        whole = np.block([[np.asarray(block)[0, :, 0] for block in row] for row in slope])
        assert found[back - 1] == pytest.approx(np.linalg.norm(whole, ord=2), rel=1e-4)


@pytest.mark.parametrize("seeds", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_gradients_vanish_in_plain_networks_but_not_in_orthogonal_or_gated_ones(seeds: int) -> None:
    numbers = experiments.run("vanishing-gradients", seeds=seeds).numbers
    assert numbers["plain"]["largest"] < 1e-9
    assert numbers["orthogonal"]["smallest"] > 1e-3
    assert numbers["LSTM"]["smallest"] > 1e-4


@pytest.mark.parametrize("name", ["gradient-lag", "gates"])
def test_recurrent_layers_are_seen_one_by_one(run: Run, name: str) -> None:
    outcome = probes.examine(name, run)
    assert name in probes.applicable(run)
    assert any("layer 2" in label for label in outcome.numbers)
    for picture in outcome.pictures:
        if not isinstance(picture, Table):
            assert report.draw(picture).startswith("<svg")


def test_an_open_forget_gate_is_seen(run: Run) -> None:
    numbers = probes.examine("gates", run, passages=2).numbers
    assert len(numbers) == 8
    # Before any training to speak of, the forget gate has a bias of 1 and the others have none.
    assert numbers["layer 2, forget"]["mean"] == pytest.approx(1 / (1 + np.exp(-1)), abs=0.1)
    assert numbers["layer 2, output"]["mean"] == pytest.approx(0.5, abs=0.1)


def test_models_without_recurrent_layers_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    moons = data.load("moons", n=60)
    other = fit(
        models.build("mlp", moons, width=4),
        moons,
        run=tmp_path_factory.mktemp("runs") / "moons",
        steps=1,
        batch=4,
    )
    with pytest.raises(CapabilityError, match="a model with recurrent layers"):
        probes.examine("gates", other)

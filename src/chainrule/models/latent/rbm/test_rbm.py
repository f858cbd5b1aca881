"""The restricted Boltzmann machine as a model: gradient, chains, likelihoods, samples, refusals."""

import itertools
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Batch, Data, Rows, Scaling, Schema
from chainrule.models.latent.rbm import RBM, CountedGaussianRBM, CountedRBM, EstimatedRBM
from chainrule.models.protocol import HasLogProb
from chainrule.train import fit, resume

BITS = Schema("table", (6,), levels=2)
V = np.array(list(itertools.product((0.0, 1.0), repeat=6)), np.float32)
KEY = jax.random.key(0)


def built(schema: Schema = BITS, **settings: object) -> RBM:
    model = cr.models.build("rbm", schema, **{"hidden": 4, **settings})
    assert isinstance(model, RBM)
    return model


def strong(model: RBM, seed: int = 1) -> RBM:
    """The same model with couplings that matter."""
    noise = np.random.default_rng(seed)
    weights = jnp.asarray(noise.normal(size=model.machine.weights.shape), jnp.float32)
    return eqx.tree_at(lambda m: m.machine.weights, model, weights)


def toy_data(n: int = 2000) -> tuple[Data, np.ndarray]:
    """Draws of a known machine of 6 x 4 units, and its probabilities of all 64 states."""
    noise = np.random.default_rng(3)
    w, b, c = 1.5 * noise.normal(size=(6, 4)), noise.normal(size=6), noise.normal(size=4)
    h = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
    p = np.exp((V @ b)[:, None] + (h @ c)[None, :] + V @ w @ h.T).sum(axis=1)
    p /= p.sum()
    x = V[noise.choice(64, n, p=p)]
    splits = [Rows({"x": part}) for part in (x[: n - 400], x[n - 400 : n - 200], x[n - 200 :])]
    return Data("toy", BITS, *splits, Scaling(), None, "toy", {}), p


def test_what_can_be_computed_decides_what_it_is() -> None:
    assert isinstance(built(), CountedRBM)
    assert isinstance(built(hidden=50), CountedRBM)  # six visible units can be enumerated
    assert isinstance(built(Schema("image", (8, 8, 1), levels=2), hidden=21), EstimatedRBM)
    assert isinstance(built(Schema("points", (2,))), CountedGaussianRBM)
    many = built(Schema("points", (2,)), hidden=21)
    assert isinstance(many, EstimatedRBM)
    assert not isinstance(many, HasLogProb)
    with pytest.raises(CapabilityError, match="rbm with visible=bernoulli models zeros and ones"):
        built(Schema("image", (8, 8, 1), levels=17), visible="bernoulli")


def test_probabilities_sum_to_one() -> None:
    found = eqx.filter_jit(lambda m, x: m.log_prob(x))(strong(built()), jnp.asarray(V))
    assert float(np.exp(np.asarray(found)).sum()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("persistent", [True, False])
def test_the_gradient_is_data_minus_chain_statistics(persistent: bool) -> None:
    """On average over many chains, that of the states reached after k sweeps; by matrices over all states."""
    k, machine = 2, strong(built(persistent=persistent, k=2, chains=5000)).machine
    model = eqx.tree_at(lambda m: m.machine, built(persistent=persistent, k=k, chains=5000), machine)
    data = np.tile(V[[3, 17, 40, 63]], (2000, 1))
    batch = Batch(jnp.asarray(data))
    slope = eqx.filter_jit(eqx.filter_grad(lambda m: m.loss(batch, KEY)[0]))(model).machine
    h = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
    w = np.asarray(machine.weights, np.float64)
    p = np.exp(V @ w @ h.T)
    up, down = p / p.sum(axis=1, keepdims=True), (p / p.sum(axis=0, keepdims=True)).T
    if persistent:
        reached = np.full(16, 1 / 16) @ down
        reached = reached @ up @ down
    else:
        reached = (
            np.bincount((data @ 2 ** np.arange(5, -1, -1)).astype(int), minlength=64)
            / len(data)
            @ up
            @ down
            @ up
            @ down
        )
    on = p @ h / p.sum(axis=1, keepdims=True)
    seen = 1 / (1 + np.exp(-(data @ w)))
    expected = np.einsum("s,si,sj->ij", reached, V, on) - data.T @ seen / len(data)
    np.testing.assert_allclose(slope.weights, expected, atol=5 * 0.5 / np.sqrt(5000))


def test_persistent_chains_come_close_to_the_maximum_likelihood_of_a_known_target(tmp_path: Path) -> None:
    data, p = toy_data()
    model = built(chains=100, k=2)
    run = fit(
        model,
        data,
        run=tmp_path / "pcd",
        steps=1200,
        batch=200,
        ema=0.99,
        eval_every=1200,
        save_every=1200,
        log_every=600,
        optimizer={"name": "adam", "lr": 2e-2},
        schedule={"name": "linear"},
    )
    entropy = -(p * np.log(p)).sum()
    found = np.asarray(eqx.filter_jit(lambda m, x: m.log_prob(x))(run.model, jnp.asarray(V)), np.float64)
    divergence = (p * (np.log(p) - found)).sum()  # of the target from the model
    before = 6 * np.log(2) - entropy
    assert before > 0.5
    assert divergence < 0.05
    scores = run.score("val")
    assert scores["nll"].kind == "exact"
    assert abs(scores["free_energy_gap"].value) < 0.3


def test_resuming_carries_the_chains_on_bit_for_bit(tmp_path: Path) -> None:
    data, _ = toy_data(600)
    settings = {
        "batch": 50,
        "ema": 0.9,
        "eval_every": 10,
        "save_every": 10,
        "log_every": 10,
        "schedule": {"name": "constant"},
    }
    whole = fit(built(chains=7), data, run=tmp_path / "whole", steps=20, **settings)
    fit(built(chains=7), data, run=tmp_path / "halves", steps=10, **settings)
    first = resume(tmp_path / "halves", data=data, steps=20)
    for one, other in zip(
        jax.tree.leaves(eqx.filter(whole.model, eqx.is_array)),
        jax.tree.leaves(eqx.filter(first.model, eqx.is_array)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(whole.model.particles, built(chains=7).particles)


def test_the_estimate_agrees_with_the_exact_normalisation() -> None:
    model = strong(built())
    exact = float(model.machine.log_partition())
    assert model.log_partition(KEY) == (pytest.approx(exact), 0.0, "", 1.0)
    large = strong(built(Schema("image", (5, 5, 1), levels=2), hidden=21), 2)
    large = eqx.tree_at(lambda m: m.machine.weights, large, large.machine.weights.at[:, 12:].set(0.0))
    found = large.log_partition(KEY)
    # Nine hidden units without couplings double Z each; the other twelve can be enumerated.
    small = eqx.tree_at(
        lambda m: (m.weights, m.hidden_bias),
        large.machine,
        (large.machine.weights[:, :12], large.machine.hidden_bias[:12]),
    )
    assert abs(found.value - float(small.log_partition()) - 9 * np.log(2)) < 4 * found.standard_error + 1e-3
    assert found.method == "AIS"


def test_densities_of_numbers_are_in_the_units_of_the_model() -> None:
    """Grey levels are moved to [-1, 1] for the machine: an integral over [0, 1] of a narrow density is one."""
    model = strong(built(Schema("image", (1, 1, 1), levels=17), hidden=3, sigma=0.05))
    x = np.linspace(-3, 4, 20_001, dtype=np.float32)[:, None, None, None]
    density = np.exp(
        np.asarray(eqx.filter_jit(lambda m, x: m.log_prob(x))(model, jnp.asarray(x)), np.float64)
    )
    assert density.sum() * (x[1, 0, 0, 0] - x[0, 0, 0, 0]) == pytest.approx(1, abs=1e-3)
    drawn = np.asarray(model.sample(KEY, 5000, sweeps=20, entries="drawn"))[:, 0, 0, 0]
    mean = (density * x[:, 0, 0, 0]).sum() / density.sum()
    assert drawn.mean() == pytest.approx(mean, abs=5 * drawn.std() / np.sqrt(5000) + 1e-3)


def test_samples_are_as_frequent_as_they_are_likely_wherever_chains_begin() -> None:
    model = strong(built(chains=50))
    share = np.exp(np.asarray(eqx.filter_jit(lambda m, x: m.log_prob(x))(model, jnp.asarray(V))))
    for options in ({"chains": "fresh"}, {"chains": "training"}, {"start": V[:1]}):
        drawn = np.asarray(model.sample(KEY, 4000, sweeps=200, **options))
        found = np.bincount((drawn @ 2 ** np.arange(5, -1, -1)).astype(int), minlength=64) / 4000
        assert np.abs(found - share).sum() < 0.2
    near = np.asarray(model.sample(KEY, 300, sweeps=1, start=V[40], temperature=0.02))
    assert len(np.unique(near, axis=0)) < 4


def test_options_that_cannot_be_followed_are_named() -> None:
    model = built(persistent=False)
    with pytest.raises(CapabilityError, match="trained with persistent=false"):
        model.sample(KEY, 2, chains="training")
    with pytest.raises(ArgumentError, match=r"start: shape \(3, 5\); the data have shape \(6,\)"):
        model.sample(KEY, 4, start=np.zeros((3, 5)))
    with pytest.raises(ArgumentError, match="sweeps must be at least 1"):
        model.sample(KEY, 2, sweeps=0)


def test_sparsity_draws_activities_to_what_is_asked_for() -> None:
    batch = Batch(jnp.asarray(V))
    plain, drawn = built(persistent=False), built(persistent=False, sparsity=100.0)
    slope = eqx.filter_jit(eqx.filter_grad(lambda m: m.loss(batch, KEY)[0]))
    difference = np.asarray(slope(drawn).machine.hidden_bias) - np.asarray(slope(plain).machine.hidden_bias)
    assert (difference > 1).all()  # units that are one half of the time become rarer


def test_a_fixed_spread_is_not_learned_and_a_learned_one_is() -> None:
    batch = Batch(jnp.asarray(np.random.default_rng(0).normal(size=(20, 2)), jnp.float32))
    slope = eqx.filter_jit(eqx.filter_grad(lambda m: m.loss(batch, KEY)[0]))
    assert not np.asarray(slope(built(Schema("points", (2,)), scale="fixed")).machine.log_scale).any()
    assert np.asarray(slope(built(Schema("points", (2,)))).machine.log_scale).all()

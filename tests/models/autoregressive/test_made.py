"""MADE: masks, conditionals of every kind, and the flow it is."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import CapabilityError
from chainrule.data import Schema
from chainrule.models.autoregressive.made import MaskedNetwork
from chainrule.models.autoregressive.vectors import VectorModel
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.base_distributions import StandardNormal
from chainrule.probability.distributions.outputs import GaussianMixtureOutput, LevelsOutput


def gaussian(entries: int = 5, components: int = 1, order: str = "random") -> VectorModel:
    noise = np.random.default_rng(0)
    model = cr.models.build("made", Schema("table", (entries,)), width=24, components=components, order=order)
    assert isinstance(model, VectorModel)
    return jax.tree.map(
        lambda leaf: (
            jnp.asarray(np.asarray(leaf) + 0.3 * noise.normal(size=leaf.shape))
            if eqx.is_inexact_array(leaf)
            else leaf
        ),
        model,
    )


@pytest.mark.parametrize("entries", [1, 2, 7])
def test_the_product_of_the_masks_is_strictly_triangular(entries: int) -> None:
    network = MaskedNetwork(entries, 11, 3, LevelsOutput(3), jax.random.key(0))
    product = np.eye(entries)
    for mask in network.masks():
        product = product @ np.asarray(mask, float)
    product = product.reshape(entries, entries, 3)  # input, output, parameter
    for parameter in range(3):
        seen = product[:, :, parameter] > 0
        assert np.array_equal(seen, np.triu(np.ones((entries, entries), bool), 1))


def test_its_density_is_that_of_its_flow() -> None:
    model = gaussian()
    flow = model.as_flow()
    x = jnp.asarray(np.random.default_rng(1).normal(size=(6, 5)))

    @eqx.filter_jit
    def both(model: VectorModel, flow: Bijection) -> tuple[jax.Array, ...]:
        u, log_det = flow.inverse(x)
        jacobians = jax.vmap(jax.jacfwd(lambda row: flow.inverse(row[None]).value[0]))(x)
        return model.log_prob(x), StandardNormal((5,)).log_prob(u) + log_det, u, log_det, jacobians

    own, flows, u, log_det, jacobians = (np.asarray(part) for part in both(model, flow))
    assert np.allclose(own, flows, atol=1e-12)
    assert np.allclose(np.linalg.slogdet(jacobians)[1], log_det, atol=1e-10)
    order = np.asarray(model.orders[0])
    in_order = jacobians[:, order][:, :, order]
    assert (np.triu(in_order, 1) == 0).all()
    back, there = eqx.filter_jit(flow.forward)(jnp.asarray(u))
    assert np.allclose(back, x, atol=1e-10)
    assert np.allclose(there, -log_det, atol=1e-10)


def test_samples_of_the_flow_are_samples_of_the_model() -> None:
    model = gaussian()
    ours = np.asarray(eqx.filter_jit(lambda one, key: one.sample(key, 4000))(model, jax.random.key(0)))
    noise = jnp.asarray(np.random.default_rng(1).normal(size=(4000, 5)))
    flows = np.asarray(eqx.filter_jit(lambda one: one.forward(noise).value)(model.as_flow()))
    error = np.sqrt(ours.var(axis=0) / 4000 + flows.var(axis=0) / 4000)
    assert (np.abs(ours.mean(axis=0) - flows.mean(axis=0)) < 5 * error).all()


def test_only_single_gaussians_are_a_flow() -> None:
    with pytest.raises(CapabilityError, match="only a Gaussian for each entry"):
        gaussian(components=2).as_flow()
    binary = cr.models.build("made", Schema("table", (3,), levels=2), width=4, ensemble=2)
    assert isinstance(binary, VectorModel)
    with pytest.raises(CapabilityError, match="an ensemble of 2 orders"):
        binary.as_flow()


def test_a_mixture_integrates_to_one() -> None:
    x = np.linspace(-40, 40, 4001)
    parameters = np.random.default_rng(0).normal(size=(4, 1, 9))
    each = eqx.filter_jit(GaussianMixtureOutput(3).log_prob)(
        jnp.asarray(np.broadcast_to(parameters, (4, 4001, 9))),
        jnp.asarray(np.broadcast_to(x[None], (4, 4001))),
    )
    assert np.allclose(np.exp(np.asarray(each)).sum(axis=1) * (x[1] - x[0]), 1, atol=1e-10)


def test_levels_are_scored_as_probabilities() -> None:
    data = cr.data.load("digits")
    model = cr.models.build("made", data, width=8, depth=1)
    assert isinstance(model, VectorModel)
    assert isinstance(model.members[0].output, LevelsOutput)
    levels = jnp.asarray(np.linspace(0, 1, 17))
    parameters = jnp.asarray(np.random.default_rng(0).normal(size=17))
    each = jax.jit(LevelsOutput(17).log_prob)(jnp.broadcast_to(parameters[None], (17, 17)), levels)
    assert np.isclose(np.exp(np.asarray(each)).sum() / 16, 1)
    # A model that knows nothing needs log2(17) bits for each pixel, whatever the units of the data.
    blank = jax.tree.map(
        lambda leaf: jnp.asarray(np.zeros_like(leaf)) if eqx.is_inexact_array(leaf) else leaf, model
    )
    bits = data.bits_per_dim(eqx.filter_jit(blank.log_prob)(jnp.asarray(data.val.x[:4])))
    assert np.allclose(bits, np.log2(17), atol=1e-6)


def test_draws_of_every_law_have_its_mean() -> None:
    rng = np.random.default_rng(0)
    for output in (LevelsOutput(5), GaussianMixtureOutput(3)):
        parameters = jnp.asarray(rng.normal(size=output.parameter_count))
        many = jnp.broadcast_to(parameters[None], (20_000, output.parameter_count))
        drawn = np.asarray(eqx.filter_jit(output.sample)(many, jax.random.key(0)))
        assert abs(drawn.mean() - float(output.mean(parameters))) < 5 * drawn.std() / np.sqrt(20_000)


@pytest.mark.parametrize(
    ("conditionals", "levels", "message"),
    [
        ("categorical", 0, "are continuous and have no levels"),
        ("mixture", 17, "has no upper limit"),
        ("bernoulli", 17, "models zeros and ones"),
    ],
)
def test_conditionals_that_do_not_fit_the_data_are_refused(
    conditionals: str, levels: int, message: str
) -> None:
    with pytest.raises(CapabilityError, match=message):
        cr.models.build("made", Schema("table", (3,), levels=levels), conditionals=conditionals)

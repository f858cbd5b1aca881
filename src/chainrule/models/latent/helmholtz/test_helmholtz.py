"""The Helmholtz machine against sums over all codes: likelihood, bound, and the gradients of both of its phases."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array
from chainrule.data import Batch, Schema
from chainrule.models.latent.helmholtz import CountedHelmholtz, Helmholtz, SampledHelmholtz
from chainrule.models.latent.helmholtz.networks import GenerativeNetwork, RecognitionNetwork
from chainrule.models.protocol import parts_of

BITS = Schema("table", (4,), levels=2)
X = np.array(list(itertools.product((0.0, 1.0), repeat=4)), np.float32)
CODES = np.array(list(itertools.product((0.0, 1.0), repeat=5)), np.float32)
Z = (jnp.asarray(CODES[:, :3]), jnp.asarray(CODES[:, 3:]))
SEEN = X[[3, 6, 13]]
KEY = jax.random.key(0)


def machine(method: str = "wake-sleep", k: int = 10) -> CountedHelmholtz:
    """Layers of 3 and 2 units over 4 bits, with weights that matter."""
    model = models.build("helmholtz", BITS, layers=(3, 2), method=method, k=k)
    noise = np.random.default_rng(2)
    moved = jax.tree.map(
        lambda leaf: jnp.asarray(noise.normal(size=leaf.shape), jnp.float32) if eqx.is_array(leaf) else leaf,
        model,
    )
    assert isinstance(moved, CountedHelmholtz)
    return moved


def log_joint(generative: GenerativeNetwork, x: np.ndarray) -> Array:
    """log p(x, z) of every example and every code."""
    return jnp.stack([generative.log_joint(jnp.tile(row, (32, 1)), Z) for row in jnp.asarray(x)])


def log_guide(recognition: RecognitionNetwork, x: np.ndarray) -> Array:
    """log q(z|x) of the same."""
    return jnp.stack([recognition.log_prob(jnp.tile(row, (32, 1)), Z) for row in jnp.asarray(x)])


@eqx.filter_jit
def tables(model: Helmholtz, x: np.ndarray) -> tuple[Array, Array]:
    return log_joint(model.generative, x), log_guide(model.recognition, x)


def slopes(model: Helmholtz, number: int, batch: Batch) -> list[np.ndarray]:
    """The gradient of a part in what it owns."""
    part = parts_of(model)[number]

    @eqx.filter_jit
    def found(owned: object, batch: Batch) -> object:
        return eqx.filter_grad(lambda own: part.loss(eqx.tree_at(part.where, model, own), batch, KEY)[0])(
            owned
        )

    return [np.asarray(leaf) for leaf in jax.tree.leaves(found(part.where(model), batch))]


def close(found: list[np.ndarray], expected: object, draws: int) -> None:
    for one, other in zip(found, jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=6 / np.sqrt(draws))


def test_the_likelihood_is_the_sum_over_all_codes_and_its_probabilities_sum_to_one() -> None:
    model = machine()
    joint = np.asarray(tables(model, X)[0], np.float64)
    found = np.asarray(eqx.filter_jit(lambda m, x: m.log_prob(x))(model, jnp.asarray(X)))
    np.testing.assert_allclose(found, np.log(np.exp(joint).sum(axis=1)), atol=1e-5)
    assert np.exp(found).sum() == pytest.approx(1, abs=1e-5)


def test_guides_are_distributions_and_the_bound_is_that_of_all_codes() -> None:
    model = machine()
    joint, guide = (np.asarray(table, np.float64) for table in tables(model, SEEN))
    np.testing.assert_allclose(np.exp(guide).sum(axis=1), 1, atol=1e-5)
    expected = (np.exp(guide) * (joint - guide)).sum(axis=1)
    found = np.asarray(
        eqx.filter_jit(lambda m, x: m.elbo(x, KEY))(model, jnp.asarray(np.repeat(SEEN, 20_000, axis=0)))
    ).reshape(3, -1)
    assert (np.abs(found.mean(axis=1) - expected) < 5 * found.std(axis=1) / np.sqrt(20_000)).all()
    assert (expected < np.log(np.exp(joint).sum(axis=1))).all()


def test_the_gradient_of_wake_is_that_of_the_joint_under_the_guide() -> None:
    model, draws = machine(), 30_000
    share = np.exp(np.asarray(tables(model, SEEN)[1]))

    def exact(generative: GenerativeNetwork) -> Array:
        return -(share * log_joint(generative, SEEN)).sum(axis=1).mean()

    expected = eqx.filter_jit(eqx.filter_grad(exact))(model.generative)
    close(slopes(model, 0, Batch(jnp.asarray(np.tile(SEEN, (draws // 3, 1))))), expected, draws)


def test_the_gradient_of_sleep_is_that_of_the_guide_on_dreams_and_not_that_of_the_bound() -> None:
    model, draws = machine(), 30_000
    share = np.exp(np.asarray(tables(model, X)[0]))  # of all examples and codes that can be dreamt

    def exact(recognition: RecognitionNetwork) -> Array:
        return -(share * log_guide(recognition, X)).sum()

    def bound(recognition: RecognitionNetwork) -> Array:
        guide = log_guide(recognition, X)
        return -(share.sum(axis=1)[:, None] * jnp.exp(guide) * (np.log(share) - guide)).sum()

    expected = eqx.filter_jit(eqx.filter_grad(exact))(model.recognition)
    found = slopes(model, 1, Batch(jnp.zeros((draws, 4))))
    close(found, expected, draws)
    other = jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(bound))(model.recognition))
    assert max(float(np.abs(a - b).max()) for a, b in zip(found, other, strict=True)) > 0.1


def test_reweighted_with_many_codes_follows_the_likelihood_and_the_posterior() -> None:
    joint = np.asarray(tables(machine(), SEEN)[0], np.float64)
    posterior = jnp.asarray(np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True), jnp.float32)

    def likelihood(generative: GenerativeNetwork) -> Array:
        return -jax.nn.logsumexp(log_joint(generative, SEEN), axis=1).mean()

    def cross_entropy(recognition: RecognitionNetwork) -> Array:
        return -(posterior * log_guide(recognition, SEEN)).sum(axis=1).mean()

    exact = (
        eqx.filter_jit(eqx.filter_grad(likelihood))(machine().generative),
        eqx.filter_jit(eqx.filter_grad(cross_entropy))(machine().recognition),
    )
    off = []
    for k in (1, 10_000):
        model = machine("reweighted", k)
        copies = 20_000 // k
        batch = Batch(jnp.asarray(np.tile(SEEN, (copies, 1))))
        found = [slopes(model, number, batch) for number in (0, 1)]
        off.append(
            [
                max(float(np.abs(a - b).max()) for a, b in zip(one, jax.tree.leaves(other), strict=True))
                for one, other in zip(found, exact, strict=True)
            ]
        )
    assert max(off[1]) < 0.05
    assert min(off[0]) > 2 * max(off[1])


def test_rates_of_the_units_add_up_and_information_is_what_it_says() -> None:
    model = machine()
    batch = Batch(jnp.asarray(np.tile(SEEN, (600, 1))))
    use = eqx.filter_jit(lambda m, b: m.latent_use(b, KEY))(model, batch)
    guide = np.exp(np.asarray(tables(model, SEEN)[1], np.float64))
    marginal = guide.mean(axis=0)
    information = (guide * np.log(guide / marginal)).sum(axis=1).mean()
    assert float(use.information) == pytest.approx(information, abs=0.1)
    first = np.stack([(guide * CODES[:, i]).sum(axis=1).mean() for i in range(5)])
    apart = (marginal * (CODES @ np.log(first) + (1 - CODES) @ np.log1p(-first))).sum()
    assert float(use.total_correlation) == pytest.approx((marginal * np.log(marginal)).sum() - apart, abs=0.1)
    joint = np.asarray(tables(model, SEEN)[0], np.float64)
    entries = np.asarray(model.generative.logits(Z)[0], np.float64)
    given = SEEN @ entries.T - np.logaddexp(0, entries).sum(axis=1)[None]
    rate = (guide * (np.log(guide) - (joint - given))).sum(axis=1).mean()
    assert float(use.divergence.sum()) == pytest.approx(rate, abs=0.15)


def test_dreams_are_as_frequent_as_they_are_likely() -> None:
    model = machine()
    share = np.exp(np.asarray(tables(model, X)[0], np.float64)).sum(axis=1)
    drawn = np.asarray(model.sample(KEY, 20_000, entries="drawn"))
    found = np.bincount((drawn @ 2 ** np.arange(3, -1, -1)).astype(int), minlength=16) / 20_000
    np.testing.assert_allclose(found, share, atol=5 * 0.5 / np.sqrt(20_000))


def test_what_it_is_depends_on_its_size_and_other_data_are_refused() -> None:
    assert isinstance(models.build("helmholtz", BITS, layers=(12, 4)), CountedHelmholtz)
    assert isinstance(models.build("helmholtz", BITS, layers=(12, 5)), SampledHelmholtz)
    with pytest.raises(
        CapabilityError, match="helmholtz models zeros and ones; these image data have 17 levels"
    ):
        models.build("helmholtz", Schema("image", (8, 8, 1), levels=17))


def test_the_loss_of_a_step_is_the_bound_alone() -> None:
    """-log p(x, z) + log q(z|x) on average over codes of q; the loss of the recognition network is logged beside it."""
    model = machine()
    first, second = parts_of(model)
    assert (first.counted, second.counted) == (True, False)
    joint, guide = (np.asarray(table, np.float64) for table in tables(model, SEEN))
    exact = (np.exp(guide) * (guide - joint)).sum(axis=1).mean()
    draws = 4000
    batch = Batch(jnp.asarray(np.tile(SEEN, (draws, 1))))
    loss = eqx.filter_jit(lambda model: first.loss(model, batch, KEY)[0])(model)
    assert float(loss) == pytest.approx(exact, abs=0.1)
    weighted = machine("reweighted")
    part, few = parts_of(weighted)[0], Batch(jnp.asarray(SEEN))
    logged, whole = eqx.filter_jit(lambda m: (part.loss(m, few, KEY)[0], m.loss(few, KEY)[0]))(weighted)
    assert float(logged) == pytest.approx(float(whole), rel=1e-6)


def test_bits_of_all_layers_come_back_and_the_rate_is_the_bound() -> None:
    """The mean of log q - log p over all codes, by hand, beside what a thousand examples of the model cost."""
    pytest.importorskip("constriction")
    model = machine()
    joint, guide = (np.asarray(part, np.float64) for part in tables(model, X))
    share = np.exp(joint).sum(axis=1)
    bound = (np.exp(guide) * (guide - joint)).sum(axis=1) / np.log(2)
    draw = np.random.default_rng(0)
    numbers = draw.choice(len(X), 4000, p=share / share.sum())
    code = model.code()
    own = code.with_rows(256).fitted(X[numbers].astype(np.int32))
    coded = own.encode(X[numbers].astype(np.int32), (0, 0), lambda done: None)
    assert sum(coded.ledger.values()) / len(numbers) == pytest.approx(bound[numbers].mean(), rel=0.02)
    np.testing.assert_array_equal(own.decode(coded, len(numbers), (0, 0), lambda done: None), X[numbers])

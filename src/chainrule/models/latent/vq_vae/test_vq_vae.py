"""The vector-quantised auto-encoder: choice of codes, running means, revival, the bound, and a prior that is one."""

import itertools
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError, ChainruleError
from chainrule.data import Batch, Schema
from chainrule.models.latent.vq_vae import VQVAE
from chainrule.models.latent.vq_vae.prior import CodePrior
from chainrule.models.latent.vq_vae.quantizer import Quantizer, perplexity, straight_through
from chainrule.probability.distributions.outputs import LikelihoodName
from chainrule.train.scores.codebook import use

KEY = jax.random.key(0)
DRAW = np.random.default_rng(0)
SMALL: dict[str, Any] = {
    **{"codes": 3, "code_size": 2, "slots": 2, "width": 8, "depth": 1, "channels": (4, 8)},
    **{"prior_layers": 1, "prior_width": 8},
}
BITS = Schema("table", (4,), levels=2)


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def build(schema: Schema, **settings: Any) -> VQVAE:
    model = models.build("vq-vae", schema, **{**SMALL, **settings})
    assert isinstance(model, VQVAE)
    return model


def quantizer(codes: int, size: int, decay: float = 0.9, revive: float = 0.0) -> Quantizer:
    return Quantizer(codes, size, decay=decay, revive=revive, key=KEY)


# ---------------------------------------------------------------------- codes


def test_every_vector_becomes_the_nearest_code() -> None:
    book, vectors = DRAW.normal(size=(7, 3)).astype(np.float32), DRAW.normal(size=(50, 3)).astype(np.float32)
    made = eqx.tree_at(lambda q: q.codebook, quantizer(7, 3), jnp.asarray(book))
    indices, codes = made(jnp.asarray(vectors))
    distances = ((vectors[:, None].astype(np.float64) - book[None]) ** 2).sum(axis=-1)
    np.testing.assert_array_equal(indices, distances.argmin(axis=1))
    np.testing.assert_array_equal(codes, book[distances.argmin(axis=1)])


def test_the_gradient_of_a_vector_is_that_of_its_code_and_the_pull_of_the_commitment() -> None:
    """Straight-through: d loss / d vector = d distortion / d code at the code, plus 2 beta (vector - code)."""
    matrix, vectors = DRAW.normal(size=(2, 2)), DRAW.normal(size=(5, 2))
    made = quantizer(4, 2)

    def loss(v: jax.Array) -> jax.Array:
        codes = made(v).codes
        read = straight_through(v, codes)
        return jnp.square(read @ matrix).sum() + 0.25 * jnp.square(v - codes).sum()

    found = jax.jit(jax.grad(loss))(jnp.asarray(vectors))
    codes = np.asarray(made(jnp.asarray(vectors)).codes, np.float64)
    expected = 2 * codes @ matrix @ matrix.T + 0.5 * (vectors - codes)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_no_gradient_reaches_the_codebook_or_the_prior_by_way_of_the_encoder() -> None:
    model = build(BITS)
    x = jnp.asarray(DRAW.integers(0, 2, (6, 4)), jnp.float32)

    @eqx.filter_jit
    @eqx.filter_grad
    def slope(model: VQVAE) -> jax.Array:
        return model.loss(Batch(x), KEY)[0]

    found = slope(model)
    assert not np.asarray(found.quantizer.codebook).any()
    cheap = slope(eqx.tree_at(lambda m: m.prior.head.bias, model, jnp.asarray([5.0, 0.0, 0.0])))
    for one, other in zip(jax.tree.leaves(found.encoder), jax.tree.leaves(cheap.encoder), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert np.asarray(found.prior.head.weight).any()


def test_codes_are_the_running_means_of_the_vectors_that_become_them() -> None:
    """Against a loop in NumPy over vectors, codes and steps."""
    codes, size, decay = 3, 2, 0.9
    made = eqx.tree_at(
        lambda q: (q.counts, q.sums),
        quantizer(codes, size),
        (jnp.ones(codes), quantizer(codes, size).codebook),
    )
    book, counts = np.asarray(made.codebook, np.float64), np.ones(codes)
    sums, move = book.copy(), jax.jit(lambda q, v, i: q.moved(v, i, KEY))
    for _ in range(5):
        vectors = DRAW.normal(size=(8, size))
        indices = ((vectors[:, None] - book[None]) ** 2).sum(axis=-1).argmin(axis=1)
        made = move(made, jnp.asarray(vectors, jnp.float32), jnp.asarray(indices))
        for code in range(codes):
            mine = [v for v, i in zip(vectors, indices, strict=True) if i == code]
            counts[code] = decay * counts[code] + (1 - decay) * len(mine)
            sums[code] = (
                decay * sums[code] + (1 - decay) * np.sum(mine, axis=0) if mine else decay * sums[code]
            )
        smooth = (counts + 1e-5) * counts.sum() / (counts.sum() + codes * 1e-5)
        book = sums / smooth[:, None]
        np.testing.assert_allclose(made.codebook, book, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(made.counts, counts, rtol=1e-5)


def test_a_code_that_is_not_met_is_put_where_a_vector_is_and_a_fresh_codebook_begins_there() -> None:
    vectors = jnp.asarray(DRAW.normal(size=(40, 2)), jnp.float32)
    rows = {tuple(row) for row in np.asarray(vectors).tolist()}
    fresh = quantizer(10, 2, revive=0.1)
    first = fresh.moved(vectors, fresh(vectors).indices, KEY)
    assert {tuple(row) for row in np.asarray(first.codebook).tolist()} <= rows
    far = eqx.tree_at(lambda q: q.codebook, first, first.codebook.at[3].set(100.0))
    move = jax.jit(lambda q, k: q.moved(vectors, q(vectors).indices, k))
    for number in range(30):
        far = move(far, jax.random.fold_in(KEY, number))
    assert np.abs(np.asarray(far.codebook)).max() < 10
    met = np.bincount(np.asarray(far(vectors).indices), minlength=10)
    assert (met > 0).all()
    book = first.codebook.at[3].set(100.0)
    kept = eqx.tree_at(lambda q: (q.codebook, q.counts, q.sums), quantizer(10, 2), (book, jnp.ones(10), book))
    for number in range(3):
        kept = move(kept, jax.random.fold_in(KEY, number))
    np.testing.assert_allclose(kept.codebook[3], 100.0, rtol=1e-3)


def test_perplexity_is_the_number_of_codes_that_are_used_alike() -> None:
    assert float(perplexity(jnp.full(8, 3.0))) == pytest.approx(8, rel=1e-6)
    assert float(perplexity(jnp.asarray([7.0, 0.0, 0.0]))) == pytest.approx(1)
    assert float(perplexity(jnp.asarray([1.0, 3.0]))) == pytest.approx(4 / 3**0.75, rel=1e-6)
    found = use(np.asarray([[0, 1, 1, 1]]), 5)
    assert found["perplexity"].value == pytest.approx(4 / 3**0.75)
    assert found["dead_codes"].value == 3


# ---------------------------------------------------------------------- the prior and the bound


@pytest.mark.parametrize("layers", [0, 2])
def test_probabilities_of_all_grids_add_up_to_one_and_draws_follow_them(layers: int) -> None:
    prior = CodePrior(locations=3, codes=3, width=8, layers=layers, key=KEY)
    prior = eqx.tree_at(lambda p: p.head.weight, prior, 20 * prior.head.weight)
    grids = np.asarray(list(itertools.product(range(3), repeat=3)))
    chance = np.exp(np.asarray(eqx.filter_jit(prior.log_prob)(jnp.asarray(grids)), np.float64))
    assert chance.sum() == pytest.approx(1, abs=1e-5)
    drawn = np.asarray(eqx.filter_jit(prior.sample)(KEY, 20_000)) @ np.asarray([9, 3, 1])
    found = np.bincount(drawn, minlength=27) / 20_000
    np.testing.assert_allclose(found, chance, atol=5 * np.sqrt(0.25 / 20_000))
    cold = np.asarray(eqx.filter_jit(prior.sample)(KEY, 4, 0.0))
    assert (cold == cold[0]).all()
    if not layers:  # every place by itself
        table = chance.reshape(3, 3, 3)
        np.testing.assert_allclose(
            table, np.einsum("i,j,k->ijk", table.sum((1, 2)), table.sum((0, 2)), table.sum((0, 1))), rtol=1e-4
        )


def test_the_bound_is_one_term_of_the_sum_over_all_grids() -> None:
    """p(x) = Σ_c p(c) p(x|c) by enumeration of 9 grids and 16 examples: it adds up to one, and no bound is above."""
    model = build(BITS)
    model = eqx.tree_at(lambda m: m.prior.head.weight, model, 20 * model.prior.head.weight)
    x = jnp.asarray(list(itertools.product((0.0, 1.0), repeat=4)), jnp.float32)
    grids = jnp.asarray(list(itertools.product(range(3), repeat=2)))

    @eqx.filter_jit
    def joint(model: VQVAE) -> jax.Array:
        def one(grid: jax.Array) -> jax.Array:
            codes = jnp.tile(model.codebook[grid], (len(x), 1))
            return model.prior.log_prob(grid[None])[0] + model.entry_log_likelihood(
                x, model.parameters(codes)
            )

        return jax.lax.map(one, grids)

    terms = np.asarray(joint(model), np.float64)
    exact = np.log(np.exp(terms).sum(axis=0))
    assert np.exp(exact).sum() == pytest.approx(1, abs=1e-5)
    bound = np.asarray(eqx.filter_jit(model.elbo)(x, KEY))
    assert (bound <= exact + 1e-5).all()
    own = np.asarray(model.encode_indices(x)) @ np.asarray([3, 1])
    np.testing.assert_allclose(bound, terms[own, np.arange(16)], rtol=1e-5)
    parts = eqx.filter_jit(model.bound)(Batch(x), KEY).parts
    np.testing.assert_allclose(parts["codes"], -np.asarray(model.prior.log_prob(grids))[own], rtol=1e-5)


def test_the_loss_is_the_bound_and_the_commitment() -> None:
    model = build(Schema("image", (6, 5, 1), levels=17))
    assert model.code_shape == (3, 3)
    x = jnp.asarray(DRAW.integers(0, 17, (4, 6, 5, 1)) / 16, jnp.float32)
    loss, parts = eqx.filter_jit(model.loss)(Batch(x), KEY)
    bound = np.asarray(eqx.filter_jit(model.elbo)(x, KEY), np.float64)
    nats = 30 * np.log(16) - bound.mean()
    assert float(parts["distortion"] + parts["rate"]) == pytest.approx(nats, rel=1e-5)
    assert float(loss) == pytest.approx(nats + 0.25 * float(parts["commitment"]), rel=1e-5)


# ---------------------------------------------------------------------- in and out


def test_examples_go_to_codes_and_back_by_numbers_and_by_vectors() -> None:
    model = build(Schema("image", (4, 4, 2), levels=2))
    x = jnp.asarray(DRAW.integers(0, 2, (5, 4, 4, 2)), jnp.float32)
    indices = model.encode_indices(x)
    assert indices.shape == (5, 2, 2)
    assert model.codebook.shape == (3, 2)
    vectors = model.encode(x)
    np.testing.assert_array_equal(vectors, np.asarray(model.codebook)[np.asarray(indices)].reshape(5, -1))
    back = model.decode_indices(indices)
    assert back.shape == x.shape
    np.testing.assert_allclose(back, model.decode(vectors), rtol=1e-6)
    drawn = model.sample(KEY, 7, temperature=0.5, entries="drawn")
    assert drawn.shape == (7, 4, 4, 2)
    assert set(np.unique(drawn)) <= {0.0, 1.0}
    with pytest.raises(ArgumentError, match="temperature=-1"):
        model.sample(KEY, 2, temperature=-1.0)


@pytest.mark.parametrize("name", LikelihoodName.__args__)  # type: ignore[attr-defined]
def test_every_likelihood_of_entries_can_be_chosen(name: str) -> None:
    levels = {"bernoulli": 2, "gaussian": 0, "laplace": 0, "continuous_bernoulli": 0}.get(name, 17)
    model = build(Schema("table", (3,), levels=levels), likelihood=name, prior_layers=0)
    x = jnp.asarray(DRAW.integers(0, max(levels, 2), (4, 3)) / max(levels - 1, 1), jnp.float32)
    loss, _ = eqx.filter_jit(model.loss)(Batch(x), KEY)
    assert np.isfinite(float(loss))


@pytest.mark.parametrize(
    ("settings", "schema", "error", "message"),
    [
        ({"body": "conv"}, Schema("points", (2,)), ArgumentError, "no rows and columns of pixels"),
        ({"prior_width": 6}, BITS, ArgumentError, "use prior_width=8"),
        ({"codes": 1}, BITS, ArgumentError, "codes"),
        ({"likelihood": "bernoulli"}, Schema("points", (2,)), CapabilityError, "no likelihood"),
    ],
)
def test_settings_that_do_not_fit_the_data_are_refused(
    settings: Any, schema: Schema, error: type[ChainruleError], message: str
) -> None:
    with pytest.raises(error) as found:
        build(schema, **settings)
    assert message in str(found.value)


@pytest.mark.slow  # trains
def test_no_code_of_digits_is_dead_by_default(tmp_path: Any) -> None:
    data = cr.data.load("digits")
    run = cr.fit(
        cr.models.build("vq-vae", data),
        data,
        run=tmp_path / "r",
        **{**models.entry("vq-vae").training, "steps": 500},
    )
    assert run.score("test")["dead_codes"].value == 0

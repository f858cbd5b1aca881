"""Mean embeddings and MMD: the numbers of small samples, closed forms, the supremum, derivatives."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF, Linear, Polynomial, mean_embedding
from chainrule.kernels.mean_embedding import (
    MeanEmbedding,
    linear_terms,
    median_kernel,
    mmd,
    multi_scale,
    row_means,
    squared_mmd,
    witness,
)
from chainrule.probability.divergences import mmd as gaussian_mmd

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(40, 2)), RNG.normal(size=(30, 2)) + 0.5
SMALL = (np.array([0.0, 1.0]), np.array([1.0, 3.0]))


def test_two_points_against_two_by_double_sum_and_by_a_trace() -> None:
    kernel = RBF(1.0)
    assert float(squared_mmd(*SMALL, kernel, "biased")) == pytest.approx(0.494446, abs=1e-6)
    assert float(squared_mmd(*SMALL, kernel, "unbiased")) == pytest.approx(-0.134622, abs=1e-6)
    gram = np.asarray(kernel.gram(np.concatenate(SMALL)))
    sign = np.array([0.5, 0.5, -0.5, -0.5])
    assert np.trace(gram @ np.outer(sign, sign)) == pytest.approx(0.494446, abs=1e-6)


def test_the_cubic_kernel_of_images_judged_by_features() -> None:
    x, y, kernel = np.array([0.0, 1.0]), np.array([1.0, 2.0]), Polynomial(3, 1.0)
    assert float(squared_mmd(x, y, kernel, "unbiased")) == pytest.approx(9.5)
    assert float(squared_mmd(x, y, kernel, "biased")) == pytest.approx(31)


def test_it_is_the_distance_that_divergences_give_for_the_gaussian_kernel() -> None:
    assert float(mmd(A, B, RBF(0.7))) == pytest.approx(float(gaussian_mmd(A, B, 0.7)), abs=1e-12)
    assert float(mmd(A, B)) == pytest.approx(float(gaussian_mmd(A, B)), abs=1e-12)
    assert float(mmd(A, A)) == 0


def test_the_linear_kernel_compares_means() -> None:
    expected = np.linalg.norm(A.mean(axis=0) - B.mean(axis=0))
    assert float(mmd(A, B, Linear())) == pytest.approx(expected)


def test_estimates_of_two_normals_approach_the_closed_form() -> None:
    exact = 2 / math.sqrt(3) * (1 - math.exp(-1 / 6))
    assert exact == pytest.approx(0.177268, abs=1e-6)
    draws = np.random.default_rng(1).normal(size=(2, 60, 100))
    unbiased = jax.jit(jax.vmap(lambda x, y: squared_mmd(x, y, RBF(1.0))))
    found = np.asarray(unbiased(draws[0], draws[1] + 1))
    assert abs(found.mean() - exact) < 4 * found.std() / math.sqrt(60)
    long = np.random.default_rng(2).normal(size=(2, 20_000)) + np.array([[0.0], [1.0]])
    terms = np.asarray(linear_terms(RBF(1.0), *(jnp.asarray(one)[:, None] for one in long)))
    assert abs(terms.mean() - exact) < 4 * terms.std() / math.sqrt(len(terms))
    assert float(squared_mmd(*long, RBF(1.0), "linear")) == pytest.approx(terms.mean())


@pytest.mark.slow
def test_errors_fall_with_the_root_of_the_number_of_draws() -> None:
    exact = 2 / math.sqrt(3) * (1 - math.exp(-1 / 6))
    sizes, errors = (50, 200, 800), []
    for size in sizes:
        draws = np.random.default_rng(size).normal(size=(2, 100, size))
        found = jax.jit(lambda x, y: jax.lax.map(lambda d: squared_mmd(*d, RBF(1.0)), (x, y)))(
            draws[0], draws[1] + 1
        )
        errors.append(float(np.sqrt(np.square(found - exact).mean())))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.12)


def test_random_features_estimate_the_biased_square() -> None:
    near = float(squared_mmd(A, B, RBF(1.0), "features", count=4000, key=jax.random.key(0)))
    assert near == pytest.approx(float(squared_mmd(A, B, RBF(1.0), "biased")), abs=0.02)


def test_the_witness_attains_the_supremum_and_no_function_of_norm_one_exceeds_it() -> None:
    kernel = RBF(1.0)
    f = witness(A, B, kernel)
    assert float(f(A).mean() - f(B).mean()) == pytest.approx(float(mmd(A, B, kernel)))
    pooled = np.concatenate([A, B])
    sign = np.concatenate([np.full(40, 1 / 40), np.full(30, -1 / 30)]) / float(f.distance)
    gram = np.asarray(kernel.gram(pooled))
    assert sign @ gram @ sign == pytest.approx(1)
    weights = np.random.default_rng(3).normal(size=(1000, 70))
    weights[::2] += 20 * sign  # functions near the witness, too
    norms = np.sqrt(np.einsum("ri,ij,rj->r", weights, gram, weights))
    values = weights / norms[:, None] @ gram
    differences = values[:, :40].mean(axis=1) - values[:, 40:].mean(axis=1)
    assert differences.max() <= float(f.distance) + 1e-12
    assert differences.max() > 0.8 * float(f.distance)


def test_the_mean_is_a_function_whose_inner_products_are_means() -> None:
    first, second = MeanEmbedding(RBF(1.0), A), MeanEmbedding(RBF(1.0), B)
    gram = np.asarray(RBF(1.0).gram(A, B))
    np.testing.assert_allclose(first(B), gram.mean(axis=0), rtol=1e-12)
    assert float(first.inner(second)) == pytest.approx(gram.mean())
    assert float(first.distance(second)) == pytest.approx(float(mmd(A, B, RBF(1.0))))
    assert float(first.norm) ** 2 == pytest.approx(np.asarray(RBF(1.0).gram(A)).mean())


def test_tiles_give_the_same_means_and_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    slope = jax.grad(lambda a: (row_means(RBF(1.0), a, jnp.asarray(B)) ** 2).sum())
    whole = row_means(RBF(1.0), jnp.asarray(A), jnp.asarray(B)), slope(jnp.asarray(A))
    monkeypatch.setattr(mean_embedding, "TILE", 7 * 30)
    parts = row_means(RBF(1.0), jnp.asarray(A), jnp.asarray(B)), slope(jnp.asarray(A))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_it_can_be_differentiated_where_samples_differ_and_where_they_are_the_same() -> None:
    slope = jax.jit(jax.grad(lambda b: mmd(A, b, RBF(1.0))))
    step = np.random.default_rng(4).normal(size=B.shape)
    ahead, behind = (float(mmd(A, B + s * 1e-5 * step, RBF(1.0))) for s in (1, -1))
    assert float((slope(jnp.asarray(B)) * step).sum()) == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)
    assert np.asarray(slope(jnp.asarray(A))).any() == 0


def test_several_widths_are_multiples_of_the_median_distance() -> None:
    scale = float(median_kernel(A, B).scale)
    expected = sum(float(squared_mmd(A, B, RBF(f * scale))) for f in (0.25, 0.5, 1.0, 2.0, 4.0))
    assert float(squared_mmd(A, B, multi_scale(A, B))) == pytest.approx(expected)
    pooled = np.concatenate([A, B])
    apart = np.sqrt(np.square(pooled[:, None] - pooled[None]).sum(axis=-1))
    assert scale == pytest.approx(np.median(apart[apart > 0]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mmd(A, B[:, :1]), "x has 2 features and y has 1"),
        (lambda: mmd(np.zeros((0, 2)), B), "a sample of no points has no mean"),
        (lambda: squared_mmd(A, B, RBF(1.0), "cubic"), 'estimate must be "biased", "unbiased", "linear" or'),
        (lambda: squared_mmd(A[:1], B, RBF(1.0)), "needs two points or more\n.*biased"),
        (lambda: squared_mmd(A[:1], B, RBF(1.0), "linear"), "needs two points or more of each"),
        (lambda: witness(A, A), "nothing tells them apart"),
        (lambda: mmd(A, [[0.0, np.nan]]), "finite"),
        (lambda: multi_scale(A, B, ()), "give one factor or more"),
    ],
)
def test_what_cannot_be_is_refused(call, words) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()

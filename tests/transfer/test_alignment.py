"""Alignment in closed form and as losses: discrepancies that vanish, eigenproblems, other libraries."""

from collections.abc import Callable
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF, coral_alignment, mmd, mmd_alignment
from chainrule.kernels.alignment import covariance
from chainrule.kernels.mean_embedding import squared_mmd
from chainrule.transfer import coral, transfer_components, transport_alignment

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = RNG.normal(size=(40, 3)) @ np.array([[2.0, 0.3, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 0.5]]) + [
    3.0,
    0.0,
    -1.0,
]


def test_transfer_components_solve_the_published_eigenproblem_and_bring_means_together() -> None:
    kernel, n, m = RBF(2.0), len(X), len(Y)
    found = transfer_components(X, Y, 3, kernel=kernel, mu=0.1)
    pooled = np.concatenate([X, Y])
    squares = ((pooled[:, None] - pooled[None]) ** 2).sum(axis=-1)
    gram = np.exp(-squares / 8)
    e = np.concatenate([np.full(n, 1 / n), np.full(m, -1 / m)])
    centring = np.eye(n + m) - 1 / (n + m)
    left = gram @ np.outer(e, e) @ gram + 0.1 * np.eye(n + m)
    values, vectors = linalg.eig(np.linalg.solve(left, gram @ centring @ gram))
    order = np.argsort(-values.real)[:3]
    np.testing.assert_allclose(found.values, values.real[order], rtol=1e-6)
    # The same space of weights: principal angles are zero.
    assert np.max(linalg.subspace_angles(found.weights, vectors.real[:, order])) < 1e-5
    np.testing.assert_allclose(found.source, gram[:n] @ found.weights, atol=1e-8)
    plain = float(mmd(X, Y))
    assert float(mmd(found.source, found.target)) < 0.5 * plain


def test_whitening_and_colouring_gives_the_mean_and_covariance_of_the_target() -> None:
    moved = coral(X, Y, ridge=0.0)(X)
    np.testing.assert_allclose(moved.mean(axis=0), Y.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(np.cov(moved.T), np.cov(Y.T), atol=1e-10)
    assert float(coral_alignment(jnp.asarray(moved), jnp.asarray(Y))) < 1e-8
    flat = np.concatenate([X, X[:, :1]], axis=1)  # a direction without variance stays without
    assert np.isfinite(coral(flat, np.concatenate([Y, Y[:, :1]], axis=1), ridge=0.0)(flat)).all()


def test_transport_moves_as_pot_does(oracle: Callable[[str], ModuleType]) -> None:
    ot = oracle("ot")
    found = transport_alignment(X, Y)
    mapping = ot.da.EMDTransport(norm=None).fit(Xs=X, Xt=Y)
    np.testing.assert_allclose(found.moved, mapping.transform(Xs=X), atol=1e-6)
    assert abs(found.cost - ot.emd2([], [], ot.dist(X, Y))) < 1e-8
    soft = transport_alignment(X, Y, eps=2.0)
    reference = ot.sinkhorn(np.full(60, 1 / 60), np.full(40, 1 / 40), ot.dist(X, Y), 2.0, stopThr=1e-12)
    np.testing.assert_allclose(soft.moved, 60 * reference @ Y, atol=1e-4)


def test_alignments_are_those_of_skada(oracle: Callable[[str], ModuleType]) -> None:
    skada = oracle("skada")
    both, domain = np.concatenate([X, Y]), np.concatenate([np.ones(60), -2 * np.ones(40)])
    theirs = skada.CORALAdapter(reg=1e-12).fit_transform(both, sample_domain=domain)
    theirs = np.asarray(theirs[0] if isinstance(theirs, tuple) else theirs)[:60]
    # Theirs leaves the means alone and divides by the number of rows where ours takes one less.
    factor = (60 / 59) * (39 / 40)
    np.testing.assert_allclose(np.cov(theirs.T), factor * np.cov(coral(X, Y, ridge=0.0)(X).T), atol=1e-6)


def test_new_rows_of_the_source_move_like_their_neighbours() -> None:
    found = transport_alignment(X, X + 5.0)
    np.testing.assert_allclose(found(X[:4] + 0.01), X[:4] + 5.01, atol=1e-9)


def test_losses_are_their_formulas_and_have_gradients_of_differences() -> None:
    x, y = X[:8], Y[:6]
    with jax.enable_x64(True):
        value = float(coral_alignment(jnp.asarray(x), jnp.asarray(y)))
        assert abs(value - np.square(np.cov(x.T) - np.cov(y.T)).sum() / (4 * 9)) < 1e-12
        np.testing.assert_allclose(covariance(jnp.asarray(x)), np.cov(x.T), atol=1e-12)
        for loss in (coral_alignment, lambda a, b: squared_mmd(a, b, RBF(1.5), "unbiased")):
            slope = np.asarray(jax.jit(jax.grad(loss))(jnp.asarray(x), jnp.asarray(y)))
            step = np.zeros_like(x)
            step[2, 1] = 1e-5
            up, down = (float(loss(jnp.asarray(x + sign * step), jnp.asarray(y))) for sign in (1, -1))
            differences = (up - down) / 2e-5
            assert abs(slope[2, 1] - differences) < 1e-8


def test_several_widths_are_the_mean_over_the_widths_and_the_median_has_no_gradient() -> None:
    x, y = jnp.asarray(X, np.float32), jnp.asarray(Y, np.float32)
    pooled = np.concatenate([X, Y])
    distances = np.sqrt(((pooled[:, None] - pooled[None]) ** 2).sum(axis=-1))
    median = np.median(distances[distances > 0])
    each = [float(squared_mmd(x, y, RBF(f * median), "unbiased")) for f in (0.25, 0.5, 1.0, 2.0, 4.0)]
    assert abs(float(jax.jit(mmd_alignment)(x, y)) - np.mean(each)) < 1e-5
    slope = jax.jit(jax.grad(mmd_alignment))(x, y)

    def fixed_widths(a: jax.Array) -> jax.Array:
        kernels = (RBF(factor * median) for factor in (0.25, 0.5, 1.0, 2.0, 4.0))
        return jnp.mean(jnp.stack([squared_mmd(a, y, kernel, "unbiased") for kernel in kernels]))

    fixed = jax.jit(jax.grad(fixed_widths))(x)
    np.testing.assert_allclose(slope, fixed, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: transfer_components(X, Y, mu=0.0), "mu must be positive"),
        (lambda: transfer_components(X, Y, 100), "fewer than the 100 rows"),
        (lambda: coral(X[:1], Y), "two rows or more"),
        (lambda: coral(X, Y)(X[:, :2]), "rows have 2 numbers, those of the source had 3"),
        (lambda: coral(X, Y, ridge=-1.0), "ridge must be"),
        (lambda: transport_alignment(X, Y[:, :2]), "the source have 3 numbers, of the target 2"),
        (lambda: transport_alignment(X, Y, eps=-1.0), "eps must be"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()

"""What holds for all distributions: shapes, compiling, mapping, refusals."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.probability import (
    Bernoulli,
    Categorical,
    Diagonal,
    Eigen,
    LowRank,
    Mixture,
    MultivariateNormal,
    Normal,
)

KEY = jax.random.key(0)


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_parameters_broadcast_to_the_batch_and_draws_have_all_axes() -> None:
    batch = Normal(np.zeros((3, 1)), np.ones(2))
    assert (batch.batch_shape, batch.event_shape) == ((3, 2), ())
    drawn = batch.sample(KEY, (5,))
    assert drawn.shape == (5, 3, 2)
    assert batch.log_prob(drawn).shape == (5, 3, 2)
    vectors = MultivariateNormal(np.zeros((4, 2)), np.eye(2))
    assert (vectors.batch_shape, vectors.event_shape, vectors.sample(KEY, 3).shape) == ((4,), (2,), (3, 4, 2))
    assert vectors.log_prob(np.zeros(2)).shape == (4,)


def test_a_batch_of_mixtures_draws_from_the_components_of_each() -> None:
    centres = np.array([[0.0, 10.0], [20.0, 30.0], [40.0, 50.0]])
    batch = Mixture([0.5, 0.5], Normal(centres, 0.01))
    drawn = np.asarray(batch.sample(KEY, 200))
    assert drawn.shape == (200, 3)
    for k, (low, high) in enumerate(centres):
        near = np.minimum(abs(drawn[:, k] - low), abs(drawn[:, k] - high))
        assert near.max() < 0.1
        assert 60 < (abs(drawn[:, k] - low) < 0.1).sum() < 140
    several = Mixture([0.5, 0.5], [Normal(centres[:, 0], 0.01), Normal(centres[:, 1], 0.01)])
    np.testing.assert_allclose(several.log_prob(drawn), batch.log_prob(drawn))
    np.testing.assert_allclose(several.mean, centres.mean(axis=1))
    np.testing.assert_allclose(several.variance, 25 + 1e-4)
    assert set(np.unique(np.asarray(several.sample(KEY, 50)).round())) <= set(centres.ravel())


def test_a_distribution_can_be_compiled_mapped_and_differentiated() -> None:
    batch = Normal(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0]))
    mapped = jax.jit(jax.vmap(lambda p, x: p.log_prob(x)))(batch, jnp.zeros(2))
    np.testing.assert_allclose(mapped, batch.log_prob(0.0))
    slope = jax.grad(lambda m: Normal(m, 2.0).log_prob(1.0))(0.0)
    assert float(slope) == pytest.approx(0.25)


def test_the_type_is_that_of_the_parameters() -> None:
    single = Normal(jnp.zeros(2, jnp.float32), 1.0)
    assert single.sample(KEY).dtype == single.mean.dtype == jnp.float32
    assert Normal(0, 1).sample(KEY).dtype == jnp.float64


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Normal(0.0, -1.0), r"Normal: scale is -1; scale must be positive"),
        (lambda: Normal([0.0, np.nan], 1.0), r"mean\[1\] is nan"),
        (lambda: Normal(np.zeros(3), np.ones(2)), "do not broadcast"),
        (lambda: Bernoulli(1.5), "probs is 1.5"),
        (lambda: Bernoulli(), "give one of probs and logits"),
        (lambda: Bernoulli(0.5, logits=0.0), "give one of probs and logits"),
        (lambda: Categorical([0.5, 0.4]), "sums to 0.9 instead of 1\n.*normalize=True"),
        (lambda: Categorical([1.5, -0.5]), r"probs holds -0.5"),
        (lambda: Categorical([0.0, 0.0], normalize=True), "cannot be normalised"),
        (lambda: Categorical(logits=[np.nan, 0.0]), r"logits\[0\] is nan"),
        (lambda: MultivariateNormal(np.zeros(2), [[1.0, 2.0], [2.0, 1.0]]), "smallest eigenvalue -1"),
        (
            lambda: MultivariateNormal(np.zeros(2), [[1.0, 0.5], [0.2, 1.0]]),
            "is symmetric.*smallest eigenvalue",
        ),
        (lambda: MultivariateNormal(np.zeros(2), np.ones(2)), r"Diagonal\(variances\)"),
        (lambda: MultivariateNormal(np.zeros(3), np.eye(2)), "does not fit"),
        (lambda: Diagonal([1.0, 0.0]), r"variances\[1\] is 0"),
        (lambda: LowRank(np.ones((3, 1)), np.ones(2)), "needs 3 variances"),
        (lambda: Mixture([0.5, 0.5], Normal(0.0, 1.0)), "no axis to choose along"),
        (lambda: Mixture([1.0], Normal([0.0, 1.0], 1.0)), "2 components need 2 weights"),
        (lambda: Mixture([0.5, 0.5], [Normal(), Bernoulli(0.5)]), "Bernoulli is discrete"),
        (lambda: Normal().sample(KEY, -1), r"shape=-1"),
        (lambda: Normal().log_prob(np.nan), "x holds NaN"),
        (lambda: Normal(np.zeros(3)).log_prob(np.zeros(2)), "does not broadcast"),
        (lambda: MultivariateNormal(np.zeros(2), np.eye(2)).log_prob(np.zeros(3)), "event shape"),
        (lambda: Eigen.of([[1.0, 2.0], [2.0, 1.0]]), "smallest eigenvalue -1"),
    ],
)
def test_bad_arguments_are_named(make, message: str) -> None:
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda v: Normal(0.0, v).scale,
        lambda v: Bernoulli(v).logits,
        lambda v: Categorical(jnp.stack([v, 1 - v])).probs,
        lambda v: MultivariateNormal(jnp.zeros(1), v[None, None]).covariance,
    ],
)
def test_bad_arguments_are_named_inside_compiled_functions_too(make) -> None:
    with pytest.raises(Exception, match=r"must |negative"):
        jax.block_until_ready(jax.jit(make)(jnp.array(-1.0)))


def test_rounding_of_single_precision_makes_no_covariance_negative() -> None:
    factor = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    flat = MultivariateNormal(np.zeros(20, np.float32), jnp.asarray(factor @ factor.T))
    assert isinstance(flat.structure, Eigen)
    assert int(flat.structure.rank) == 3


def test_what_has_no_density_or_closed_form_says_what_to_do() -> None:
    line = MultivariateNormal(np.zeros(2), np.ones((2, 2)))
    with pytest.raises(CapabilityError, match="log_prob_on_support"):
        line.log_prob(np.zeros(2))
    assert float(line.entropy()) == -np.inf
    with pytest.raises(CapabilityError, match=r"p\.sample"):
        Mixture([0.5, 0.5], Normal([0.0, 1.0], 1.0)).entropy()

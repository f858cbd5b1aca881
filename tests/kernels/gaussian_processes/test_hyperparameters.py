"""Hyper-parameters: gradients of every objective, what scikit-learn finds, priors, bounds, draws by HMC."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as TheirRBF
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

from chainrule import probability as P
from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.kernels import RBF, Composed, Constant, Linear, Matern, Polynomial, Precomputed, host
from chainrule.kernels.gaussian_processes import GaussianProcess, sample_hyperparameters
from chainrule.kernels.gaussian_processes.evidence import evidence, left_out, log_evidence
from chainrule.kernels.gaussian_processes.parameters import parameters

RNG = np.random.default_rng(1)
X = RNG.normal(size=(50, 2))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1]], axis=1) + 0.2 * RNG.normal(size=(50, 2))
FOLDS = np.array_split(RNG.permutation(50), 7)
OBJECTIVES = {"evidence": evidence, "leave-one-out": left_out(), "folds": left_out(FOLDS)}
with jax.enable_x64(True):
    KERNELS = {
        "rbf": Constant(1.3) * RBF([0.8, 2.0]),
        "sum": Matern(2.5, 1.2) + 0.5 * Polynomial(2, 0.3),
    }


@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_gradients_are_differences(objective: str, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.cut, "__defaults__", (20,))  # three tiles, the last one filled up
    found = parameters(GaussianProcess(KERNELS[kernel], 0.2))

    def judged(vector: np.ndarray) -> tuple[float, np.ndarray]:
        at = found.at(jnp.asarray(vector))
        answer = OBJECTIVES[objective](at.kernel, np.full(50, float(at.noise)), X, Y)
        return answer.value, found._replace(process=at).flat(answer.kernel, float(answer.noise.sum()))

    slope, step = judged(found.start)[1], 1e-5
    for i, direction in enumerate(np.eye(len(found.start))):
        ahead, behind = (judged(found.start + sign * step * direction)[0] for sign in (1, -1))
        np.testing.assert_allclose(slope[i], (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-6)


def test_the_evidence_of_traced_code_has_the_same_gradient_in_both_modes_and_a_second_one() -> None:
    kernel = KERNELS["rbf"]
    host_slope = evidence(kernel, np.full(50, 0.2), X, Y)

    def traced(log_scale: jax.Array) -> jax.Array:
        moved = Constant(1.3) * RBF(jnp.exp(log_scale))
        return log_evidence(moved.tile(jnp.asarray(X), jnp.asarray(X)) + 0.2 * jnp.eye(50), jnp.asarray(Y))

    at = jnp.log(jnp.array([0.8, 2.0]))
    value, slope = jax.value_and_grad(traced)(at)
    np.testing.assert_allclose(value, host_slope.value, rtol=1e-12)
    np.testing.assert_allclose(slope, host_slope.kernel.second.log_scale, rtol=1e-9)  # type: ignore[attr-defined]
    np.testing.assert_allclose(jax.jacfwd(traced)(at), slope, rtol=1e-10)
    curvature, step = jax.hessian(traced)(at), 1e-5
    rows = [
        (jax.grad(traced)(at + step * e) - jax.grad(traced)(at - step * e)) / (2 * step) for e in np.eye(2)
    ]
    np.testing.assert_allclose(curvature, np.stack(rows), rtol=1e-5)


def test_objectives_that_leave_points_out_are_densities_of_fits_without_them() -> None:
    kernel, noise = KERNELS["rbf"], np.full(50, 0.2)
    expected = 0.0
    for fold in FOLDS:
        rest = np.setdiff1d(np.arange(50), fold)
        fitted = GaussianProcess(kernel, 0.2).fit(X[rest], Y[rest])
        mean, covariance = fitted.predict(X[fold], covariance=True)
        for k in range(2):
            expected += scipy.stats.multivariate_normal(mean[:, k], covariance).logpdf(Y[fold, k])
    np.testing.assert_allclose(left_out(FOLDS)(kernel, noise, X, Y).value, expected, rtol=1e-9)
    each = GaussianProcess(kernel, 0.2).fit(X, Y).leave_one_out().log_prob.sum()
    np.testing.assert_allclose(left_out()(kernel, noise, X, Y).value, each, rtol=1e-10)
    single = left_out([np.array([i]) for i in range(50)])(kernel, noise, X, Y)
    np.testing.assert_allclose(single.value, each, rtol=1e-10)


@pytest.mark.filterwarnings("ignore:The optimal value found")  # theirs, of the column that does not matter
def test_the_maximum_is_that_of_scikit_learn() -> None:
    kernel = ConstantKernel(1.0) * TheirRBF([1.0, 1.0]) + WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(kernel, alpha=0).fit(X, Y[:, 0])
    before = GaussianProcess(Constant(1.0) * RBF([1.0, 1.0]), 0.1).fit(X, Y[:, 0])
    found = before.optimize(restarts=0, warn=False)
    assert found.learning is not None
    assert found.learning.before == pytest.approx(before.log_marginal_likelihood)
    np.testing.assert_allclose(
        found.log_marginal_likelihood, theirs.log_marginal_likelihood_value_, rtol=1e-5
    )
    np.testing.assert_allclose(found.learning.values["noise"], theirs.kernel_.k2.noise_level, rtol=1e-2)
    scale = found.process.kernel.second.scale  # type: ignore[attr-defined]
    np.testing.assert_allclose(scale[0], theirs.kernel_.k1.k2.length_scale[0], rtol=1e-2)


def test_on_another_device_the_same_is_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    before = GaussianProcess(Constant(1.0) * RBF(1.0), 0.1).fit(X, Y)
    host_found = before.optimize(restarts=0)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")  # JAX's route, here on the processor
    there = GaussianProcess(Constant(1.0) * RBF(1.0), 0.1).fit(X, Y)
    found = there.optimize(restarts=0)
    np.testing.assert_allclose(there.log_marginal_likelihood, before.log_marginal_likelihood, rtol=1e-10)
    np.testing.assert_allclose(found.log_marginal_likelihood, host_found.log_marginal_likelihood, rtol=1e-6)
    for kind in ("latent", "observation"):
        np.testing.assert_allclose(
            there.predict(X[:3] + 0.1, kind), before.predict(X[:3] + 0.1, kind), rtol=1e-8
        )
    np.testing.assert_allclose(there.leave_one_out(), before.leave_one_out(), rtol=1e-8)
    assert there.sample(jax.random.key(0), X[:2] + 0.1, 3).shape == (3, 2, 2)


def test_further_starts_leave_a_poor_maximum() -> None:
    before = GaussianProcess(Constant(1.0) * RBF(30.0), 2.0).fit(X[:30], Y[:30, 0])
    near = before.optimize(restarts=0, warn=False)
    far = before.optimize(restarts=4, warn=False)
    assert far.learning is not None
    assert len(far.learning.starts) == 5
    assert far.learning.starts[0] == pytest.approx(near.log_marginal_likelihood)
    assert far.log_marginal_likelihood > near.log_marginal_likelihood + 10
    screened = before.optimize(restarts=4, screen=20, warn=False)
    np.testing.assert_allclose(screened.log_marginal_likelihood, far.log_marginal_likelihood, atol=1e-2)


@pytest.mark.parametrize("objective", ["leave-one-out", "cross-validation"])
def test_other_objectives_are_raised(objective: str) -> None:
    before = GaussianProcess(RBF(0.1), 0.5).fit(X, Y)
    found = before.optimize(objective=objective, restarts=0, folds=5)
    assert found.learning is not None
    assert found.learning.objective > found.learning.before + 1
    if objective == "leave-one-out":
        np.testing.assert_allclose(found.leave_one_out().log_prob.sum(), found.learning.objective, rtol=1e-6)


def test_a_scale_at_its_bound_is_said() -> None:
    process = GaussianProcess(RBF([1.0, 1.0]), 0.1).fit(X, np.sin(2 * X[:, 0]))
    with pytest.warns(ChainruleWarning, match=r"scale\[1\] = .* ended at a bound"):
        found = process.optimize(restarts=0, bounds={"scale": (0.1, 8.0), "noise": (1e-3, 1.0)})
    assert found.learning is not None
    assert "scale[1]" in found.learning.at_bounds
    assert float(found.process.noise) >= 1e-3 * (1 - 1e-9)


def test_a_prior_holds_a_scale_where_the_data_say_nothing() -> None:
    process = GaussianProcess(RBF([1.0, 1.0]), 0.1).fit(X, np.sin(2 * X[:, 0]))
    prior = P.Gamma(10.0, 5.0)
    found = process.optimize(restarts=0, priors={"scale": prior}, fixed=["noise"])
    scale = np.asarray(found.process.kernel.scale)  # type: ignore[attr-defined]
    assert 0.5 < scale[1] < 6.0
    assert float(found.process.noise) == pytest.approx(0.1)
    assert found.learning is not None
    added = float(prior.log_prob(scale).sum())
    np.testing.assert_allclose(found.learning.objective, found.log_marginal_likelihood + added, rtol=1e-6)


def test_what_is_learnt_and_what_stays() -> None:
    network = eqx_linear()
    deep = parameters(GaussianProcess(Composed(RBF(1.0), network), 0.1))
    assert deep.names[0] == "kernel.scale"
    assert len(deep.start) == 1 + 4 + 1
    assert np.isinf(deep.bounds[1:5]).all()
    table = GaussianProcess(Constant(2.0) * Precomputed(np.eye(3)), 0.1)
    assert parameters(table).names == ["first.value", "noise"]
    assert parameters(GaussianProcess(Linear(0.5))).names == ["offset"]
    with pytest.raises(ArgumentError, match="nothing to learn"):
        GaussianProcess(Precomputed(np.eye(3)), np.full(3, 0.1)).fit([0, 1, 2], [0.0, 1.0, 2.0]).optimize()


def eqx_linear() -> object:
    from chainrule import nn

    return nn.Linear(2, 2, key=jax.random.key(0), bias=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"objective": "likelihood"}, 'objective must be "evidence"'),
        ({"bounds": {"scales": (0.1, 1.0)}}, r"did you mean 'scale'"),
        ({"bounds": {"scale": (0.0, 1.0)}}, "0 < low < high"),
        ({"priors": {"period": P.Gamma(2.0, 1.0)}}, "no such hyper-parameter is learnt"),
        ({"restarts": -1}, "at least 0"),
        ({"objective": "cross-validation", "folds": 51}, "there are 50 points"),
    ],
)
def test_bad_options_are_refused(options: dict, said: str) -> None:
    process = GaussianProcess(RBF(1.0), 0.1).fit(X, Y)
    with pytest.raises(ArgumentError, match=said):
        process.optimize(**options)


def test_draws_of_hyperparameters_follow_their_posterior() -> None:
    x, y = X[:12], Y[:12, 0]
    prior = P.Gamma(4.0, 3.0)
    process = GaussianProcess(RBF(1.0), 0.1)
    drawn = sample_hyperparameters(
        process,
        x,
        y,
        jax.random.key(0),
        priors={"scale": prior},
        fixed=["noise"],
        chains=2,
        draws=300,
        burn_in=150,
        warn=False,
    )
    grid = np.linspace(-2.0, 2.0, 60)
    squares = np.square(x[:, None] - x[None]).sum(axis=2)
    covariances = np.exp(-squares[None] / (2 * np.exp(2 * grid)[:, None, None])) + 0.1 * np.eye(12)
    fit = y @ np.linalg.solve(covariances, np.tile(y[:, None], (60, 1, 1)))[..., 0].T
    log = scipy.stats.gamma(4.0, scale=1 / 3.0).logpdf(np.exp(grid)) + grid
    log -= 0.5 * (fit + np.linalg.slogdet(covariances)[1])
    weight = np.exp(log - log.max())
    expected = (weight * grid).sum() / weight.sum()
    assert drawn.names == ("scale",)
    np.testing.assert_allclose(np.log(drawn.values["scale"]).mean(), expected, atol=0.05)
    at = drawn.process_at(drawn.chains.draws[0, 0])
    np.testing.assert_allclose(at.kernel.scale, drawn.values["scale"][0, 0, 0])  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match="noise has no prior"):
        sample_hyperparameters(process, x, y, jax.random.key(0), priors={"scale": prior})

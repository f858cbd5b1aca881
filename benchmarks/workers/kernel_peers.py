"""The peers' side of the `kernels` benchmark: scikit-learn, tinygp and GPyTorch, in double precision."""

import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import kernel_problems as problems
import numpy as np
from protocol import Ready, serve, steady

warnings.filterwarnings("ignore")

Task = tuple[Callable[[], Any], Callable[[Any], list[float]]]


def prepare(package: str, task: str, count: int) -> Ready:
    began = time.perf_counter()
    work, result = TASKS[package][task](count)
    found = result(work())
    taken = time.perf_counter() - began
    return Ready(
        found,
        taken,
        {package: version(package)},
        lambda: steady(lambda rounds: [work() for _ in range(rounds)], 1),
    )


def _few(found: Any) -> list[float]:
    mean, variance = found
    return [float(v) for v in (*mean[:5], *variance[:5])]


def _evidence(found: Any) -> list[float]:
    value, slopes = found
    return [float(value), *(float(s) for s in slopes)]


def sklearn_posterior(count: int) -> Task:
    """Means and variances of new observations, hyper-parameters given."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    x, y, new = problems.regression(count)

    def work() -> Any:
        fitted = GaussianProcessRegressor(RBF(problems.SCALE), alpha=problems.NOISE, optimizer=None).fit(x, y)
        mean, spread = fitted.predict(new, return_std=True)
        return mean, spread**2 + problems.NOISE

    return work, _few


def sklearn_evidence(count: int) -> Task:
    """Log evidence and its slopes by the logarithms of variance, length scale and noise."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    x, y, _ = problems.regression(count)
    kernel = ConstantKernel(1.0) * RBF(problems.SCALE) + WhiteKernel(problems.NOISE)
    fitted = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None)
    fitted.fit(x, y)
    theta = fitted.kernel_.theta
    return lambda: fitted.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False), _evidence


def sklearn_gram(count: int) -> Task:
    """The RBF matrix of all pairs."""
    from sklearn.metrics.pairwise import rbf_kernel

    x = problems.points(count)
    gamma = 0.5 / problems.GRAM_FEATURES
    return lambda: rbf_kernel(x, gamma=gamma), lambda found: [float(v) for v in found[:3, :3].ravel()]


def sklearn_svm(count: int) -> Task:
    """A support vector classifier, trained and asked about new points."""
    from sklearn.svm import SVC

    x, labels, new = problems.classes(count)
    gamma = 1 / (problems.SVM_FEATURES * x.var())

    def work() -> Any:
        return SVC(C=problems.SVM_C, gamma=gamma, cache_size=2000).fit(x, labels).decision_function(new)

    return work, lambda found: [float(np.square(found).mean())]


def tinygp_posterior(count: int) -> Task:
    """The same by tinygp, compiled as a whole."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from tinygp import GaussianProcess, kernels

    x, y, new = problems.regression(count)

    @jax.jit
    def predict(x: Any, y: Any, new: Any) -> Any:
        process = GaussianProcess(
            kernels.ExpSquared(problems.SCALE, distance=kernels.distance.L2Distance()), x, diag=problems.NOISE
        )
        found = process.condition(y, new).gp
        return found.loc, found.variance + problems.NOISE

    return lambda: jax.block_until_ready(predict(x, y, new)), _few


def tinygp_evidence(count: int) -> Task:
    """The same by tinygp."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    from tinygp import GaussianProcess, kernels

    x, y, _ = problems.regression(count)

    @jax.jit
    @jax.value_and_grad
    def evidence(logs: Any) -> Any:
        variance, scale, noise = jnp.exp(logs)
        kernel = variance * kernels.ExpSquared(scale, distance=kernels.distance.L2Distance())
        return GaussianProcess(kernel, x, diag=noise).log_probability(y)

    logs = jnp.log(jnp.array([1.0, problems.SCALE, problems.NOISE]))
    return lambda: jax.block_until_ready(evidence(logs)), _evidence


def _gpytorch(count: int) -> Any:
    import gpytorch
    import torch

    torch.set_num_threads(2)
    x, y, new = (torch.tensor(a) for a in problems.regression(count))

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Exact(likelihood).double()
    model.covar_module.base_kernel.lengthscale = problems.SCALE
    model.covar_module.outputscale = 1.0
    likelihood.noise = problems.NOISE
    return gpytorch, torch, model, likelihood, x, y, new


def gpytorch_posterior(count: int) -> Task:
    """The same by GPyTorch with Cholesky factors, which give the same numbers as everybody's."""
    gpytorch, torch, model, likelihood, x, y, new = _gpytorch(count)

    def work() -> Any:
        model.set_train_data(x, y, strict=False)  # forgets what was computed
        model.eval()
        likelihood.eval()
        with (
            torch.no_grad(),
            gpytorch.settings.max_cholesky_size(10**6),
            gpytorch.settings.skip_posterior_variances(False),
        ):
            found = likelihood(model(new))
            return found.mean.numpy(), found.variance.numpy()

    return work, _few


def gpytorch_evidence(count: int) -> Task:
    """The same by GPyTorch; slopes by the logarithms follow from those by its own parameters."""
    gpytorch, torch, model, likelihood, x, y, _ = _gpytorch(count)
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    model.train()
    likelihood.train()
    parameters = [
        (model.covar_module.raw_outputscale, model.covar_module.raw_outputscale_constraint),
        (
            model.covar_module.base_kernel.raw_lengthscale,
            model.covar_module.base_kernel.raw_lengthscale_constraint,
        ),
        (likelihood.noise_covar.raw_noise, likelihood.noise_covar.raw_noise_constraint),
    ]

    def work() -> Any:
        model.zero_grad()
        with gpytorch.settings.max_cholesky_size(10**6):
            value = marginal(model(x), y) * len(y)
            value.backward()
        slopes = []
        for raw, constraint in parameters:
            at = raw.detach().clone().requires_grad_()
            transformed = constraint.transform(at)
            (rate,) = torch.autograd.grad(transformed.sum(), at)
            slopes.append(float((raw.grad / rate * transformed.detach()).sum()))
        return float(value), slopes

    return work, _evidence


TASKS: dict[str, dict[str, Callable[..., Task]]] = {
    "scikit-learn": {
        "posterior": sklearn_posterior,
        "evidence": sklearn_evidence,
        "gram": sklearn_gram,
        "svm": sklearn_svm,
    },
    "tinygp": {"posterior": tinygp_posterior, "evidence": tinygp_evidence},
    "gpytorch": {"posterior": gpytorch_posterior, "evidence": gpytorch_evidence},
}

if __name__ == "__main__":
    serve(prepare)

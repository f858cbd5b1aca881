"""Infinite networks and sparse Gaussian processes on one GPU: seconds, memory of the device, and accuracies by size.

`--case sparse`: a process by 512 inducing inputs learns a million rows from batches, and its collapsed bound with its
gradient is followed to 50,000 rows. `--case ntk`: both kernels of all pairs of 10,000 Fashion-MNIST images, copied to
the host. `--case fashion`: accuracy of the NNGP and the NTK by the number of training images, means over draws with
their standard errors. `--case mnist`: the NNGP of 1,000 and of 50,000 images of MNIST, others to choose the
network and the ridge by, for which Lee et al. (Deep neural networks as Gaussian processes, 2018) print about 92.8 % and
98.8 %. `--case convolutional`: kernels of convolutional networks on Fashion-MNIST. Images are looked for in the folders
of `$CHAINRULE_DATA`. `--smoke` does all of it at toy sizes, on a processor too.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import BenchmarkError, Case, Growth, Local, Options, Prepared, Report, measure
from benchmarks.suite.kernels import sparse_growth
from benchmarks.workers import kernel_problems as problems
from chainrule.data import load
from chainrule.kernels import RBF, Constant, KernelRidge, Precomputed
from chainrule.kernels.gaussian_processes.likelihoods import GaussianLikelihood
from chainrule.kernels.gaussian_processes.stochastic_fitting import fit_stochastic
from chainrule.kernels.infinite import Convolutional, Dense, InfiniteNetwork, Kernels, kernel_matrices

SMOKE = True
TILE = 2**32
"""Bytes that a tile of a kernel matrix may take."""
PUBLISHED = {1_000: 92.8, 50_000: 98.8}
NETWORKS = {
    f"{activation}, depth {depth}": Dense(
        depth, activation, weight_std=weight, bias_std=0.1, normalized=False, scaled_inputs=True
    )
    for activation, weight in (("relu", 2**0.5), ("erf", 2.0))
    for depth in (1, 3)
}
"""What is chosen from for MNIST."""
RIDGES = tuple(10.0**power for power in (-4, -3, -2))
"""In units of the mean of the diagonal, for more images than one matrix is factored of on the host."""


class _Size(NamedTuple):
    """How much of everything."""

    rows: int
    inducing: int
    steps: int
    images: int
    """Whose Gram matrix is built."""
    trained: tuple[tuple[int, int], ...]
    """Numbers of training images, and draws of each."""
    tested: int
    mnist: tuple[int, int]
    filtered: tuple[int, ...]
    """Training images of convolutional networks."""


FULL = _Size(
    1_000_000,
    512,
    2_000,
    10_000,
    ((100, 20), (300, 10), (1_000, 5), (3_000, 3), (10_000, 1)),
    10_000,
    (1_000, 50_000),
    (1_000, 5_000),
)
TOY = _Size(2_000, 16, 20, 60, ((20, 2), (60, 1)), 50, (40, 80), (20,))
_Part = tuple[list[Case], list[Growth], list[str]]


def run(options: Options) -> Report:
    """Measure what was asked for."""
    options.chosen([])  # nobody to compare with: published figures are
    if jax.default_backend() != "gpu" and not options.smoke:
        raise BenchmarkError("no GPU found: this benchmark is for one; --smoke shows that it runs")
    size = TOY if options.smoke else FULL
    cases: list[Case] = []
    grown: list[Growth] = []
    notes: list[str] = []
    for name, part in PARTS.items():
        if options.case not in (None, name):
            continue
        print(f"{name} ...", flush=True)
        found, growth, said = part(options, size)
        cases += found
        grown += growth
        notes += said
        print("\n".join(said), flush=True)
    return Report(tuple(cases), tuple(grown), tuple(notes), {"device": jax.devices()[0].device_kind})


def _sparse(options: Options, size: _Size) -> _Part:
    x, y, _ = problems.regression(size.rows + 1_000)
    kernel, likelihood = Constant(1.0) * RBF(1.0), GaussianLikelihood(1.0)

    def learn(steps: int) -> Any:
        return fit_stochastic(
            kernel, likelihood, x[:-1_000], y[:-1_000], inducing=size.inducing, steps=steps, batch=1_024
        )

    compiled, _ = _timed(lambda: learn(25))
    seconds, found = _timed(lambda: learn(size.steps))
    peak = _peak()
    missed = float(np.sqrt(np.square(y[-1_000:] - found.process.predict(x[-1_000:]).mean).mean()))
    said = (
        f"{size.rows:,} rows by {size.inducing} inducing inputs, {size.steps:,} batches of 1,024: {seconds:.1f} s "
        f"with the clusters that they begin at (first call {compiled:.1f} s), {peak} of the device; root mean square "
        f"error of 1,000 new rows {missed:.4f} (noise {problems.NOISE**0.5:.4f})"
    )
    return [], [] if options.smoke else list(sparse_growth(options.rounds)), [said]


def _ntk(options: Options, size: _Size) -> _Part:
    x = _images("fashion-mnist", size)[0][: size.images]
    label = f"both kernels of {len(x):,} images of 784 pixels, three hidden layers"

    def work() -> Kernels:
        return kernel_matrices(_wide(), x, memory=TILE)

    def prepare() -> Prepared:
        seconds, found = _timed(work)
        return Prepared([float(found.ntk[0, 0])], seconds)

    case, _ = measure(
        label,
        [Local("chainrule", prepare, lambda: _timed(work)[0])],
        rounds=options.rounds,
        tolerance=0,
        watch=options.watch,
    )
    seconds = case.ours.summary.median
    said = (
        f"{label}: {seconds:.2f} s, {len(x) ** 2 / 2 / seconds:,.0f} pairs a second, {_peak()} of the device, "
        f"{16 * len(x) ** 2 / 1e9:.1f} GB on the host"
    )
    return [case], [], [said]


def _fashion(options: Options, size: _Size) -> _Part:
    del options  # accuracies are found once
    x, y, new, labels = _images("fashion-mnist", size)
    most = size.trained[-1][0]
    return (
        [],
        [],
        [
            f"fashion-mnist, dense, {line}"
            for line in _by_size(_wide(), x[:most], y[:most], new, labels, size.trained, memory=TILE)
        ],
    )


def _convolutional(options: Options, size: _Size) -> _Part:
    del options
    x, y, new, labels = _images("fashion-mnist", size)
    most = size.filtered[-1]
    network = Convolutional(3, "relu", window=(3, 3), weight_std=2**0.5, bias_std=0.1, readout_std=2**0.5)
    few = tuple((count, 1) for count in size.filtered)
    seconds, lines = _timed(
        lambda: _by_size(
            network,
            x[:most].reshape(-1, 28, 28, 1),
            y[:most],
            new.reshape(-1, 28, 28, 1),
            labels,
            few,
            memory=2 * TILE,
        )
    )
    return (
        [],
        [],
        [
            *(f"fashion-mnist, three convolutions of 3 x 3, flattened, {line}" for line in lines),
            f"convolutional kernels of {most:,} images with each other and {len(new):,} more, and the fits: "
            f"{seconds:.0f} s",
        ],
    )


def _by_size(
    network: InfiniteNetwork,
    x: np.ndarray,
    y: np.ndarray,
    new: np.ndarray,
    labels: np.ndarray,
    sizes: Sequence[tuple[int, int]],
    memory: int,
) -> list[str]:
    """Accuracy of either kernel by the number of training images, the ridge by leaving one out."""
    own, across = (kernel_matrices(network, x, other, memory=memory) for other in (None, new))
    lines = []
    for count, draws in sizes:
        parts = [np.random.default_rng(draw).permutation(len(x))[:count] for draw in range(draws)]
        said = []
        for name, matrix, towards in (("nngp", own.nngp, across.nngp), ("ntk", own.ntk, across.ntk)):
            shares = [
                _share(matrix[np.ix_(part, part)], towards[part], _one_hot(y[part]), labels) for part in parts
            ]
            spread = f" +- {np.std(shares, ddof=1) / draws**0.5:.2f}" if draws > 1 else ""
            said.append(f"{name} {np.mean(shares):.2f}{spread} %")
        lines.append(f"{count:,} images: {', '.join(said)}")
    return lines


def _share(matrix: np.ndarray, across: np.ndarray, values: np.ndarray, labels: np.ndarray) -> float:
    fitted = KernelRidge(Precomputed(matrix)).fit(np.arange(len(matrix))[:, None], values)
    return _percent(fitted.predict(gram=across.T), labels)  # type: ignore[call-arg]


def _mnist(options: Options, size: _Size) -> _Part:
    del options
    x, y, new, labels = _images("mnist", size)
    few, many = size.mnist
    rest = slice(many, many + size.tested)
    scores = {}
    for name, network in NETWORKS.items():
        own, across = (
            kernel_matrices(network, x[:few], other, ntk=False, memory=TILE).nngp for other in (None, x[rest])
        )
        scores[name] = _share(own, across, _one_hot(y[:few]), y[rest])
    best = max(scores, key=lambda name: scores[name])
    network = NETWORKS[best]
    own, across = (
        kernel_matrices(network, x[:few], other, ntk=False, memory=TILE).nngp for other in (None, new)
    )
    said = [
        f"mnist, networks by {len(x[rest]):,} further images: "
        + ", ".join(f"{name} {share:.2f} %" for name, share in scores.items()),
        f"mnist, {best}, {few:,} images: nngp {_share(own, across, _one_hot(y[:few]), labels):.2f} % "
        f"(published {PUBLISHED[1_000]} %)",
    ]
    began = time.perf_counter()
    asked = np.concatenate([x[rest], new])
    own, across = (
        kernel_matrices(network, x[:many], other, ntk=False, memory=TILE).nngp for other in (None, asked)
    )
    built = time.perf_counter() - began
    outputs = _solved(own, across, _one_hot(y[:many]))
    judged = {ridge: _percent(out[: -len(new)], y[rest]) for ridge, out in outputs.items()}
    ridge = max(judged, key=lambda r: judged[r])
    said.append(
        f"mnist, {best}, {many:,} images: nngp {_percent(outputs[ridge][-len(new) :], labels):.2f} % (published "
        f"{PUBLISHED[50_000]} %), ridge {ridge:g}; kernels {built:.0f} s, {len(RIDGES)} solutions "
        f"{time.perf_counter() - began - built:.0f} s, {_peak()} of the device"
    )
    return [], [], said


def _solved(matrix: np.ndarray, across: np.ndarray, values: np.ndarray) -> dict[float, np.ndarray]:
    """Outputs at new points for every ridge, factored on the device."""
    with jax.enable_x64(True):
        placed, rows, targets = (jnp.asarray(part) for part in (matrix, across, values))
        unit = float(np.diagonal(matrix).mean())
        return {ridge: np.asarray(_outputs(placed, rows, targets, ridge * unit)) for ridge in RIDGES}


@jax.jit
def _outputs(matrix: Any, across: Any, values: Any, ridge: Any) -> Any:
    raised = matrix.at[jnp.diag_indices(len(matrix))].add(ridge)
    lower = jax.lax.linalg.cholesky(raised, symmetrize_input=False)
    return across.T @ jax.scipy.linalg.cho_solve((lower, True), values)


def _wide() -> InfiniteNetwork:
    """That of the models `nngp` and `ntk` unless they are told otherwise."""
    return Dense(3, "relu", weight_std=2**0.5, bias_std=0.1, normalized=False, scaled_inputs=True)


def _images(name: str, size: _Size) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images as rows less their mean and their classes in an order of chance, and the same of test images."""
    data = load(name)
    x, new = (np.asarray(part.x, np.float64).reshape(len(part), -1) for part in (data.train, data.test))
    order = np.random.default_rng(0).permutation(len(x))
    centre = x.mean(axis=0)
    y, labels = np.asarray(data.train.y), np.asarray(data.test.y)
    return x[order] - centre, y[order], (new - centre)[: size.tested], labels[: size.tested]


def _one_hot(y: np.ndarray) -> np.ndarray:
    return np.eye(10)[y] - 0.1


def _percent(outputs: np.ndarray, labels: np.ndarray) -> float:
    return 100 * float((outputs.argmax(axis=1) == labels).mean())


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def _peak() -> str:
    """The most memory of the device that was in use so far; what takes little is measured first."""
    found = jax.devices()[0].memory_stats()
    return "unknown memory" if found is None else f"at most {found['peak_bytes_in_use'] / 2**20:,.0f} MiB"


PARTS: dict[str, Callable[[Options, _Size], _Part]] = {
    "sparse": _sparse,
    "ntk": _ntk,
    "fashion": _fashion,
    "convolutional": _convolutional,
    "mnist": _mnist,
}
CHOICES = tuple(PARTS)

__all__ = ["run"]

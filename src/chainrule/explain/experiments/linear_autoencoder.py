"""Linear auto-encoders and PCA: gradients find the subspace of the principal axes, and not the axes themselves."""

import itertools
import math
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Heatmap, Lines, Picture, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Positive, Settings
from chainrule.probability.linear import principal_angles, projector, reconstruction_error

_WATCHED = 200
"""Moments of training that are looked at."""
_SUBSPACES = 100
"""Choices of axes that are examined, at most."""


@final
class LinearAutoencoderSettings(Settings):
    """The data and the training."""

    variances: tuple[Positive, ...] = Field(
        (4.0, 2.0, 1.0, 0.5, 0.25, 0.1),
        min_length=2,
        max_length=40,
        description="of the data along their principal axes, which point anywhere",
    )
    latent: int = Field(2, ge=1, description="entries of the code, fewer than there are variances")
    layers: int = Field(1, ge=1, le=4, description="matrices in the encoder and in the decoder each")
    steps: int = Field(3000, ge=10, le=100_000, description="steps of Adam on the exact mean error")
    lr: float = Field(0.02, gt=0, description="learning rate, which falls to zero along a cosine")
    seed: int = Field(0, ge=0, description="directions of the axes, and initial weights")


class _Watched(NamedTuple):
    """What training looked like at some steps."""

    steps: np.ndarray
    losses: np.ndarray
    angles: np.ndarray
    """In degrees, of shape (steps, latent), smallest first."""
    distances: np.ndarray
    """Between WV and the projector onto the principal axes, by Frobenius norm."""


def run(settings: LinearAutoencoderSettings, listener: Listener) -> Outcome:
    """Train by gradients, in double precision, and hold everything against PCA."""
    size, k = len(settings.variances), settings.latent
    if k >= size:
        raise ArgumentError(
            f"latent={k}: with {size} variances the code has fewer entries than that",
            remedy=f"use latent={size - 1} or less",
        )
    draw = np.random.default_rng(settings.seed)
    variances = np.sort(np.asarray(settings.variances))[::-1]
    turned = np.linalg.qr(draw.normal(size=(size, size)))[0]
    moments = (turned * variances[None]) @ turned.T
    best, least = turned[:, :k], float(variances[k:].sum())
    with jax.enable_x64(True):
        watched, w, v = _trained(settings, moments, best, draw)
        listener(f"error {watched.losses[-1]:.6g}; the variances left out sum to {least:.6g}")
        points = _critical(moments, turned, variances, k)
    numbers = {
        "loss": float(watched.losses[-1]),
        "discarded": least,
        "relative_excess": float(watched.losses[-1] / least - 1),
        "projector_distance": float(watched.distances[-1]),
        "first_angles": watched.angles[0].tolist(),
        "angles": watched.angles[-1].tolist(),
        "loss_at_zero": float(reconstruction_error(0 * w, 0 * v, moments)),
        "critical_points": len(points),
        "saddles": sum(curvature < 0 for _, _, curvature in points),
        "column_cosine": _nearest_cosine(best.T @ w),
    }
    pictures: list[Picture] = [
        _losses(watched, least),
        _angles(watched),
        _path(w, v, moments, least),
        _mixing(best.T @ w),
    ]
    table = Table(
        "critical-points",
        "Subspaces of principal axes",
        ["axes", "error", "smallest curvature of the loss"],
        [[*point] for point in points],
        caption="Curvatures are eigenvalues of the Hessian in (V, W); where one is negative the point is a saddle.",
    )
    return Outcome(_findings(settings, numbers), pictures, table, numbers)


def _findings(settings: LinearAutoencoderSettings, found: dict[str, Any]) -> list[str]:
    k, first, last = settings.latent, found["first_angles"][-1], found["angles"][-1]
    return [
        f"After {settings.steps} steps the error is {found['loss']:.6g}; the variances that PCA leaves out sum to "
        f"{found['discarded']:.6g} ({found['relative_excess']:.1e} relative difference).",
        f"WV is {found['projector_distance']:.1e} from the projector onto the first {k} principal axes (Frobenius "
        f"norm); the largest principal angle has fallen from {first:.1f} to {last:.2g} degrees.",
        f"The columns of W need not be principal axes: the one furthest from any has a cosine of "
        f"{found['column_cosine']:.2f} with the nearest. W Q and Q^-1 V rebuild the same for every invertible Q.",
        f"Between (V, W) and (-V, -W), which rebuild the same, lies (0, 0) with an error of "
        f"{found['loss_at_zero']:.4g}: the problem is not convex.",
        f"Of {found['critical_points']} subspaces spanned by principal axes, all of them critical points, "
        f"{found['saddles']} are saddles.",
    ]


def _nearest_cosine(mix: np.ndarray) -> float:
    """Over the columns, the least of their largest cosines with an axis."""
    return float(np.abs(mix / np.linalg.norm(mix, axis=0)[None]).max(axis=0).min())


def _trained(
    settings: LinearAutoencoderSettings, moments: np.ndarray, best: np.ndarray, draw: np.random.Generator
) -> tuple[_Watched, np.ndarray, np.ndarray]:
    """Adam on the exact error of products of matrices, looked at now and then."""
    size, k, layers = len(moments), settings.latent, settings.layers
    shapes = [(size, size)] * (layers - 1) + [(size, k), (k, size)] + [(size, size)] * (layers - 1)
    start = [jnp.asarray(draw.normal(size=shape) / math.sqrt(size)) for shape in shapes]
    optimizer = optax.adam(optax.cosine_decay_schedule(settings.lr, settings.steps))

    def halves(matrices: list[Any]) -> tuple[Any, Any]:
        w, v = matrices[layers - 1], matrices[layers]
        for number in range(layers - 2, -1, -1):
            w = matrices[number] @ w
        for matrix in matrices[layers + 1 :]:
            v = v @ matrix
        return w, v

    def loss(matrices: list[Any]) -> Any:
        return reconstruction_error(*halves(matrices), jnp.asarray(moments))

    def step(carry: Any, _: None) -> Any:
        matrices, state = carry
        value, slope = jax.value_and_grad(loss)(matrices)
        change, state = optimizer.update(slope, state)
        return (optax.apply_updates(matrices, change), state), (value, *halves(matrices))

    @jax.jit
    def train(matrices: list[Any]) -> Any:
        last, seen = jax.lax.scan(step, (matrices, optimizer.init(matrices)), None, length=settings.steps)
        return seen, (loss(last[0]), *halves(last[0]))

    seen, end = train(start)
    chosen = np.unique(np.geomspace(1, settings.steps, _WATCHED).astype(int)) - 1
    losses, ws, vs = (
        np.concatenate([np.asarray(one)[chosen], np.asarray(final)[None]])
        for one, final in zip(seen, end, strict=True)
    )
    target = projector(best)
    angles = np.degrees([principal_angles(w.T, best.T) for w in ws])
    distances = np.array([np.linalg.norm(w @ v - target) for w, v in zip(ws, vs, strict=True)])
    return _Watched(np.append(chosen, settings.steps), losses, angles, distances), ws[-1], vs[-1]


def _critical(
    moments: np.ndarray, axes: np.ndarray, variances: np.ndarray, k: int
) -> list[tuple[str, float, float]]:
    """Every subspace spanned by k principal axes, its error, and the least curvature of the loss there."""
    size = len(moments)

    @jax.jit
    def curvature(basis: Any) -> Any:
        def loss(flat: Any) -> Any:
            w, v = flat[: size * k].reshape(size, k), flat[size * k :].reshape(k, size)
            return reconstruction_error(w, v, jnp.asarray(moments))

        at = jnp.concatenate([basis.ravel(), basis.T.ravel()])
        return jnp.linalg.eigvalsh(jax.hessian(loss)(at))[0]

    found = []
    for chosen in itertools.islice(itertools.combinations(range(size), k), _SUBSPACES):
        name = ", ".join(str(number + 1) for number in chosen)
        error = float(variances.sum() - variances[list(chosen)].sum())
        least = float(curvature(jnp.asarray(axes[:, list(chosen)])))
        found.append((name, error, 0.0 if abs(least) < 1e-9 else least))
    return found


def _losses(watched: _Watched, least: float) -> Lines:
    return Lines(
        "linear-loss",
        "Error while training",
        "step",
        "mean squared error",
        {
            "auto-encoder": (watched.steps + 1.0, watched.losses),
            "variances left out by PCA": (watched.steps + 1.0, np.full(len(watched.steps), least)),
        },
        log_x=True,
        log_y=True,
        caption="No linear auto-encoder gets below the sum of the variances that PCA leaves out.",
    )


def _angles(watched: _Watched) -> Lines:
    numbers = range(watched.angles.shape[1])
    return Lines(
        "principal-angles",
        "Angles to the subspace of PCA",
        "step",
        "principal angle in degrees",
        {f"angle {i + 1}": (watched.steps + 1.0, np.maximum(watched.angles[:, i], 1e-6)) for i in numbers},
        log_x=True,
        log_y=True,
        caption="Between the span of the columns of W and that of the first principal axes; zero when they "
        "agree, drawn no lower than 10⁻⁶.",
    )


def _path(w: np.ndarray, v: np.ndarray, moments: np.ndarray, least: float) -> Lines:
    shares = np.linspace(1, -1, 101)
    errors = np.array([reconstruction_error(t * w, t * v, moments) for t in shares])
    return Lines(
        "linear-path",
        "From (V, W) to (-V, -W)",
        "factor on both matrices",
        "mean squared error",
        {"on the line": (shares, errors), "of PCA": (shares, np.full(len(shares), least))},
        caption="Both ends rebuild the same; halfway lies (0, 0), which rebuilds nothing.",
    )


def _mixing(mix: np.ndarray) -> Heatmap:
    rows, columns = mix.shape
    return Heatmap(
        "linear-mix",
        "What the columns of W are made of",
        "column of W",
        "principal axis",
        mix,
        rows=[str(i + 1) for i in range(rows)],
        columns=[str(i + 1) for i in range(columns)],
        numbers=True,
        diverging=True,
        caption="Columns of W in coordinates along the principal axes. PCA itself would be the identity; any "
        "invertible matrix rebuilds as well.",
    )


experiment = Experiment(
    "A linear auto-encoder trained by gradients finds the subspace of PCA, up to a mix of its axes.",
    LinearAutoencoderSettings,
    run,
    toy={"steps": 50, "variances": (2.0, 1.0, 0.5), "latent": 1},
    reference="Baldi and Hornik, Neural networks and principal component analysis, Neural Networks 1989",
)

__all__ = ["LinearAutoencoderSettings", "experiment", "run"]

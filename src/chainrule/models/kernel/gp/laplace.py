"""The Gaussian process of classes by Laplace's approximation, as a model: all kept examples at once.

Kernel and mode come from one run of training. The kernel is learnt by the approximate evidence of some examples, and
rounded to the precision of the model before the mode of the latent functions at all kept examples is found; answers are
computed in double precision, from the curvature at the mode.
"""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels import Kernel
from chainrule.kernels.gaussian_processes import classification_laplace as laplace
from chainrule.kernels.gaussian_processes.classification import LaplaceClassifier, LaplacePosterior, averaged
from chainrule.kernels.kernel import TILE
from chainrule.kernels.precision import in_double
from chainrule.kernels.wide import Wide, WideTriangle, doubled
from chainrule.models.kernel import keeping
from chainrule.models.kernel.gp import laplace_pictures
from chainrule.models.kernel.gp.settings import GPConfig, kernel_from, learnt_by_laplace, likelihood_of
from chainrule.models.kernel.settings import rows
from chainrule.models.protocol import HasLogits, HasOwnTraining, HasPictures, Metrics, supervised_loss

_STEPS = 100
"""Of L-BFGS on the approximate evidence."""
_AT_ONCE = 16 * TILE
"""Kernels of new examples with kept ones, for every latent function, that are held at once."""


@final
class LaplaceGPClassifier(HasOwnTraining, HasLogits, HasPictures):
    """Classes by latent functions whose posterior is a Gaussian at its mode."""

    kernel: Kernel
    points: Float[Array, "points features"]
    weights: Wide
    """`K^-1` times the latent values at the mode, a column for each latent function."""
    blocks: tuple[WideTriangle, ...]
    """Lower halves of `(K + D^-1)^-1`, D the curvature of the likelihood, for each latent function."""
    coupling: WideTriangle | None
    """What ties the latent functions of several classes together; none for two classes, which have one."""
    done: Bool[Array, ""]
    config: GPConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: GPConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        count, latents = keeping.room(config.points), likelihood_of(config, schema).latents
        empty = WideTriangle(jnp.eye(count), jnp.zeros(count))
        self.kernel = kernel_from(config, schema.dimensions)
        self.points = jnp.zeros((count, schema.dimensions))
        self.weights = Wide(jnp.zeros((count, latents)), jnp.zeros((count, latents)))
        self.blocks = (empty,) * latents
        self.coupling = empty if latents > 1 else None
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def predict(self, x: Array) -> Float[Array, "batch classes"]:
        """Probabilities, averaged over the latent functions."""
        dtype = jnp.promote_types(self.points.dtype, jnp.float32)
        found: Array = doubled(_probabilities, self, x, dtype=dtype)
        return found

    def logits(self, x: Array) -> Float[Array, "batch classes"]:
        """Logarithms of the probabilities."""
        p = self.predict(x)
        return jnp.log(jnp.maximum(p, jnp.finfo(p.dtype).tiny))

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Cross-entropy of the probabilities in nats, with the accuracy."""
        del key
        return supervised_loss(self.schema, self.logits(batch.x), batch.y)

    def iterate(self, examples: Batch, key: Key) -> tuple["LaplaceGPClassifier", Metrics]:
        """The kernel of the highest approximate evidence, then the mode."""
        part = keeping.part(examples, key, len(self.points))
        x, y = rows(part.x), np.asarray(part.y)
        likelihood, kernel = likelihood_of(self.config, self.schema), self.kernel
        if self.config.learn:
            some = _of_every_class(y, learnt_by_laplace(likelihood.latents))
            kernel = LaplaceClassifier(kernel, likelihood).fit(x[some], y[some]).optimize(_STEPS).kernel
        dtype = self.points.dtype
        kernel = jax.tree.map(lambda a: jnp.asarray(a, dtype), kernel)
        fitted = LaplaceClassifier(kernel, likelihood).fit(x, y)
        blocks, coupling = _curvature(fitted)
        new = eqx.tree_at(
            lambda m: (m.kernel, m.points, m.weights, m.blocks, m.coupling, m.done),
            self,
            (
                kernel,
                jnp.asarray(x, dtype),
                Wide.of(np.asarray(fitted.mode.weights).T, dtype),
                tuple(WideTriangle.of(block, dtype) for block in blocks),
                None if coupling is None else WideTriangle.of(coupling, dtype),
                jnp.ones((), bool),
            ),
            is_leaf=lambda leaf: leaf is None,
        )
        metrics = {
            "loss": -fitted.log_marginal_likelihood / len(x),
            "newton_steps": float(fitted.mode.steps),
        }
        return new, {name: jnp.asarray(value) for name, value in metrics.items()}

    @property
    def converged(self) -> bool:
        """After the mode was found."""
        return bool(self.done)

    def known(self) -> Float[np.ndarray, "points features"]:
        """The examples that are kept, in model units."""
        return np.asarray(self.points)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """What was learnt, which columns matter, how sure it is, what the kernel takes for alike."""
        del key
        return laplace_pictures.all_of(self, data)


def _of_every_class(y: Int[np.ndarray, " rows"], most: int) -> Int[np.ndarray, " some"]:
    """About so many examples, spread evenly over every class, and one of each class at least."""
    order = np.argsort(y, kind="stable")
    first = np.unique(y, return_index=True)[1]
    return np.union1d(order[keeping.spread(len(y), most)], first)


@in_double
@eqx.filter_jit
def _curvature(fitted: LaplacePosterior) -> tuple[Any, Any]:
    """What predictions need of the curvature at the mode."""
    gram = fitted.kernel.gram(fitted.x)
    bent, _ = laplace.curvature(fitted.likelihood, gram, fitted.mode.latent, jnp.asarray(fitted.y))
    return bent.blocks, bent.coupling


def _probabilities(model: LaplaceGPClassifier, x: Array) -> Float[Array, "batch classes"]:
    """By a model in double precision, some examples at a time."""
    likelihood = likelihood_of(model.config, model.schema)
    halves = jnp.stack([block.double() for block in model.blocks])
    # Before training nothing is known: probabilities are those of the prior.
    blocks = jnp.where(model.done, halves + jnp.tril(halves, -1).mT, 0.0)
    coupling = None if model.coupling is None else model.coupling.double()
    bent = laplace.Curvature(blocks, coupling, jnp.zeros((), blocks.dtype))
    weights = model.weights.double().T

    def of_rows(some: Array) -> Array:
        across, own = model.kernel.tile(model.points, some), model.kernel.diagonal(some)
        return averaged(likelihood, *laplace.predicted(bent, weights, across, own))

    flat = x.reshape(len(x), -1)
    at_once = max(1, _AT_ONCE // (len(weights) * len(model.points)))
    if len(x) <= at_once:
        return of_rows(flat)
    return jax.lax.map(lambda row: of_rows(row[None])[0], flat, batch_size=at_once)


__all__ = ["LaplaceGPClassifier"]

"""The path of training through the space of the weights, in the plane of its principal components.

The plane is that of the two main directions of the visited weights (principal components; Li et al., *Visualizing the
loss landscape of neural nets*, NeurIPS 2018, arXiv:1712.09913) and goes through the last of them. Two directions hold
much of any path: of a random walk in many dimensions, which goes nowhere, the first holds 61 % of the variance and the
second 15 % (Antognini and Sohl-Dickstein, *PCA of high dimensional random walks with comparison to neural network
training*, NeurIPS 2018, arXiv:1806.08805). `random_walk` is what to hold a share against.
"""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Tree
from chainrule.explain.methods.landscape import shapes, weights_of
from chainrule.models.protocol import Model

FEWEST = 4
"""Points of a path; any three lie in a plane."""


@final
class TrainingPath(eqx.Module):
    """A path of weights in the plane of its two main directions."""

    ways: tuple[Tree, Tree]
    """The directions: of unit length, at right angles to each other."""
    coordinates: Float[np.ndarray, "points 2"]
    """Where the points of the path lie on the plane, seen from the last."""
    shares: Float[np.ndarray, "2"]
    """How much of the variance of the path each direction holds."""
    away: Float[np.ndarray, " points"]
    """How far the points lie from the plane."""


def main_plane(models: Sequence[Model]) -> TrainingPath:
    """The plane that holds most of a path of models, by a principal component analysis of everything gradients move.

    It is computed from the products of the points with each other, leaf by leaf in double precision: the weights of
    large models never lie in one matrix.
    """
    if len(models) < FEWEST:
        raise ArgumentError(
            f"a path of {len(models)} points: two directions hold all of it", remedy=f"give at least {FEWEST}"
        )
    weights = [weights_of(model) for model in models]
    if any(shapes(other) != shapes(weights[0]) for other in weights):
        raise ArgumentError(
            "a path of models whose weights have different shapes", remedy="give one model at different steps"
        )
    columns = [
        np.stack([np.asarray(leaf, np.float64).ravel() for leaf in leaves])
        for leaves in zip(*map(jax.tree.leaves, weights), strict=True)
    ]
    seen = [column - column[-1] for column in columns]
    products = sum(column @ column.T for column in seen)
    centre = np.eye(len(models)) - 1 / len(models)
    variances, mixtures = np.linalg.eigh(centre @ products @ centre)
    if variances[-2] <= 1e-12 * max(variances[-1], 1e-300):
        raise ArgumentError(
            "a path that does not leave a straight line has no second direction",
            remedy="give points between which training moved",
        )
    chosen = centre @ mixtures[:, [-1, -2]] / np.sqrt(variances[[-1, -2]])
    chosen = chosen * np.where((products @ chosen)[0] < 0, -1, 1)  # the path begins on the positive side
    coordinates = products @ chosen
    away = np.sqrt(np.maximum(np.diagonal(products) - (coordinates**2).sum(axis=1), 0))
    first, second = (_direction(weights[-1], seen, mixture) for mixture in chosen.T)
    return TrainingPath((first, second), coordinates, variances[[-1, -2]] / variances.sum(), away)


def random_walk(points: int) -> Float[np.ndarray, " directions"]:
    """The share of variance that each main direction of a random walk in many dimensions holds, largest first.

    Seen from their mean, the points of a walk are its steps times the pseudo-inverse of the difference matrix, so
    that the variances are the inverse eigenvalues of the Laplacian of a chain, `2 - 2 cos(pi k / points)`.

    >>> random_walk(1000)[:2].round(3).tolist()
    [0.608, 0.152]
    """
    values = 1 / (2 - 2 * np.cos(np.pi * np.arange(1, points) / points))
    return np.asarray(values / values.sum())


def _direction(like: Tree, columns: Sequence[np.ndarray], mixture: np.ndarray) -> Tree:
    leaves, structure = jax.tree.flatten(like)
    parts = [
        jnp.asarray((mixture @ column).reshape(leaf.shape), leaf.dtype)
        for leaf, column in zip(leaves, columns, strict=True)
    ]
    return jax.tree.unflatten(structure, parts)


__all__ = ["FEWEST", "TrainingPath", "main_plane", "random_walk"]

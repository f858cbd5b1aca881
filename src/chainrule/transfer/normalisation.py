"""Statistics of another domain in the batch normalisations of a trained network; nothing else is changed.

A network that normalises by running averages carries the means and variances of its training data. In another domain
activations lie elsewhere, and every layer after the first sees numbers that it was never shown. Averages over examples
of that domain, which need no labels, put them back. The network of the source stays as it is: each domain has its own.

Reference: Li, Wang, Shi, Liu and Hou, Revisiting batch normalization for practical domain adaptation, 2017,
arXiv:1603.04779.
"""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule import models
from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Key
from chainrule.models.protocol import HasOutputs, Model
from chainrule.nn.normalize import BatchNorm

M = TypeVar("M", bound=Model)


def domain_statistics(model: M, x: Any, *, batch: int = 256) -> M:
    """The model with means and variances of these examples (in model units, as in a split) in its batch normalisations.

    They are those of all batches together, the last one filled up by the first examples. More examples than one batch
    see the activations of layers below normalised by their own batch, as in training.

    >>> import chainrule as cr
    >>> digits, noisy = cr.data.load("digits"), cr.data.load("noisy-digits")
    >>> model = cr.models.build("cnn", digits, width=4, stages=1)
    >>> type(domain_statistics(model, noisy.train.x[:64])).__name__
    'CNN'
    """
    batch = whole("domain_statistics", "batch", batch)
    if not isinstance(model, HasOutputs) or not _norms(model):
        raise CapabilityError(
            f"domain_statistics: {models.title(model)} has no batch normalisation",
            remedy="its layers carry no statistics of a domain; align features instead: chainrule train dann",
        )
    rows = np.asarray(x)
    if rows.ndim != len(model.schema.shape) + 1 or rows.shape[1:] != model.schema.shape or len(rows) < 2:
        raise ArgumentError(
            f"domain_statistics(x): shape {rows.shape}, the model reads batches of {model.schema.shape}",
            remedy="give two or more examples in model units, such as data.train.x",
        )
    size = min(batch, len(rows))
    numbers = np.arange(-(-len(rows) // size) * size) % len(rows)
    anew = _mapped(model, lambda norm: _afresh(norm))
    key = random.key(0, "statistics of a domain")
    seen = [_norms(_advanced(anew, jnp.asarray(rows[part]), key)) for part in numbers.reshape(-1, size)]
    together = iter([_together(each) for each in zip(*seen, strict=True)])

    def settled(norm: BatchNorm) -> BatchNorm:
        return eqx.tree_at(lambda one: (one.mean, one.var), norm, next(together))

    return _mapped(model, settled)


@eqx.filter_jit
def _advanced(model: Any, x: Array, key: Key) -> Any:
    return eqx.nn.inference_mode(model, value=False).outputs(x, key)[1]


def _together(norms: tuple[BatchNorm, ...]) -> tuple[Array, Array]:
    """Mean and variance of batches of one size, taken together."""
    means, variances = (jnp.stack([getattr(norm, name) for norm in norms]) for name in ("mean", "var"))
    return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)


def _afresh(norm: BatchNorm) -> BatchNorm:
    """The same layer, which keeps nothing of earlier batches."""
    fresh = BatchNorm(len(norm.scale), eps=norm.eps, new_weight=1.0, unbiased=norm.unbiased)
    return eqx.tree_at(
        lambda one: (one.scale, one.shift, one.mean, one.var),
        fresh,
        (norm.scale, norm.shift, norm.mean, norm.var),
    )


def _norms(model: Any) -> list[BatchNorm]:
    leaves = jax.tree.leaves(model, is_leaf=lambda node: isinstance(node, BatchNorm))
    return [leaf for leaf in leaves if isinstance(leaf, BatchNorm)]


def _mapped(model: M, change: Any) -> M:
    """The model with every batch normalisation changed, in the order of `_norms`."""
    return jax.tree.map(
        lambda node: change(node) if isinstance(node, BatchNorm) else node,
        model,
        is_leaf=lambda node: isinstance(node, BatchNorm),
    )


__all__ = ["domain_statistics"]

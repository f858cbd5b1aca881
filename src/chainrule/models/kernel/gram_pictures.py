"""Pictures of Gram matrices: which examples a kernel takes for alike, and how many directions it tells apart."""

from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Float

from chainrule.core.pictures import Heatmap, Lines
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.kernels import Kernel
from chainrule.kernels.precision import widened
from chainrule.models.kernel import keeping
from chainrule.models.kernel.settings import rows

_SHOWN = 120
"""Examples in a heat map."""
_DECOMPOSED = 600
"""Examples whose Gram matrix is decomposed."""


Gram = Callable[[Float[np.ndarray, "rows features"]], Float[np.ndarray, "rows rows"]]
"""The kernel matrix of examples as rows."""


def similarities(gram: Gram, data: Data) -> Heatmap:
    """The kernel of training examples, sorted by class or by value."""
    target = targets.of(data.schema)
    some = keeping.spread(len(data.train), _SHOWN)
    batch = data.train.batch(some)
    names: list[str] = []
    order, by = np.arange(len(some)), ""
    if target.one_class:
        y = np.asarray(batch.y)
        order, by = np.argsort(y, kind="stable"), "sorted by class"
        names = [data.schema.classes[int(i)] for i in y[order]]
    elif target.has_values:
        order, by = np.argsort(np.asarray(batch.y).reshape(len(some), -1)[:, 0]), "sorted by value"
    return Heatmap(
        "gram",
        "Which examples the kernel takes for alike",
        "training example",
        "training example",
        gram(rows(batch.x)[order]),
        rows=names,
        columns=names,
        caption=f"{len(some)} training examples{', ' + by if by else ''}.",
    )


def spectrum(gram: Gram, data: Data, most: int = _DECOMPOSED) -> Lines:
    """Eigenvalues of the Gram matrix of so many examples in shares of their sum, with the effective rank."""
    some = keeping.spread(len(data.train), min(most, _DECOMPOSED))
    values = np.maximum(np.linalg.eigvalsh(gram(rows(data.train.batch(some).x)))[::-1], 0.0)
    shares = values / values.sum()
    rank = effective_rank(shares)
    shown = shares > 1e-12
    return Lines(
        "spectrum",
        "Eigenvalues of the Gram matrix",
        "number",
        "share of the sum",
        {f"{len(some)} training examples": (np.arange(1.0, len(shares) + 1)[shown], shares[shown])},
        log_x=True,
        log_y=True,
        marks=[(rank, f"effective rank {rank:.1f}")],
        caption="The effective rank is the exponential of the entropy of the shares: as many equal eigenvalues would "
        "have it.",
    )


def effective_rank(shares: Float[np.ndarray, " values"]) -> float:
    """The exponential of the entropy of shares (Roy and Vetterli, The effective rank, 2007).

    >>> round(effective_rank(np.array([0.5, 0.5, 0.0])), 9)
    2.0
    """
    known = shares[shares > 0]
    return float(np.exp(-(known * np.log(known)).sum()))


def exactly(kernel: Kernel) -> Gram:
    """Gram matrices of a kernel in double precision."""

    def gram(x: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows rows"]:
        with jax.enable_x64(True):
            return np.asarray(widened(kernel).gram(x))

    return gram


__all__ = ["Gram", "effective_rank", "exactly", "similarities", "spectrum"]

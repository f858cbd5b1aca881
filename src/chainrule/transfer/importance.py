"""Importance weights: source examples counted as often as the target has examples like them.

The mean of w(x) loss(x) over the source, with w the ratio of the densities of target and source, is the mean loss on
the target, wherever the source has examples at all. Weights say how much of the source is left to learn from: the
effective sample size (sum w)² / sum w². A few huge weights make the mean depend on a few examples, so weights are cut
off at a high percentile, which is a bias that is bought for less variance.

References: Shimodaira, Improving predictive inference under covariate shift, 2000; Sugiyama, Suzuki and Kanamori,
Density ratio estimation in machine learning, 2012.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError, check_choice
from chainrule.data.dataset import Data
from chainrule.data.splits import Rows
from chainrule.transfer.density_ratios import classifier_ratio, least_squares_ratio
from chainrule.transfer.mean_matching import kernel_mean_matching

BARELY = 0.1
"""Below this share of effective examples the domains are said to barely overlap."""
_FACTOR = 3.0
"""How far the mean of a ratio of densities may be from 1."""

Numbers = Float[np.ndarray, " rows"]


@final
@dataclass(frozen=True)
class ImportanceWeights:
    """What each source example counts for, one on average."""

    values: Numbers
    method: str
    clipped: int
    """How many were cut off."""
    details: dict[str, float | str] = field(default_factory=dict)
    """What the method says of itself."""
    mean_ratio: float = 1.0
    """Mean over the source of an estimated ratio of densities, before cutting off: 1 but for chance where the source
    has all that the target has. Far from it the ratio is no ratio, however even the weights are."""

    @property
    def effective_size(self) -> float:
        """How many equally weighted examples give a mean as precise: (sum w)² / sum w²."""
        return effective_size(self.values)

    @property
    def effective_share(self) -> float:
        """The effective size as a share of the examples."""
        return self.effective_size / len(self.values)

    @property
    def concern(self) -> str:
        """What is to be said against using the weights, if anything."""
        if self.effective_share < BARELY:
            return (
                f"supports barely overlap: {len(self.values):,} source examples count as {self.effective_size:.0f} "
                f"({100 * self.effective_share:.1f} %)"
            )
        if not 1 / _FACTOR <= self.mean_ratio <= _FACTOR:
            return (
                f"supports barely overlap: the ratio of densities is {self.mean_ratio:.2g} on average over the source, "
                "and 1 wherever the source has all that the target has; weights cannot make up for what is missing"
            )
        return ""

    def applied(self, data: Data) -> Data:
        """The source with these weights on its training examples; losses of models that predict count them."""
        train = data.train
        if not isinstance(train, Rows):
            raise DataError(f"{data.name}: examples that are not rows take no weights")
        if len(train) != len(self.values):
            raise ArgumentError(
                f"{len(self.values)} weights for {len(train)} training examples of {data.name}",
                remedy="weigh data.train.x",
            )
        arrays = {**train.arrays, "weight": self.values.astype(np.float32)}
        return replace(data, train=replace(train, arrays=arrays))


METHODS: dict[str, Callable[..., tuple[Numbers, dict[str, float | str]]]] = {
    "classifier": classifier_ratio,
    "kernel-mean-matching": kernel_mean_matching,
    "least-squares": least_squares_ratio,
}


def importance_weights(
    source: Any, target: Any, method: str = "classifier", *, clip: float = 99.5, **options: Any
) -> ImportanceWeights:
    """Weights of source examples under which they stand for the target.

    `classifier` is logistic regression that tells the domains apart, each example judged by folds that have not seen
    it; `kernel-mean-matching` matches mean features under bounds; `least-squares` fits the ratio itself. `clip` is the
    percentile of the weights at which they are cut off, 100 for not at all; `options` are those of the method.

    >>> rng = np.random.default_rng(0)
    >>> found = importance_weights(rng.normal(size=(300, 1)), rng.normal(0.5, size=(300, 1)))
    >>> round(float(found.values.mean()), 6), found.effective_share > 0.5, found.concern
    (1.0, True, '')
    """
    check_choice("importance_weights", "method", method, METHODS)
    if not 0 < clip <= 100:
        raise ArgumentError(f"importance_weights(clip={clip}): a percentile lies above 0 and up to 100")
    first, second = domain_rows("importance_weights", source, target)
    raw, details = METHODS[method](first, second, **options)
    found = normalised(raw, clip)
    # Mean matching is free to miss a mean of one by its slack; the mean of a ratio says what the source lacks.
    mean = 1.0 if method == "kernel-mean-matching" else float(np.mean(raw))
    result = ImportanceWeights(found, method, int((raw > np.percentile(raw, clip)).sum()), details, mean)
    if result.concern:
        warnings.warn(result.concern, ChainruleWarning, stacklevel=2)
    return result


def normalised(weights: Any, clip: float = 100.0) -> Numbers:
    """Weights cut off at a percentile and divided by their mean.

    >>> normalised([1.0, 3.0]).tolist()
    [0.5, 1.5]
    """
    values = _checked(weights)
    cut = np.minimum(values, np.percentile(values, clip))
    # Where nearly all weights are zero the percentile is, too: they are left as they are.
    cut = cut if cut.sum() > 0 else values
    return np.asarray(cut / cut.mean())


def effective_size(weights: Any) -> float:
    """How many equally weighted examples give a mean as precise.

    >>> effective_size([1.0, 1.0, 0.0])
    2.0
    """
    values = _checked(weights)
    return float(values.sum() ** 2 / np.square(values).sum())


def _checked(weights: Any) -> Numbers:
    values = np.asarray(weights, np.float64)
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any() or not values.sum() > 0:
        bad = values[~(values >= 0)][:1]
        shown = f"; one is {bad[0]:g}" if bad.size else ""
        raise ArgumentError(
            f"weights: finite numbers, none negative and not all zero, one for each row{shown}"
        )
    return values


def domain_rows(
    where: str, source: Any, target: Any
) -> tuple[Float[np.ndarray, "rows features"], Float[np.ndarray, "others features"]]:
    """Examples of two domains as rows of numbers of one length."""
    found = []
    for name, given in (("source", source), ("target", target)):
        array = np.asarray(given, np.float64)
        if not array.ndim or not array.size:
            raise ArgumentError(f"{where}({name}): no examples", remedy="give an array of some")
        if not np.isfinite(array).all():
            raise ArgumentError(f"{where}({name}): there are numbers that are not finite")
        found.append(array.reshape(len(array), -1))
    if found[0].shape[1] != found[1].shape[1]:
        raise ArgumentError(
            f"{where}: examples of the source have {found[0].shape[1]} numbers, of the target {found[1].shape[1]}",
            remedy="compare features of one length",
        )
    return found[0], found[1]


__all__ = [
    "BARELY",
    "METHODS",
    "ImportanceWeights",
    "domain_rows",
    "effective_size",
    "importance_weights",
    "normalised",
]

"""Pictures of kernel ridge regression: the Gram matrix, its spectrum, and what each ridge would have given."""

from collections.abc import Sequence

from chainrule.core.pictures import Lines, Picture
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.kernels.regression import search_ridge
from chainrule.models.kernel import gram_pictures, keeping
from chainrule.models.kernel.kernel_ridge.settings import (
    RIDGES,
    SEARCHED,
    KernelRidgeConfig,
    kernel_from,
    regressed,
)
from chainrule.models.kernel.settings import rows


def all_of(config: KernelRidgeConfig, data: Data) -> Sequence[Picture]:
    """What these data can show."""
    gram = gram_pictures.exactly(kernel_from(config))
    return [
        gram_pictures.similarities(gram, data),
        gram_pictures.spectrum(gram, data),
        ridges(config, data),
    ]


def ridges(config: KernelRidgeConfig, data: Data) -> Lines:
    """The error of examples predicted from the others, by ridge."""
    some = keeping.spread(len(data.train), SEARCHED)
    batch = data.train.batch(some)
    y = regressed(data.schema, batch.y)
    found = search_ridge(kernel_from(config), rows(batch.x), y - y.mean(axis=0), ridges=RIDGES)
    chosen = 1.0 if config.ridge == "auto" else config.ridge
    unit = "of ones and zeros for the classes" if targets.of(data.schema).one_class else "in model units"
    return Lines(
        "ridges",
        "What each ridge would have given",
        "ridge",
        f"mean squared error, {unit}",
        {"each example from the others": (found.ridges, found.errors)},
        log_x=True,
        log_y=True,
        marks=[(chosen, f"ridge {chosen:.3g}")],
        caption=f"Of {len(some)} training examples, each predicted by a function that has not seen it.",
    )


__all__ = ["all_of", "ridges"]

"""Pictures of kernel ridge regression: the Gram matrix, its spectrum, and what each ridge would have given."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chainrule.core.pictures import Lines, Picture
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.kernels.regression import search_ridge
from chainrule.models.kernel import gram_pictures, keeping
from chainrule.models.kernel.kernel_ridge.settings import RIDGES, SEARCHED, kernel_from, regressed
from chainrule.models.kernel.settings import rows

if TYPE_CHECKING:
    from chainrule.models.kernel.kernel_ridge.model import KernelRidgeModel


def all_of(model: "KernelRidgeModel", data: Data) -> Sequence[Picture]:
    """What these data can show."""
    gram = gram_pictures.exactly(kernel_from(model.config))
    return [
        gram_pictures.similarities(gram, data),
        gram_pictures.spectrum(gram, data),
        ridges(model, data),
    ]


def ridges(model: "KernelRidgeModel", data: Data) -> Lines:
    """The error of examples predicted from the others, by ridge."""
    some = keeping.spread(len(data.train), SEARCHED)
    batch = data.train.batch(some)
    y = regressed(data.schema, batch.y)
    found = search_ridge(kernel_from(model.config), rows(batch.x), y - y.mean(axis=0), ridges=RIDGES)
    chosen = 1.0 if model.config.ridge == "auto" else model.config.ridge
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

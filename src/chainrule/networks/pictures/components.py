"""Pictures of models with components: variances along the axes, the axes themselves, and codes in the plane."""

import numpy as np
from jaxtyping import Float

from chainrule.core.pictures import Images, Lines, Picture, Scatter
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema

COLUMNS = 10
_AXES = 20
_CODES = 1000


def scree(
    variances: Float[np.ndarray, " features"],
    kept: int,
    floor: float | None = None,
    *,
    of: str = "training data",
    lost: str = "mean squared error of what is rebuilt",
) -> Picture:
    """Variances by falling size; the last that is kept is marked, and the noise is a line."""
    numbers = np.arange(1, len(variances) + 1, dtype=np.float64)
    series: dict[str, tuple[np.ndarray, ...]] = {f"variance of {of}": (numbers, variances)}
    if floor is not None:
        series["noise of the model"] = (numbers, np.full(len(numbers), floor))
    return Lines(
        "scree",
        "Variance along each axis",
        "axis",
        "variance",
        series,
        log_y=bool((variances > 0).all()),
        marks=[(float(kept), f"{kept} kept")],
        caption="What lies right of the mark is left out: "
        + (
            f"its sum is the {lost}." if floor is None else "for the model it is noise, of its mean variance."
        ),
    )


def axes(schema: Schema, found: Float[np.ndarray, "components features"]) -> list[Picture]:
    """The axes as images around grey, where the data are images."""
    if not kinds.of(schema).shows_pixels(schema):
        return []
    shown = found[:_AXES].reshape(-1, *schema.shape)
    largest = np.abs(shown).max(axis=(1, 2, 3), keepdims=True)
    pixels = 0.5 + 0.5 * shown / np.where(largest > 0, largest, 1.0)
    labels = [str(i + 1) for i in range(len(shown))]
    caption = "Grey leaves a pixel as it is in the mean; white and black move it one way and the other."
    return [Images("axes", "What each entry of the code changes", pixels, labels, 10, caption)]


def rebuilt(schema: Schema, x: np.ndarray, back: np.ndarray) -> list[Picture]:
    """Held-out images, what is rebuilt of them, and what is lost."""
    if not kinds.of(schema).shows_pixels(schema):
        return []
    rows = np.concatenate([np.clip(x, 0, 1), np.clip(back, 0, 1), np.clip(0.5 + 0.5 * (x - back), 0, 1)])
    caption = "Rows: held-out images; rebuilt from their codes; the difference, where grey is none."
    return [Images("rebuilt", "Held-out images and what is rebuilt", rows, (), len(x), caption, aligned=True)]


def codes(data: Data, z: Float[np.ndarray, "rows codes"]) -> list[Picture]:
    """The first two entries of the codes of held-out examples, by class where there are classes."""
    if z.shape[1] < 2:
        return []
    part = data.val if len(data.val) else data.train
    groups: dict[str, np.ndarray] = {"held out": z[:, :2]}
    if targets.of(data.schema).one_class:
        y = np.asarray(part.batch(np.arange(len(z))).y)
        groups = {name: z[y == i, :2] for i, name in enumerate(data.schema.classes) if (y == i).any()}
    return [Scatter("codes", "Codes of held-out examples", "first entry", "second entry", groups)]


def shown(data: Data, most: int = _CODES) -> np.ndarray:
    """Held-out examples to show, in model units."""
    part = data.val if len(data.val) else data.train
    return np.asarray(part.batch(np.arange(min(most, len(part)))).x)


__all__ = ["COLUMNS", "axes", "codes", "rebuilt", "scree", "shown"]

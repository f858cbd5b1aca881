"""Pictures of attributions side by side: values by method, agreement, deletion and insertion, lost weights."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from chainrule.core.pictures import Heatmap, Images, Lines, Table
from chainrule.explain.methods.gradients.side_by_side import MethodComparison
from chainrule.explain.methods.image_tiles import as_tile, overlaid

SHOWN = 20
"""Groups that a picture names, the largest by all methods together."""


def values_by_method(
    found: MethodComparison, names: Sequence[str], label: str, *, ordered: bool = False
) -> Heatmap:
    """What every method says of the first input, each on its own scale; `ordered` keeps the order of the groups."""
    rows = {
        name: values[0] / max(float(np.abs(values[0]).max()), 1e-30) for name, values in found.values.items()
    }
    size = np.abs(np.stack(list(rows.values()))).mean(axis=0)
    chosen = np.argsort(-size, kind="stable")[:SHOWN] if not ordered else np.arange(len(names))
    return Heatmap(
        "attributions",
        f"What made the {label}: method by method",
        "",
        "",
        np.stack([row[chosen] for row in rows.values()]),
        list(map(_short, rows)),
        [names[i] for i in chosen],
        diverging=True,
        caption="The first of the inputs. Each method is on a scale of its own: 1 is its largest value by size. Slopes "
        "(saliency by size, SmoothGrad) say what a small change would do; the others what each adds to the output.",
    )


def images_by_method(x: np.ndarray, found: MethodComparison, labels: Sequence[str]) -> Images:
    """A row for each image: the image, and the values of its pixels or patches by every method."""
    tiles, words = [], []
    for i, image in enumerate(x):
        plain = as_tile(image, signed=False)
        tiles.append(np.broadcast_to(plain, (*plain.shape[:2], 3)))
        words.append(labels[i])
        for name, one in found.explanations.items():
            values = one.values[i]
            if one.membership is not None:
                values = values[one.membership]
            flat = values.sum(axis=-1)
            tiles.append(overlaid(image, flat / max(float(np.abs(flat).max()), 1e-30)))
            words.append("" if i else _short(name))
    return Images(
        "attributions",
        "What made the output: method by method",
        np.stack(tiles),
        words,
        columns=1 + len(found.explanations),
        aligned=True,
        caption="Each row: an image, and over it what its pixels (of LIME: patches) have to do with the output; blue "
        "raises it, orange lowers it. Saliency shows sizes of slopes. Each map has a scale of its own.",
    )


def agreement_map(found: MethodComparison) -> Heatmap:
    """Rank correlations between methods."""
    names = [_short(name) for name in found.agreement.names]
    return Heatmap(
        "attributions-agreement",
        "How alike methods rank the same things",
        "",
        "",
        found.agreement.correlation,
        names,
        names,
        numbers=True,
        diverging=True,
        caption="Rank correlation of the sizes of values, the mean over inputs. Methods answer different questions: "
        "low agreement is no error of either.",
    )


def curves(found: MethodComparison, label: str) -> list[Lines]:
    """Mean curves of deletion and of insertion by every method."""
    pictures = []
    for name, better, text in (
        ("deletion", "lower", "taken away, largest value first"),
        ("insertion", "higher", "brought back, largest value first"),
    ):
        series = {
            method: (one.shares, getattr(one, name).mean(axis=0)) for method, one in found.curves.items()
        }
        pictures.append(
            Lines(
                f"attributions-{name}",
                f"{name.capitalize()}: the {better} the better",
                f"share {text}",
                label,
                series,
                caption="Mean over the inputs; what is absent has the mean of the background.",
            )
        )
    return pictures


def lost_weights(stages: Sequence[str], alike: Mapping[str, Sequence[float]]) -> Lines:
    """Rank correlation with the explanation of the trained model while layers lose what they learned."""
    at = np.arange(len(stages) + 1, dtype=float)
    return Lines(
        "attributions-weights",
        "Layers shuffled from the last to the first",
        "layers without what they learned",
        "rank correlation with the trained model",
        {name: (at, np.array([1.0, *values])) for name, values in alike.items()},
        caption=f"The order: {', '.join(stages)}. An explanation that stays as it was does not show what was learned.",
    )


def table(found: MethodComparison, stable: Mapping[str, float]) -> Table:
    """What every method costs, and how good it is."""
    rows: list[list[str | float | int]] = []
    for name, curve in found.curves.items():
        one = found.explanations.get(name)
        rows.append(
            [
                name,
                "" if one is None or one.slopes else _share(np.abs(one.residual).max() / one.output_range),
                float(curve.deletion_area.mean()),
                float(curve.insertion_area.mean()),
                stable.get(name, ""),
                "" if one is None else one.evaluations,
            ]
        )
    return Table(
        "attributions-table",
        "Methods",
        ["method", "residual", "deletion area", "insertion area", "stability", "evaluations"],
        rows,
        caption="Residual: what values miss of the change of the output, at most, as a share of its range; slopes are "
        "not meant to add up. Areas in units of the output. Stability: rank correlation under small noise on the "
        "inputs; of LIME between fits.",
    )


def _short(name: str) -> str:
    """A name that fits beside a picture."""
    return name.replace(" gradients", " grads")


def _share(value: Float[np.ndarray, ""] | float) -> str:
    return f"{float(value):.2%}"


__all__ = ["agreement_map", "curves", "images_by_method", "lost_weights", "table", "values_by_method"]

"""Where the bits of compressed examples go: to the pixels, to the code, and what comes back of it.

The lengths are those of `chainrule compress` before probabilities are rounded, example by example.
"""

from typing import Literal, final

import numpy as np
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Bars, Heatmap, Images, Lines, Picture, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.information.compression.arranging import arranged
from chainrule.information.compression.sources import HasCode
from chainrule.models.protocol import HasDensity, Model
from chainrule.train import Run
from chainrule.train.compression import league
from chainrule.train.compression.bound import bound_bits

_SHOWN = 12


@final
class CodeLengthsSettings(Settings):
    """The examples."""

    split: Literal["test", "val", "train"] = Field("test", description="which examples")
    n: int = Field(256, ge=2, description="examples at most")


def examine(run: Run, data: Data, settings: CodeLengthsSettings) -> Outcome:
    """The length of every example, entry by entry."""
    material = arranged(run.schema, data.split(settings.split).x[: settings.n])
    symbols = np.concatenate(list(material.segments()))
    code = run.code()
    code = code.with_rows(code.suited_rows(symbols)).fitted(symbols)
    parts = code.by_example(symbols)
    by_example = {name: part.sum(axis=1) for name, part in parts.items()}
    net = sum(by_example.values(), start=np.zeros(len(symbols)))
    bound = bound_bits(run.model, run.schema, symbols)
    rivals = league(run.schema, symbols)
    entries = run.schema.dimensions
    order = np.argsort(net)
    findings = [
        f"{len(symbols):,} {settings.split} examples cost {net.mean():.1f} bits each, {net.mean() / entries:.4f} bits "
        f"per dimension: {_spelled(by_example)}.",
        f"The shortest takes {net.min():.1f} bits, the longest {net.max():.1f}.",
    ]
    if bound is not None:
        findings.insert(1, f"The model's bound is {bound / symbols.size:.4f} bits per dimension.")
    rows = [["this model (without its weights)", net.sum() / 8, net.sum() / symbols.size]]
    rows += [[rival.name, rival.bytes, 8 * rival.bytes / symbols.size] for rival in rivals]
    return Outcome(
        findings,
        [
            _ledger(by_example, order),
            _running(net, entries, bound),
            *_maps(run.schema, symbols, parts["likelihood"], net),
        ],
        Table(
            "code-lengths",
            "Compressors on the same examples",
            ["compressor", "bytes", "bits per dimension"],
            sorted(rows, key=lambda row: float(row[1])),
        ),
        {
            "bits_per_example": float(net.mean()),
            "bits_per_dimension": float(net.mean() / entries),
            "bound_bits_per_dimension": None if bound is None else bound / symbols.size,
            "bits": {name: float(values.mean()) for name, values in by_example.items()},
            "others": {rival.name: rival.bytes for rival in rivals},
        },
    )


def _spelled(parts: dict[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {values.mean():.1f}" for name, values in parts.items())


def _ledger(parts: dict[str, np.ndarray], order: np.ndarray) -> Picture:
    """Bars of a few examples, from the shortest to the longest."""
    chosen = order[np.linspace(0, len(order) - 1, min(_SHOWN, len(order))).astype(int)]
    return Bars(
        "bits-ledger",
        "Where the bits of an example go",
        "example",
        "bits",
        [str(int(i)) for i in chosen],
        {name: values[chosen] for name, values in parts.items()},
        caption="Examples from the shortest to the longest; bits that come back are below zero.",
    )


def _running(net: np.ndarray, entries: int, bound: float | None) -> Picture:
    done = np.arange(1, len(net) + 1)
    series: dict[str, tuple[np.ndarray, ...]] = {"net": (done, np.cumsum(net) / done / entries)}
    if bound is not None:
        level = bound / len(net) / entries
        series["minus the bound"] = (done[[0, -1]], np.array([level, level]))
    return Lines("running-rate", "The rate so far", "examples", "bits per dimension", series)


def _maps(schema: Schema, symbols: np.ndarray, costs: np.ndarray, net: np.ndarray) -> list[Picture]:
    if not kinds.of(schema).shows_pixels(schema):
        return []
    height, width, channels = schema.shape
    each = costs.reshape(-1, height, width, channels).sum(axis=-1).mean(axis=0)
    order = np.argsort(net)
    ends = np.concatenate([order[: _SHOWN // 2], order[::-1][: _SHOWN // 2]])
    shown = (symbols[ends] / (schema.levels - 1)).reshape(-1, *schema.shape)
    return [
        Heatmap("bits-by-pixel", "Bits of each pixel, on average", "column", "row", each),
        Images(
            "shortest-longest",
            "The shortest and the longest",
            shown,
            [f"{length:.0f}" for length in net[ends]],
            caption="Net bits below each; the first half are the shortest.",
        ),
    ]


def _applies(model: Model, schema: Schema) -> bool:
    # A flow says nothing of single entries: all its bits are those of the code, and its Jacobians take long.
    if isinstance(model, HasDensity) or not isinstance(model, HasCode) or not schema.levels:
        return False
    try:
        model.code()
    except CapabilityError:  # a likelihood that is a density, a prior that is no product
        return False
    return True


probe = Probe(
    "Where the bits of compressed examples go, beside other compressors.",
    "a model that compresses examples with levels: a vae, an autoregressive model of images",
    _applies,
    examine,
    CodeLengthsSettings,
    toy={"n": 8},
)

__all__ = ["CodeLengthsSettings", "examine", "probe"]

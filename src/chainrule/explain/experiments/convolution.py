"""Convolution of a signal as a matrix: Toeplitz, or circulant; and what a transposed convolution covers how often."""

from typing import Literal, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Bars, Heatmap, Lines
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.nn.convolution.functions import convolve_transpose
from chainrule.nn.matrices import as_matrix
from chainrule.nn.signals import convolve_signal


@final
class ConvolutionSettings(Settings):
    """Signal and filter."""

    signal: tuple[float, ...] = Field(
        (0.0, 1.0, 3.0, 2.0, 5.0, 4.0, 4.0, 1.0), min_length=1, max_length=64, description="the signal"
    )
    kernel: tuple[float, ...] = Field((1.0, 2.0, 4.0), min_length=1, max_length=64, description="the filter")
    mode: Literal["full", "same", "valid", "circular"] = Field(
        "valid", description="what happens at the ends"
    )
    flip: bool = Field(
        True, description="true: convolution, as signal libraries; false: correlation, as layers"
    )
    stride: int = Field(2, ge=1, le=8, description="of the transposed convolution")
    padding: int = Field(0, ge=0, le=64, description="of the transposed convolution")


def run(settings: ConvolutionSettings, listener: Listener) -> Outcome:
    """Convolve, write the same as a matrix, and count what a transposed convolution covers."""
    del listener
    x, h = (np.asarray(one) for one in (settings.signal, settings.kernel))
    kernel = jnp.asarray(h, jnp.float32)

    def layer(signal: jnp.ndarray) -> jnp.ndarray:
        return convolve_signal(signal, kernel, mode=settings.mode, flip=settings.flip)

    y = np.asarray(layer(jnp.asarray(x, jnp.float32)), np.float64)
    matrix = np.asarray(as_matrix(layer, (len(x),)), np.float64)
    apart = float(np.abs(matrix @ x - y).max(initial=0.0))
    circulant = settings.mode == "circular"
    banded = all(len({round(v, 5) for v in np.diagonal(matrix, k)}) <= 1 for k in range(-len(y) + 1, len(x)))
    cover, size = _cover(len(x), len(h), settings)
    uneven = len(set(cover[len(h) : len(cover) - len(h)].tolist())) > 1
    verb = "convolution" if settings.flip else "correlation"
    return Outcome(
        [
            f"The {settings.mode} {verb} is {', '.join(f'{value:g}' for value in np.round(y, 5))}.",
            f"As a matrix it is {matrix.shape[0]} × {matrix.shape[1]}, "
            + ("circulant" if circulant else "Toeplitz" if banded else "not Toeplitz")
            + f", and of its {matrix.size} entries only the {len(h)} of the filter are free; its product with the "
            f"signal differs by {apart:.1e}.",
            f"Sums: {x.sum():g} · {h.sum():g} = {x.sum() * h.sum():g}, and the result sums to {y.sum():g}"
            + (
                "."
                if settings.mode in ("full", "circular")
                else "; the rule holds for mode=full and mode=circular."
            ),
            f"A transposed convolution of stride {settings.stride} makes {size} entries of {len(x)}: "
            f"(N - 1) s - 2 p + k = {size}. "
            + (
                f"It covers them unevenly, {int(cover.min())} to {int(cover.max())} times, because {len(h)} is no "
                f"multiple of {settings.stride}: checkerboards. Make it one, or upsample and convolve."
                if uneven
                else "Inside it covers each equally often, so it draws no checkerboard."
            ),
        ],
        _pictures(settings, verb, y, matrix, cover),
        numbers={
            **{"result": y.tolist(), "matrix": matrix.tolist(), "deviation": apart},
            **{"transposed_size": size, "cover": cover.tolist(), "checkerboard": uneven},
        },
    )


def _pictures(
    settings: ConvolutionSettings, verb: str, y: np.ndarray, matrix: np.ndarray, cover: np.ndarray
) -> list[Heatmap | Lines | Bars]:
    x = np.asarray(settings.signal)
    return [
        Heatmap(
            "convolution-matrix",
            f"The {verb} as a matrix",
            "signal",
            "result",
            matrix,
            numbers=matrix.size <= 150,
            diverging=bool(matrix.min(initial=0.0) < 0),
            caption="Each row is the filter" + (" reversed" if settings.flip else "") + ", shifted by one.",
        ),
        Lines(
            "convolution-signal",
            "Signal and result",
            "position",
            "value",
            {
                "signal": (np.arange(len(x), dtype=float), x),
                verb: (np.arange(len(y), dtype=float), y),
            },
        ),
        Bars(
            "convolution-cover",
            "How often a transposed convolution covers each entry",
            "entry",
            "times",
            [str(number) for number in range(len(cover))],
            {"times": cover},
        ),
    ]


def _cover(n: int, k: int, settings: ConvolutionSettings) -> tuple[np.ndarray, int]:
    """How often each entry of a transposed convolution is written to: it is applied to ones, with a filter of ones."""
    size = (n - 1) * settings.stride - 2 * settings.padding + k
    if size < 1:
        raise ArgumentError(
            f"convolution(padding={settings.padding}): nothing is left of {n} entries",
            remedy="use less padding",
        )
    ones = convolve_transpose(
        jnp.ones((n, 1)),
        jnp.ones((k, 1, 1)),
        stride=(settings.stride,),
        padding=((settings.padding, settings.padding),),
        dilation=(1,),
        output_padding=(0,),
    )
    return np.asarray(ones)[:, 0], size


experiment = Experiment(
    "Convolution of a signal of your own as a Toeplitz matrix, the rule of sums, transposed convolution.",
    ConvolutionSettings,
    run,
    toy={},
    reference="Oppenheim and Schafer, Discrete-Time Signal Processing, 2010; Odena et al., Distill, 2016",
)

__all__ = ["ConvolutionSettings", "experiment", "run"]

"""Convolution of plain signals and images, without channels: the operation of signal processing beside that of layers.

Learning layers correlate, signal libraries convolve; `flip` says which is meant.
"""

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float
from chainrule.nn.convolution.functions import convolve

MODES = ("full", "same", "valid", "circular")


def convolve_signal(
    signal: Float[Array, "*axes"],
    kernel: Float[Array, "*kernel"],
    *,
    mode: str = "full",
    flip: bool = True,
) -> Float[Array, "*output_axes"]:
    """Convolve the last axes of a signal with a kernel of one or two axes.

    With `flip` this is `y[i] = Σ_m x[i - m] h[m]`, without it the correlation `y[i] = Σ_m x[i + m] h[m]`. "full" gives
    every position where the two overlap, "valid" those where they overlap wholly, "same" the middle of "full" with the
    size of the signal, and "circular" continues the signal from its other end. The entries of a full convolution sum to
    the product of the sums.

    >>> convolve_signal(jnp.array([1.0, 2.0, 4.0]), jnp.ones(4)).tolist()
    [1.0, 3.0, 7.0, 7.0, 6.0, 4.0]
    >>> image, patch = jnp.array([[2.0, 7.0, 1.0], [2.0, 8.0, 1.0]]), jnp.array([[3.0, 1.0], [4.0, 5.0]])
    >>> convolve_signal(image, patch, mode="valid", flip=False).tolist()
    [[61.0, 59.0]]
    """
    where = "convolve_signal"
    check_choice(where, "mode", mode, MODES)
    dimensions = kernel.ndim
    if dimensions not in (1, 2) or signal.ndim < dimensions:
        raise ArgumentError(
            f"{where}: a kernel of shape {kernel.shape} does not fit a signal of shape {signal.shape}",
            remedy="kernels have one or two axes, signals at least as many",
        )
    sizes, space = kernel.shape, signal.shape[signal.ndim - dimensions :]
    pairs = []
    for size, n in zip(sizes, space, strict=True):
        if size > n and mode in ("valid", "circular"):
            raise ArgumentError(
                f'{where}(mode="{mode}"): a kernel of {size} entries is longer than the axis of {n}'
            )
        start = {"full": size - 1, "same": size // 2, "valid": 0, "circular": size - 1 if flip else 0}[mode]
        whole = {"full": 2 * (size - 1), "same": size - 1, "valid": 0, "circular": size - 1}[mode]
        pairs.append((start, whole - start))
    if mode == "circular":
        signal = jnp.pad(signal, [(0, 0)] * (signal.ndim - dimensions) + pairs, mode="wrap")
        pairs = [(0, 0)] * dimensions
    weight = jnp.flip(kernel) if flip else kernel
    ones = (1,) * dimensions
    return convolve(
        signal[..., None], weight[..., None, None], stride=ones, padding=tuple(pairs), dilation=ones
    )[..., 0]


__all__ = ["MODES", "convolve_signal"]

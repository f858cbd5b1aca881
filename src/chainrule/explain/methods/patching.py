"""Activation patching: which activations of one text, put into the run of another, bring its answer back.

Two inputs of the same length, a clean one and a corrupted one that differ in what is asked about (Meng et al., 2022;
Wang et al., 2023). The corrupted one is run once for every layer and position, or every head, with that activation
taken from the clean run. A share of 1 says that this activation alone restores what `metric` measures, 0 that it
changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Scalar
from chainrule.explain.methods.activations import watched_run


@final
@dataclass(frozen=True)
class Patching:
    """What every patch did."""

    names: tuple[str, ...]
    """The activations, layer by layer."""
    metrics: Float[np.ndarray, "layers parts"]
    """With this part of that activation patched: a position of `resid_pre`, `attn_out` or `mlp_out`, a head of `z`."""
    clean: float
    corrupted: float

    @property
    def restored(self) -> Float[np.ndarray, "layers parts"]:
        """The share of the difference between the clean and the corrupted metric that each patch brings back."""
        return (self.metrics - self.corrupted) / (self.clean - self.corrupted)


def patch_activations(
    call: Callable[[Array], Any],
    clean: Any,
    corrupted: Any,
    metric: Callable[[Any], Scalar],
    *,
    at: str = "resid_pre",
) -> Patching:
    """Patch one part of one layer at a time: `metric(call(corrupted))` with the activations `*.at` of the clean run.

    Parts lie along the second axis of the activation: positions of a stream (`resid_pre`, `resid_mid`, `attn_out`,
    `mlp_out`), heads of `attention.z`, `attention.v` or `attention.pattern`. A star says where the names differ: of a
    translator `encoder.*.resid_pre` has the positions of the source, `decoder.*.cross.z` the heads that look at it.
    """
    one, other = jnp.asarray(clean), jnp.asarray(corrupted)
    if one.shape != other.shape:
        raise ArgumentError(
            f"patching: the clean input has shape {one.shape}, the corrupted one {other.shape}",
            remedy="take two texts with the same number of tokens",
        )
    names, metrics, before, after = _patched(call, metric, one, other, at)
    if before == after:
        raise ArgumentError(
            f"patching: the metric of the clean and of the corrupted input is {float(before):.6g}",
            remedy="take inputs, or a metric, that differ: otherwise there is nothing to restore",
        )
    return Patching(names.names, np.asarray(metrics), float(before), float(after))


@final
class _Named(eqx.Module):
    names: tuple[str, ...] = eqx.field(static=True)


@eqx.filter_jit
def _patched(
    call: Any, metric: Any, clean: Array, corrupted: Array, at: str
) -> tuple[_Named, Array, Array, Array]:
    pattern = at if "*" in at else f"*.{at}"
    out, found = watched_run(lambda: call(clean), {}, (pattern,))
    parts = found.values[0].shape[1]
    odd = next(
        (name for name, value in zip(found.names, found.values, strict=True) if value.shape[1] != parts), None
    )
    if odd is not None:
        raise ArgumentError(
            f"at={at!r}: {found.names[0]} has {parts} parts, {odd} another number",
            remedy=f"say which are meant: at={odd.split('.')[0]}.*.{at}",
        )

    def patched(index: Array) -> Array:
        layer, part = index[0], index[1]

        def hook(value: Array, name: str) -> Array:
            number = found.names.index(name)
            chosen = (layer == number) & (jnp.arange(parts) == part)
            shape = [parts if axis == 1 else 1 for axis in range(value.ndim)]
            return jnp.where(chosen.reshape(shape), found.values[number], value)

        return metric(watched_run(lambda: call(corrupted), {pattern: hook}, ())[0])

    grid = jnp.stack(jnp.meshgrid(jnp.arange(len(found.names)), jnp.arange(parts), indexing="ij"), axis=-1)
    metrics = jax.lax.map(patched, grid.reshape(-1, 2))
    return _Named(found.names), metrics.reshape(grid.shape[:2]), metric(out), metric(call(corrupted))


__all__ = ["Patching", "patch_activations"]

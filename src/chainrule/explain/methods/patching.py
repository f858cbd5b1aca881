"""Activation patching: which activations of one text, put into the run of another, bring its answer back.

Two inputs of the same length, a clean one and a corrupted one that differ in what is asked about (Meng et al., 2022;
Wang et al., 2023). The corrupted one is run once for every layer and position, or every head, with that activation
taken from the clean run. A share of 1 says that this activation alone restores what `metric` measures, 0 that it
changes nothing.
"""

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Scalar
from chainrule.explain.methods.activations import Hook, watched_run


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
    call: Callable[..., Any],
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
    Inputs are one array, or a tuple of what `call` takes.
    """
    return patch_each(call, clean, corrupted, metric, at=(at,))[0]


def patch_each(
    call: Callable[..., Any],
    clean: Any,
    corrupted: Any,
    metric: Callable[[Any], Scalar],
    *,
    at: Sequence[str],
) -> list[Patching]:
    """The same for several kinds of activations, in one compiled program."""
    one, other = (
        tuple(map(jnp.asarray, given)) if isinstance(given, tuple) else (jnp.asarray(given),)
        for given in (clean, corrupted)
    )
    if [x.shape for x in one] != [x.shape for x in other]:
        shapes = [", ".join(str(x.shape) for x in given) for given in (one, other)]
        raise ArgumentError(
            f"patching: the clean input has shape {shapes[0]}, the corrupted one {shapes[1]}",
            remedy="take two texts with the same number of tokens",
        )
    found, before, after = _patched(call, metric, one, other, tuple(at))
    if before == after:
        raise ArgumentError(
            f"patching: the metric of the clean and of the corrupted input is {float(before):.6g}",
            remedy="take inputs, or a metric, that differ: otherwise there is nothing to restore",
        )
    return [Patching(site.names, np.asarray(site.metrics), float(before), float(after)) for site in found]


@final
class _Site(eqx.Module):
    names: tuple[str, ...] = eqx.field(static=True)
    metrics: Array


@eqx.filter_jit
def _patched(
    call: Any, metric: Any, clean: tuple[Array, ...], corrupted: tuple[Array, ...], at: tuple[str, ...]
) -> tuple[list[_Site], Array, Array]:
    patterns = [one if "*" in one else f"*.{one}" for one in at]
    out, found = watched_run(lambda: call(*clean), {}, patterns)
    values = dict(zip(found.names, found.values, strict=True))
    sites = [[name for name in values if fnmatch.fnmatchcase(name, pattern)] for pattern in patterns]
    parts = [_parts(one, names, values) for one, names in zip(at, sites, strict=True)]

    def patched(index: Array) -> Array:
        def hook_of(number: int) -> Hook:
            def hook(value: Array, name: str) -> Array:
                chosen = (index[0] == number) & (index[1] == sites[number].index(name))
                parts_of = chosen & (jnp.arange(parts[number]) == index[2])
                shape = [parts[number] if axis == 1 else 1 for axis in range(value.ndim)]
                return jnp.where(parts_of.reshape(shape), values[name], value)

            return hook

        hooks = {pattern: hook_of(number) for number, pattern in enumerate(patterns)}
        return metric(watched_run(lambda: call(*corrupted), hooks, ())[0])

    cells = [
        (number, layer, part)
        for number, names in enumerate(sites)
        for layer in range(len(names))
        for part in range(parts[number])
    ]
    metrics = jax.lax.map(patched, jnp.array(cells))
    ends = np.cumsum([len(names) * count for names, count in zip(sites, parts, strict=True)])
    split = jnp.split(metrics, ends[:-1])
    each = [
        _Site(tuple(names), one.reshape(len(names), count))
        for names, one, count in zip(sites, split, parts, strict=True)
    ]
    return each, metric(out), metric(call(*corrupted))


def _parts(at: str, names: Sequence[str], values: Mapping[str, Array]) -> int:
    """Parts of each of these activations, which must be as many in all."""
    parts = values[names[0]].shape[1]
    odd = next((name for name in names if values[name].shape[1] != parts), None)
    if odd is not None:
        raise ArgumentError(
            f"at={at!r}: {names[0]} has {parts} parts, {odd} another number",
            remedy=f"say which are meant: at={odd.split('.')[0]}.*.{at}",
        )
    return int(parts)


__all__ = ["Patching", "patch_activations", "patch_each"]

"""Training and inference mode: which of the two a network is in, and for which of its layers that matters."""

from typing import Any

import equinox as eqx
import jax

from chainrule.nn.dropout import ChannelDropout, Dropout, StochasticDepth
from chainrule.nn.normalize import BatchNorm

_NORMS = (BatchNorm, eqx.nn.BatchNorm)
_DROPPING = (Dropout, ChannelDropout, StochasticDepth, eqx.nn.Dropout)


def mode(network: Any) -> str:
    """The mode a network is in and what its layers do in it, in words; empty where no layer makes a difference.

    >>> mode(Dropout(0.5)), mode(eqx.nn.inference_mode(Dropout(0.5))), mode(Dropout(0.0))
    ('training mode: 1 Dropout on', 'inference mode: 1 Dropout off', '')
    """
    kinds = (*_NORMS, *_DROPPING)
    found = jax.tree.leaves(network, is_leaf=lambda node: isinstance(node, kinds))
    norms = [node for node in found if isinstance(node, _NORMS)]
    dropouts = [node for node in found if isinstance(node, _DROPPING) and node.p]
    if not norms and not dropouts:
        return ""
    flags = {
        bool(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(network)
        if isinstance(path[-1], jax.tree_util.GetAttrKey) and path[-1].name == "inference"
    }
    if len(flags) > 1:
        return f"some layers in training mode, some in inference mode: {_counts([*norms, *dropouts])}"
    training = flags == {False}
    parts = []
    if norms:
        how = "by the statistics of each batch" if training else "by running averages"
        parts.append(f"{_counts(norms)} {how}")
    if dropouts:
        parts.append(f"{_counts(dropouts)} {'on' if training else 'off'}")
    return f"{'training' if training else 'inference'} mode: {', '.join(parts)}"


def _counts(nodes: list[Any]) -> str:
    names = [type(node).__name__ for node in nodes]
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))


__all__ = ["mode"]

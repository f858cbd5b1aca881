"""What gates of both recurrent layers over images begin with."""

import equinox as eqx

from chainrule.nn import Linear


def remembering(gates: Linear) -> Linear:
    """The input's part of the gates of an LSTM (input, forget, candidate, output), forget gates open at first."""
    assert gates.bias is not None
    width = len(gates.bias) // 4
    return eqx.tree_at(lambda one: one.bias, gates, gates.bias.at[width : 2 * width].set(1.0))


__all__ = ["remembering"]

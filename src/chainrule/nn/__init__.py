"""Layers and losses: any leading axes, channels last, nothing hidden.

A layer is a PyTree with a `__call__`; randomness comes in as a key, training-only behaviour is chosen by a field named
`inference` that `equinox.nn.inference_mode` switches, and state that training moves by rule comes back as a new layer.
"""

from chainrule.nn import initializers, losses
from chainrule.nn.activations import Activation, activation, activations
from chainrule.nn.convolution import Conv, ConvTranspose
from chainrule.nn.dropout import Dropout
from chainrule.nn.linear import Linear
from chainrule.nn.normalize import BatchNorm, LayerNorm, NoNorm, Norm, norm
from chainrule.nn.pooling import (
    adaptive_average_pool,
    adaptive_max_pool,
    average_pool,
    global_average_pool,
    global_max_pool,
    max_pool,
)

__all__ = [
    "Activation",
    "BatchNorm",
    "Conv",
    "ConvTranspose",
    "Dropout",
    "LayerNorm",
    "Linear",
    "NoNorm",
    "Norm",
    "activation",
    "activations",
    "adaptive_average_pool",
    "adaptive_max_pool",
    "average_pool",
    "global_average_pool",
    "global_max_pool",
    "initializers",
    "losses",
    "max_pool",
    "norm",
]

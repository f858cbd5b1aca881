"""Layers and losses: any leading axes, channels last, nothing hidden.

A layer is a PyTree with a `__call__`; randomness comes in as a key, training-only behaviour is chosen by a field named
`inference` that `equinox.nn.inference_mode` switches, and state that training moves by rule comes back as a new layer.
"""

from chainrule.nn import (
    attention,
    augment,
    constructions,
    cost,
    detection,
    initializers,
    losses,
    positions,
    scenes,
    spectral,
    tensors,
)
from chainrule.nn.activations import Activation, activation, activations, glu, swiglu
from chainrule.nn.attention import SelfAttention, TransformerBlock
from chainrule.nn.convolution.layers import Conv, ConvTranspose
from chainrule.nn.dropout import ChannelDropout, Dropout, StochasticDepth, monte_carlo
from chainrule.nn.embedding import Embedding
from chainrule.nn.gradient_reversal import gradient_reversal
from chainrule.nn.linear import Linear
from chainrule.nn.matrices import as_matrix, conv_table, infer_layers
from chainrule.nn.normalize import BatchNorm, GroupNorm, LayerNorm, NoNorm, Norm, RMSNorm, norm
from chainrule.nn.pooling import (
    adaptive_average_pool,
    adaptive_max_pool,
    average_pool,
    blur_pool,
    global_average_pool,
    global_max_pool,
    max_pool,
)
from chainrule.nn.recurrent import GRU, LSTM, RNN, Bidirectional, Recurrent, Stack
from chainrule.nn.reparametrize import SpectralNorm, WeightNorm
from chainrule.nn.residual import LayerScale, ResidualBlock, residual
from chainrule.nn.resize import Switches, max_pool_with_switches, pixel_shuffle, unpool, upsample
from chainrule.nn.scattering import Scattering
from chainrule.nn.sequential import Sequential, StatefulNetwork
from chainrule.nn.signals import convolve_signal

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Activation",
    "BatchNorm",
    "Bidirectional",
    "ChannelDropout",
    "Conv",
    "ConvTranspose",
    "Dropout",
    "Embedding",
    "GroupNorm",
    "LayerNorm",
    "LayerScale",
    "Linear",
    "NoNorm",
    "Norm",
    "RMSNorm",
    "Recurrent",
    "ResidualBlock",
    "Scattering",
    "SelfAttention",
    "Sequential",
    "SpectralNorm",
    "Stack",
    "StatefulNetwork",
    "StochasticDepth",
    "Switches",
    "TransformerBlock",
    "WeightNorm",
    "activation",
    "activations",
    "adaptive_average_pool",
    "adaptive_max_pool",
    "as_matrix",
    "attention",
    "augment",
    "average_pool",
    "blur_pool",
    "constructions",
    "conv_table",
    "convolve_signal",
    "cost",
    "detection",
    "global_average_pool",
    "global_max_pool",
    "glu",
    "gradient_reversal",
    "infer_layers",
    "initializers",
    "losses",
    "max_pool",
    "max_pool_with_switches",
    "monte_carlo",
    "norm",
    "pixel_shuffle",
    "positions",
    "residual",
    "scenes",
    "spectral",
    "swiglu",
    "tensors",
    "unpool",
    "upsample",
]

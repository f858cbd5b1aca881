"""Attention: from the softmax and the masks up to the transformer block with a cache for decoding."""

from chainrule.nn.attention.block import TransformerBlock
from chainrule.nn.attention.cache import Cache, KeysAndValues
from chainrule.nn.attention.features import EluPlusOne, FeatureMap, RandomFeatures
from chainrule.nn.attention.functions import Bias, Path, attend, attention_weights, gather
from chainrule.nn.attention.layers import CrossAttention, SelfAttention, SourceMemory
from chainrule.nn.attention.linear import FeatureMixing, Sums, linear_attention
from chainrule.nn.attention.masks import (
    Allowed,
    Causal,
    LeftPadding,
    Mask,
    PackedDocuments,
    Padding,
    Window,
    joined,
)
from chainrule.nn.attention.mixing import Mixing, Softmax
from chainrule.nn.attention.softmax import lookup, softmax

__all__ = [
    "Allowed",
    "Bias",
    "Cache",
    "Causal",
    "CrossAttention",
    "EluPlusOne",
    "FeatureMap",
    "FeatureMixing",
    "KeysAndValues",
    "LeftPadding",
    "Mask",
    "Mixing",
    "PackedDocuments",
    "Padding",
    "Path",
    "RandomFeatures",
    "SelfAttention",
    "Softmax",
    "SourceMemory",
    "Sums",
    "TransformerBlock",
    "Window",
    "attend",
    "attention_weights",
    "gather",
    "joined",
    "linear_attention",
    "lookup",
    "softmax",
]

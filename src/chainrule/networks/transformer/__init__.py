"""Transformer bodies: causal decoders and bidirectional encoders, between an embedding and a way out."""

from chainrule.networks.transformer.body import TokenTransformer, Transformer
from chainrule.networks.transformer.decoder import Decoder, DecoderConfig, Style, decoder_layers
from chainrule.networks.transformer.encoder import Encoder, EncoderConfig, encoder_layers

__all__ = [
    "Decoder",
    "DecoderConfig",
    "Encoder",
    "EncoderConfig",
    "Style",
    "TokenTransformer",
    "Transformer",
    "decoder_layers",
    "encoder_layers",
]

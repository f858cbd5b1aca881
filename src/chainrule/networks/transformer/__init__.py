"""Transformer bodies: causal decoders and bidirectional encoders."""

from chainrule.networks.transformer.body import TokenTransformer, Transformer
from chainrule.networks.transformer.decoder import DecoderConfig, Style, TransformerDecoder, decoder_layers
from chainrule.networks.transformer.encoder import EncoderConfig, TransformerEncoder, encoder_layers

__all__ = [
    "DecoderConfig",
    "EncoderConfig",
    "Style",
    "TokenTransformer",
    "Transformer",
    "TransformerDecoder",
    "TransformerEncoder",
    "decoder_layers",
    "encoder_layers",
]

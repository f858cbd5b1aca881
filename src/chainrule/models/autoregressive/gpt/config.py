"""Settings of the transformer, and the two styles that its presets stand for."""

from typing import Literal, NamedTuple, final

from pydantic import Field

from chainrule.models.protocol import Config


class Style(NamedTuple):
    """What a preset stands for."""

    positions: str
    norm: str
    activation: str
    bias: bool


STYLES = {
    "gpt2": Style("learned", "layer", "gelu-tanh", True),
    "modern": Style("rotary", "rms", "swiglu", False),
}


@final
class GPTConfig(Config):
    """Settings of the transformer."""

    preset: Literal["modern", "gpt2"] = Field(
        "modern", description="what positions, norm, activation and bias are unless they are given"
    )
    layers: int = Field(4, ge=1, description="blocks, one after another")
    heads: int = Field(4, ge=1, description="heads of attention in a block; they must divide width")
    key_heads: int | None = Field(
        None, ge=1, description="heads that have keys and values of their own; the others share them"
    )
    width: int = Field(128, ge=1, description="numbers that stand for a symbol on its way through")
    hidden: int | None = Field(
        None, ge=1, description="inner width of the feed-forward part; default 4 width, with swiglu 8/3 width"
    )
    context: int | None = Field(
        None, ge=1, description="symbols it can look back on; default: data.window, which training sees"
    )
    positions: Literal["learned", "sinusoids", "rotary", "distance", "none"] | None = Field(
        None,
        description="how order is told: a table, sines and cosines, rotated queries and keys, a penalty by distance",
    )
    rotary: Literal["half", "interleaved"] = Field(
        "half", description="rotary: which entries are pairs; matters for weights from elsewhere"
    )
    attention: Literal["softmax", "linear", "random-features"] = Field(
        "softmax",
        description="how values are mixed; the other two take time and memory that do not grow with the square of "
        "the length, and learn less well",
    )
    norm: Literal["layer", "rms"] | None = Field(None, description="normalisation before every part")
    activation: Literal["gelu-tanh", "gelu", "relu", "silu", "swiglu"] | None = Field(
        None, description="nonlinearity of the feed-forward part"
    )
    bias: bool | None = Field(None, description="biases in dense layers and layer normalisation")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="share of embeddings, attention and updates dropped while training"
    )
    tie: bool = Field(True, description="one table for the embedding of symbols and their logits")
    scan: bool = Field(
        False, description="compile one block for all layers: compiles faster, runs a little slower"
    )
    recompute: bool = Field(
        False,
        description="compute the inside of blocks again on the way back: less memory, a third more work",
    )
    chunk: int | None = Field(
        None,
        ge=1,
        description="predictions whose logits are held at once in the loss; for large vocabularies",
    )

    @property
    def style(self) -> Style:
        """Positions, norm, activation and bias, as given or as the preset says."""
        preset = STYLES[self.preset]
        return Style(
            preset.positions if self.positions is None else self.positions,
            preset.norm if self.norm is None else self.norm,
            preset.activation if self.activation is None else self.activation,
            preset.bias if self.bias is None else self.bias,
        )


__all__ = ["STYLES", "GPTConfig", "Style"]

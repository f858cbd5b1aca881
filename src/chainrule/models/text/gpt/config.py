"""Settings of the language model."""

from typing import final

from pydantic import Field

from chainrule.networks.transformer import DecoderConfig


@final
class GPTConfig(DecoderConfig):
    """Settings of the transformer and of its logits."""

    tie: bool = Field(True, description="one table for the embedding of tokens and their logits")
    chunk: int | None = Field(
        None,
        ge=1,
        description="predictions whose logits are held at once in the loss; for large vocabularies",
    )


__all__ = ["GPTConfig"]

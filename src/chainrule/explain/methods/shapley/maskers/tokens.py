"""Absent tokens of a text are masked, or taken out.

*Masked*: another token stands in their place, and positions stay. *Removed*: what is left moves together, and padding
fills the other end: on the left for models that read what follows off the last position.
"""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.explain.methods.shapley.maskers.masker import Groups, Masker, grouped
from chainrule.explain.methods.shapley.maskers.replacing import Replacing


@final
class Removing(Masker):
    """Absent tokens are taken out, and the others move together."""

    pad: Int[Array, ""]
    owners: Int[Array, " time"]
    names: tuple[str, ...] = eqx.field(static=True)
    left: bool = eqx.field(static=True)
    """Whether padding comes first."""
    kind: str = eqx.field(static=True)
    fingerprint: str = eqx.field(static=True)

    @property
    def samples(self) -> int:
        return 1

    def mixed(
        self, x: Array, mask: Bool[Array, " players"], which: Int[Array, ""]
    ) -> tuple[Array, Float[Array, " samples"]]:
        del which
        present = mask[self.owners]
        order = jnp.argsort(present if self.left else ~present, stable=True)
        count = present.sum()
        position = jnp.arange(len(x))
        kept = position >= len(x) - count if self.left else position < count
        return jnp.where(kept, x[order], self.pad.astype(x.dtype))[None], jnp.ones(1)


def masked_tokens(
    tokens: Any, mask_token: int, names: Sequence[str] | None = None, groups: Groups = None
) -> Replacing:
    """Absent tokens are replaced by `mask_token`; `groups` makes words of tokens."""
    length = np.asarray(tokens).shape[-1]
    players, owners = _players("masked_tokens", tokens, names, groups)
    return Replacing(
        replacements=jnp.asarray(np.full((1, length), mask_token)),
        weights=jnp.ones(1),
        owners=jnp.asarray(owners),
        names=players,
        kind="baseline, mask token",
        fingerprint="",
    )


def removed_tokens(
    tokens: Any,
    pad_token: int = 0,
    names: Sequence[str] | None = None,
    groups: Groups = None,
    *,
    padding: str = "right",
) -> Removing:
    """Absent tokens are taken out, and `pad_token` fills the end on the side of `padding`."""
    check_choice("removed_tokens", "padding", padding, ["left", "right"])
    players, owners = _players("removed_tokens", tokens, names, groups)
    return Removing(
        pad=jnp.asarray(pad_token),
        owners=jnp.asarray(owners),
        names=players,
        left=padding == "left",
        kind=f"baseline, tokens removed, padding on the {padding}",
        fingerprint="",
    )


def _players(
    where: str, tokens: Any, names: Sequence[str] | None, groups: Groups
) -> tuple[tuple[str, ...], Int[np.ndarray, " time"]]:
    given = np.asarray(tokens)
    if given.dtype.kind not in "iu":
        raise ArgumentError(
            f"{where}: tokens are of type {given.dtype}",
            remedy="give numbers of tokens, as the tokenizer does",
        )
    length = given.shape[-1]
    # The same word may stand at several positions; players need names of their own.
    shown = (
        [f"{i + 1} {name}" for i, name in enumerate(names)] if names else [str(i + 1) for i in range(length)]
    )
    return grouped(where, length, shown, groups)


__all__ = ["Removing", "masked_tokens", "removed_tokens"]

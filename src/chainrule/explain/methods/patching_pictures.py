"""Pictures of activation patching: shares by layer and position, by head, and over the patches of an image."""

from collections.abc import Mapping, Sequence

import numpy as np

from chainrule.core.pictures import Heatmap, Images, Lines
from chainrule.explain.methods.image_tiles import as_tile, overlaid
from chainrule.explain.methods.patching import Patching
from chainrule.models.protocol import PatchSite

_SIDE = 64
"""Pixels a side to which small images are enlarged, so that their patches can be told apart."""
_SHARE = (
    "The share of the clean answer that comes back when this activation is taken from the clean {}: 1 is all."
)


def stream(site: PatchSite, found: Patching, labels: Sequence[str]) -> Heatmap:
    """The share that each position of a stream brings back in each layer."""
    return Heatmap(
        _picture_name(site),
        site.title,
        "position",
        "layer",
        found.restored,
        [str(n + 1) for n in range(len(found.restored))],
        labels,
        diverging=True,
        caption=f"{_SHARE.format('text')} In brackets: the token of the corrupted text.",
    )


def heads(site: PatchSite, found: Patching, word: str) -> Heatmap:
    """The share that each head brings back."""
    layers, count = found.restored.shape
    return Heatmap(
        _picture_name(site),
        site.title,
        "head",
        "layer",
        found.restored,
        [str(n + 1) for n in range(layers)],
        [str(n + 1) for n in range(count)],
        numbers=True,
        diverging=True,
        caption=f"The output of one head, at all positions, taken from the clean {word}.",
    )


def over_the_image(
    clean: np.ndarray, corrupted: np.ndarray, streams: Mapping[PatchSite, Patching], grid: tuple[int, int]
) -> Images:
    """A row for each kind of activation: the clean image, and the shares of its patches in each layer over it."""
    patches = {site: one.restored[:, -grid[0] * grid[1] :] for site, one in streams.items()}
    tiles, labels = [], []
    for site, shares in patches.items():
        limit = max(float(np.abs(shares).max()), 1e-12)
        tiles += [_coloured(clean), _coloured(corrupted)]
        labels += ["clean", "corrupted"]
        tiles += [overlaid(clean, one.reshape(grid) / limit) for one in shares]
        labels += [f"{site.name.replace('_', ' ')} {n + 1}\n±{limit:.2g}" for n in range(len(shares))]
    return Images(
        "patching-patches",
        "Which patches bring the answer back",
        np.stack([_enlarged(tile) for tile in tiles]),
        labels,
        columns=2 + len(next(iter(patches.values()))),
        aligned=True,
        caption="One patch of the clean image at a time put into the run of the corrupted one, before each layer "
        "(resid pre), or what attention (attn out) or the MLP (mlp out) of that layer adds there. Blue brings the "
        "clean answer back, orange takes it further away; each row has a scale of its own, written below.",
    )


def _coloured(image: np.ndarray) -> np.ndarray:
    tile = as_tile(image, signed=False)
    return np.broadcast_to(tile, (*tile.shape[:2], 3))


def _enlarged(tile: np.ndarray) -> np.ndarray:
    times = max(1, _SIDE // max(tile.shape[:2]))
    return np.repeat(np.repeat(tile, times, axis=0), times, axis=1)


def gathered(streams: Mapping[PatchSite, Patching]) -> Lines:
    """What the token that gathers holds before each layer, and what the patches hold one by one."""
    stream = next(iter(streams.values())).restored
    layers = np.arange(1, len(stream) + 1)
    return Lines(
        "patching-gathered",
        "How the answer reaches the token that gathers",
        "layer",
        "share brought back",
        {
            "token that gathers": (layers, stream[:, 0]),
            "patches, added up": (layers, stream[:, 1:].sum(axis=1)),
        },
        caption=f"{_SHARE.format('image')} Before each layer, one position at a time.",
    )


def _picture_name(site: PatchSite) -> str:
    return f"patching-{site.name.replace('_', '-')}"


__all__ = ["gathered", "heads", "over_the_image", "stream"]

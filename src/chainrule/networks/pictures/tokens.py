"""Pictures of models of tokens: attention of every head, alignment of a pair, embeddings in the plane."""

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.pictures import AttentionMaps, Heatmap, Images, Scatter, Table
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import pairs, tokenizers
from chainrule.data.text.tokenizers import Tokenizer
from chainrule.data.text.windows import counts

LONGEST = 64
"""Tokens of a passage whose attention is shown: more cannot be told apart."""
_NEIGHBOURS = 5
_LISTED = 12
_PIXELS = 3
END = "■"
"""What the end of a text looks like."""


def heads(weights: Float[np.ndarray, "layers heads time time"], names: list[str]) -> Images:
    """A map for every head, one line of maps a layer: dark where a token (row) takes much from another (column)."""
    layers, count, time, _ = weights.shape
    top = np.maximum(
        weights.max(axis=-1, keepdims=True), 1e-12
    )  # rows late in a text share out one among many
    shown = 1 - (weights / top).reshape(layers * count, time, time, 1)
    large = np.repeat(np.repeat(shown, _PIXELS, axis=1), _PIXELS, axis=2)
    text = "".join(name if len(name) == 1 else f" {name}" for name in names).strip()
    return Images(
        "attention",
        "What each head attends to",
        large,
        [f"layer {i + 1}, head {j + 1}" for i in range(layers) for j in range(count)],
        columns=count,
        aligned=True,
        caption=f"Row: a token, column: what it looks at, each row up to its largest weight. Passage: {text!r}.",
    )


def attention(
    weights: Float[np.ndarray, "layers heads time time"], names: list[str], shown: tuple[int, int] = (0, 0)
) -> AttentionMaps:
    """The same with the tokens at their rows and columns, one head at a time."""
    return AttentionMaps(
        "attention-maps",
        "Attention token by token",
        weights,
        names,
        names,
        shown,
        caption="Row: a token that asks (query), column: what it takes from (key); each row sums to one, and cells are "
        "shaded by the square root of the weight. · stands for a space, ⏎ for the end of a line.",
    )


def names(tokenizer: Tokenizer, ids: Int[np.ndarray, " time"]) -> list[str]:
    """The text of each token, with white space made visible.

    >>> from chainrule.data.text.tokenizers import Character
    >>> names(Character(("\\n", " ", "a")), np.array([2, 1, 0]))
    ['a', '·', '⏎']
    """
    visible = str.maketrans({" ": "·", "\n": "⏎", "\t": "⇥"})
    return [text.translate(visible) for text in tokenizer.pieces(ids)]


def embedding_map(table: Float[np.ndarray, "tokens features"], tokenizer: Tokenizer, data: Data) -> Scatter:
    """The most frequent tokens in the plane of the two directions in which their vectors vary most."""
    often = frequent(data, len(table))[:200]
    plane = principal(table[often])
    kinds = [kind(tokenizer.decode([int(i)])) for i in often]
    rows = {name: [i for i, k in enumerate(kinds) if k == name] for name in sorted(set(kinds))}
    written = names(tokenizer, often)
    share = spread(table[often])
    return Scatter(
        "embedding",
        "Where tokens lie",
        "first direction",
        "second direction",
        {name: plane[indices] for name, indices in rows.items()},
        words={name: [written[i] for i in indices] for name, indices in rows.items()},
        caption=f"Embeddings of the {len(often)} most frequent tokens in the plane of their two principal "
        f"directions, which hold {share:.0%} of their variance.",
    )


def neighbours(table: Float[np.ndarray, "tokens features"], tokenizer: Tokenizer, data: Data) -> Table:
    """For frequent tokens, those whose vectors point the same way."""
    often = frequent(data, len(table))
    known, chosen = often[:500], often[:_LISTED]
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    cosine = unit[chosen] @ unit[known].T
    rows = []
    for i, row in zip(chosen, cosine, strict=True):
        nearest = [j for j in np.argsort(-row) if known[j] != i][:_NEIGHBOURS]
        near = zip(names(tokenizer, known[nearest]), row[nearest], strict=True)
        rows.append([names(tokenizer, np.array([i]))[0], "  ".join(f"{name} {c:.2f}" for name, c in near)])
    return Table("neighbours", "Nearest tokens", ["token", "nearest by cosine"], rows)


def frequent(data: Data, tokens: int) -> Int[np.ndarray, " most"]:
    """The tokens that occur in the training text, the most frequent first."""
    counted = counts(data.train.arrays["tokens"], tokens)
    order = np.argsort(-counted, kind="stable")
    return order[counted[order] > 0]


def principal(table: Float[np.ndarray, "tokens features"]) -> Float[np.ndarray, "tokens two"]:
    """Coordinates in the plane of the two directions of most variance."""
    centred = table - table.mean(axis=0, keepdims=True)
    left, size, _ = np.linalg.svd(centred, full_matrices=False)
    plane = left[:, :2] * size[None, :2]
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def spread(table: Float[np.ndarray, "tokens features"]) -> float:
    """The share of the variance that lies in that plane."""
    size = np.linalg.svd(table - table.mean(axis=0, keepdims=True), compute_uv=False)
    return float((size[:2] ** 2).sum() / max((size**2).sum(), 1e-30))


def kind(text: str) -> str:
    """What sort of token it is.

    >>> kind("a"), kind("Q"), kind(" the"), kind(","), kind("\\n")
    ('vowel', 'capital', 'lower case', 'mark', 'white space')
    """
    plain = text.strip()
    if not plain:
        return "white space"
    if plain.isnumeric():
        return "number"
    if not plain[0].isalpha():
        return "mark"
    if len(plain) == 1 and plain in "aeiou":
        return "vowel"
    return "capital" if plain[0].isupper() else "lower case"


def alignment(
    schema: Schema,
    weights: Float[np.ndarray, "target source"],
    x: Int[np.ndarray, " source"],
    y: Int[np.ndarray, " target"],
    what: str,
    name: str = "alignment",
) -> Heatmap:
    """A map of one pair: target tokens downwards, source tokens across; `what` says which map it is."""
    sides = ((tokenizers.of_target(schema), y), (tokenizers.of(schema), x))
    rows, columns = (
        [*(piece.replace(" ", "␣") for piece in pairs.pieces(tokenizer, ids)), END]
        for tokenizer, ids in sides
    )
    return Heatmap(
        name,
        f"Where each token was read from: {what}",
        "source",
        "target",
        weights[: len(rows), : len(columns)],
        rows,
        columns,
        caption=f"Each row sums to one; {END} is the end of a text.",
    )


__all__ = [
    "LONGEST",
    "alignment",
    "attention",
    "embedding_map",
    "frequent",
    "heads",
    "kind",
    "names",
    "neighbours",
    "principal",
    "spread",
]

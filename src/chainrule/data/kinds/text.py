"""Texts: passages of one long text, or texts that each have a target of their own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from chainrule.core.pictures import Bars, Picture, Table
from chainrule.data import targets
from chainrule.data.division import Positions, sizes
from chainrule.data.kind import Decided, Kind
from chainrule.data.loading.problems import Problem
from chainrule.data.loading.rows import Divided, positions
from chainrule.data.loading.scan import Contents
from chainrule.data.previews import title_of
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.data.target import Cells
from chainrule.data.text import pairs, tokenization
from chainrule.data.text.windows import WINDOW, Windows, counts

if TYPE_CHECKING:
    from chainrule.data.dataset import Data
    from chainrule.data.inputs.protocol import Given, Inputs, Preparation

_SHOWN = 10
_TOKENS = 40
_PREDICTS = 3
"""Tokens of the shortest part of a text: two of them are predicted."""
_LETTERS = 80
"""Characters of a text in a cell of a table."""


@final
class TextKind(Kind):
    """Token numbers; `Schema.tokens` is the vocabulary."""

    noun: ClassVar[str] = "texts"
    sample_count: ClassVar[int] = 3
    has_tokens: ClassVar[bool] = True

    def is_corpus(self, schema: Schema) -> bool:
        """A text without targets predicts itself."""
        return not targets.of(schema).given

    def smaller(self, schema: Schema) -> str:
        """Windows half as long, where the text is cut into any."""
        return (
            f"data.window={schema.shape[0] // 2}" if self.is_corpus(schema) and schema.shape[0] > 33 else ""
        )

    def describe(self, schema: Schema, total: int) -> str:
        """How many tokens, texts or pairs, and how many different tokens."""
        target = targets.of(schema)
        if target.has_tokens:
            vocabularies = f"{len(schema.tokens):,} to {len(schema.target_tokens):,}"
            return f"{total:,} pairs of texts, {vocabularies} symbols"
        unit = "texts" if target.given else "tokens" if schema.tokenizer else "characters"
        return f"{total:,} {unit}, {len(schema.tokens):,} symbols{target.describe(schema)}"

    def details(self, schema: Schema) -> list[tuple[str, Sequence[str]]]:
        """The vocabulary."""
        return [("tokens", [repr(token)[1:-1] for token in schema.tokens])]

    def shape(self, contents: Contents) -> tuple[int, ...]:
        """One token more than an example predicts."""
        return (contents.window + 1,)

    def shares(self, contents: Contents) -> tuple[float, float, float]:
        """90, 5 and 5 % of one long text; of a text too short for that, parts that are more alike."""
        if targets.of(contents).given:
            return (0.8, 0.1, 0.1)
        usual = (0.9, 0.05, 0.05)
        few = contents.documents is None and min(sizes(len(contents), usual)) < _PREDICTS
        return (0.6, 0.2, 0.2) if few else usual

    def decided(self, contents: Contents, made: Divided, where: str) -> Decided:
        """How many tokens an example of a text predicts, and what may not be what was meant.

        That is a short text that has no room for more, and names of special tokens that are nowhere in it.
        """
        window = made.schema.shape[0] - 1
        options = {"window": window} if contents.shortens else {}
        texts = [split.arrays["tokens"] for split in made.splits if isinstance(split, Windows)]
        remarks = []
        if window < WINDOW and any(len(text) == window + 1 for text in texts):
            detail = (
                f"an example predicts {window} tokens instead of {WINDOW}, all that the shortest part holds"
            )
            remarks.append(Problem("short text", where, detail, "note"))
        # A text that is never in memory as a whole is not searched again.
        for name in contents.special if texts and contents.stream is None else ():
            number = made.schema.tokens.index(name)
            if not any((text == number).any() for text in texts):
                remarks.append(Problem("special token without text", where, f"{name!r} never comes", "note"))
        return Decided(options, remarks)

    def positions(self, contents: Contents, shares: Sequence[float], seed: int) -> Sequence[Positions] | None:
        """Documents in their order; texts with targets are drawn at random."""
        if targets.of(contents).given:
            return positions(contents, shares, seed)
        return None if contents.documents is None else tokenization.of_documents(contents.documents, shares)

    def divide(self, contents: Contents, schema: Schema, shares: Sequence[float], seed: int) -> Divided:
        """Three consecutive pieces of one long text; texts with targets are drawn at random."""
        target, parts = targets.of(contents), self.positions(contents, shares, seed)
        if target.given and parts is not None:
            divide = pairs.divide if target.has_tokens else pairs.labelled
            return Divided(*divide(contents, schema, parts), Scaling(), positions=parts)
        return Divided(*tokenization.divide(contents, schema, shares), Scaling(), positions=parts)

    def size(self, schema: Schema, split: Split) -> int:
        """Tokens of one long text."""
        return len(split.arrays["tokens"]) if self.is_corpus(schema) else len(split)

    def inputs(self, given: "Given", prepared: "Preparation") -> "Inputs":
        """Strings, lines of a file, files of a folder."""
        from chainrule.data.inputs import texts

        return texts.inputs(given, prepared)

    def own_options(self, schema: Schema) -> dict[str, Any]:
        """Passages as long as those of training, or such targets, in characters until the run's tokenizer sees them."""
        targeted = {"kind": schema.kind, "target": schema.target}
        own = {"window": schema.shape[0] - 1} if self.is_corpus(schema) else targeted
        return {**own, "tokenizer": "character", "vocab": None, "streams": 0}

    def adopted(self, contents: Contents, rows: np.ndarray, prepared: "Preparation", where: str) -> Split:
        """Texts in the run's own tokens."""
        from chainrule.data.loading.others import targets_like

        if self.is_corpus(prepared.schema):
            return tokenization.adopted(contents, prepared.schema, where)
        y = targets_like(contents, rows, prepared, where)
        assert y is not None, "models of texts that are no corpus need targets"
        return pairs.Pairs({"x": pairs.adopted(contents, rows, prepared.schema, where), "y": y})

    def preview(self, data: "Data") -> Picture:
        """How often each token comes in one long text; texts beside their targets otherwise."""
        return _token_shares(data) if self.is_corpus(data.schema) else _beside_targets(data)

    def picture(
        self,
        schema: Schema,
        drawn: np.ndarray,
        names: Sequence[str] = (),
        *,
        real: np.ndarray | None = None,
        follows: np.ndarray | None = None,
        title: str = "Samples",
        caption: str = "",
    ) -> Picture:
        """The texts."""
        del names, real, follows
        return Table("samples", title, ["text"], [[text] for text in samples(schema, drawn)], caption=caption)

    def cells(self, schema: Schema, x: np.ndarray, most: int) -> Cells:
        """The beginning of the text."""
        del most
        return Cells(["text"], [[pairs.source_text(schema, row.astype(int))[:_LETTERS]] for row in x])

    def write(
        self, folder: Path, schema: Schema, drawn: np.ndarray, arrays: Mapping[str, np.ndarray]
    ) -> Path:
        """The texts, as `samples.txt`."""
        del arrays
        return write_texts(folder, samples(schema, drawn))


def samples(schema: Schema, drawn: np.ndarray) -> list[str]:
    """What a model of texts has drawn, as texts: translations where the target is a text."""
    if targets.of(schema).has_tokens:
        return [pairs.target_text(schema, row) for row in drawn.astype(int)]
    return tokenization.passages(schema, drawn.astype(int))


def write_texts(folder: Path, texts: Sequence[str]) -> Path:
    """Texts in one file, lines of dashes between them."""
    file = folder / "samples.txt"
    file.write_text(f"\n{'-' * 20}\n".join(texts) + "\n", encoding="utf-8")
    return file


def _token_shares(data: "Data") -> Picture:
    counted = counts(data.train.arrays["tokens"], len(data.schema.tokens))
    order = np.argsort(-counted, kind="stable")[:_TOKENS]
    names = [repr(data.schema.tokens[i])[1:-1].replace(" ", "␣") for i in order]
    title = f"{data.name}: how often each token comes in training"
    return Bars("data-tokens", title, "token", "share", names, {"share": counted[order] / counted.sum()})


def _beside_targets(data: "Data") -> Picture:
    rows = np.linspace(0, len(data.train) - 1, min(_SHOWN, len(data.train))).astype(int)
    x, y = data.train.batch(rows)[:2]
    schema, target = data.schema, targets.of(data.schema)
    heads, behind = target.cells(schema, y)
    shown = [[pairs.source_text(schema, row), *cells] for row, cells in zip(x, behind, strict=True)]
    what, heads = ("pairs", ["becomes"]) if target.has_tokens else ("texts", heads)
    return Table("data-pairs", title_of(data, len(rows), what), ["text", *heads], shown)


kind = TextKind()

__all__ = ["TextKind", "kind", "samples", "write_texts"]

"""`chainrule data tokens`: how a text becomes tokens, merge by merge, and what the size of a vocabulary buys."""

import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.core.errors import ArgumentError

if TYPE_CHECKING:
    from chainrule.data.text.tokenizers import Tokenizer, Trace

_SHOWN = 60
_MERGES = 12
_BACKGROUNDS = (24, 22, 58, 54, 52)


def show(name: str, options: dict[str, Any], json: bool) -> None:
    """Print the first merges and the beginning of the text in tokens; draw the trade-off into `out`."""
    import numpy as np

    from chainrule.cli.output import emit, say
    from chainrule.data import load
    from chainrule.data.loading.options import resolve
    from chainrule.data.loading.scan import Contents
    from chainrule.data.loading.sources import find
    from chainrule.data.readers import text as texts
    from chainrule.data.text import tokenizers
    from chainrule.data.text.tokenization import choose

    source = find(name)
    if source.reader.label != "text":
        raise ArgumentError(f"{source.name} is {source.reader.label} data; only text has tokens")
    out = options.pop("out", None)
    folder = None if out is None else Path(str(out)).expanduser()
    given: dict[str, Any] = {
        key: options.pop(key) for key in ("tokenizer", "vocab", "special") if key in options
    }
    wanted = resolve("text", texts.OPTIONS, {"tokenizer": "bpe", **given})
    data = load(name, **{"window": 2, **options})
    text = tokenizers.of(data.schema).decode(data.train.arrays["tokens"])
    how = Contents(
        *("text", np.zeros(0)),
        tokenizer=wanted["tokenizer"],
        vocab=wanted["vocab"],
        special=texts.special_names({**options, **wanted}),
    )
    tokenizer = choose(how, text, data.schema.tokens)
    ids = tokenizer.encode(text, allow_special=bool(how.special))
    traced = _trace(wanted, text, data.schema.tokens)
    pieces = tokenizer.pieces(ids[:_SHOWN])
    facts = {
        "data": data.name,
        "tokenizer": wanted["tokenizer"],
        "vocab": len(tokenizer),
        "fingerprint": tokenizer.fingerprint,
        "bytes_per_token": len(text.encode()) / max(len(ids), 1),
        "tokens_per_word": len(ids) / max(len(text.split()), 1),
    }
    if isinstance(tokenizer, tokenizers.Word):
        facts["unknown"] = float((ids == tokenizer.vocab[tokenizer.unknown]).mean())
    files = [] if folder is None else _write(folder, tokenizer, traced, facts)
    if json:
        steps = [] if traced is None else traced.steps
        merges = [{"left": s.left, "right": s.right, "token": s.token, "count": s.count} for s in steps]
        emit({**facts, "merges": merges, "sample": pieces, "files": files})
        return
    say("data", f"{data.name}   {data.describe()}")
    say("tokens", f"{facts['tokenizer']}   {len(tokenizer):,} in the vocabulary")
    missed = f", {100 * facts['unknown']:.1f} % unknown" if "unknown" in facts else ""
    ratios = f"{facts['bytes_per_token']:.2f} bytes per token, {facts['tokens_per_word']:.2f} tokens per word"
    say("ratios", ratios + missed)
    if traced is not None:
        _print_merges(traced)
    print(f"\n{paint_pieces(pieces)}\n")  # made visible piece by piece
    for file in files:
        say("written", str(file))


def paint_pieces(pieces: list[str]) -> str:
    """Pieces of text in alternating colours on a terminal, with a bar between them elsewhere."""
    from chainrule.cli.output import colourful
    from chainrule.core.quoting import printable

    pieces = [printable(piece) for piece in pieces]
    if not colourful(sys.stdout):
        return "|".join(pieces)
    colours = zip(pieces, itertools.cycle(_BACKGROUNDS), strict=False)
    # The colour ends before a line does, or the terminal would fill the rest of the line with it.
    return "".join(
        "\n".join(f"\033[97;48;5;{colour}m{line}\033[0m" for line in piece.split("\n"))
        for piece, colour in colours
    )


def _trace(wanted: Mapping[str, Any], text: str, alphabet: Sequence[str]) -> "Trace | None":
    """The merges with their counts, for tokenizers that learn some."""
    from chainrule.data.text import tokenizers

    kind = wanted["tokenizer"]
    if kind not in ("bpe", "byte-bpe"):
        return None
    vocab = wanted["vocab"] or tokenizers.VOCAB[kind]
    special = wanted["special"]
    return tokenizers.trace(text, vocab, kind=kind, min_frequency=2, alphabet=alphabet, special=special)


def _print_merges(traced: "Trace") -> None:
    from chainrule.cli.output import show, table

    merges = traced.table()
    rows = [[str(cell) for cell in row] for row in merges.rows[:_MERGES]]
    show()
    table(merges.columns, rows)
    if len(traced.steps) > len(rows):
        show(f"and {len(traced.steps) - len(rows):,} more")


def _write(folder: Path, tokenizer: "Tokenizer", traced: "Trace | None", facts: dict[str, Any]) -> list[Path]:
    """The tokenizer as a file, and the pictures there are."""
    from chainrule.data.text import tokenizers
    from chainrule.report import save
    from chainrule.train.files import disk_errors

    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tokenizers.write(tokenizer, folder / "tokenizer.json")
        pictures = [] if traced is None else traced.pictures()
        drawn = [save(picture, folder, picture.name, facts) for picture in pictures]
    return [folder / "tokenizer.json", *drawn]


__all__ = ["paint_pieces", "show"]

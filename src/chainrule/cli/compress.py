"""`chainrule compress`: a file or folder as one short file, by the probabilities of a trained run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainrule.cli.options import Json, RunName, Settings

if TYPE_CHECKING:
    from chainrule.information.compression.arranging import Material
    from chainrule.information.compression.compressing import CompressionReport
    from chainrule.train import Run
    from chainrule.train.compression import Rival

OWN = ["out", "split", "n", "lanes", "rows", "step", "cells", "seed", "verify", "compare", "runs"]
_HOW = f"settings of compress: {', '.join(f'{one}=' for one in OWN)}"
_WORTH_SAYING = 5.0
"""Seconds; what takes less is not announced."""

Input = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE-OR-FOLDER", show_default=False, help="Images, a .npy file, a text: like the run's data."
    ),
]


def compress(name: RunName, given: Input = None, settings: Settings = None, json: Json = False) -> None:
    """Compress a file or folder without loss, by the probabilities of a trained run.

    FILE-OR-FOLDER holds data like those the run was trained on: images of its size, a .npy file with its levels, a text
    of its letters. Models with latent variables (vae, hvae) get bits back, others (made, pixel-cnn, gpt) code symbol by
    symbol. Everything is read back before the file is there. Pixels, numbers and letters are kept, metadata of images
    are not. chainrule decompress needs the same run.

    Settings: out=FILE.crz (default: the name with .crz), split=test (a split of the run's data instead of a file,
    n=100 the first of it), lanes=2 (streams that are coded at the same time; default 1), rows=64 (examples or pieces
    of a text that go through the networks together; default: as many as suit), step=0.125 (width of the cells of
    codes; default: as the posteriors want it), cells=equal-mass (cells that cost 12 bits each under a standard normal
    prior), seed=0 (bits to begin with), verify=false (do not read back), compare=false (no other compressors, no
    bound), runs=DIR.
    """
    from chainrule.cli.arguments import parse
    from chainrule.cli.folders import find, runs_folder
    from chainrule.cli.output import emit, note
    from chainrule.cli.progress_line import progress_line
    from chainrule.cli.settings import unknown
    from chainrule.core.errors import ArgumentError
    from chainrule.core.formatting import duration
    from chainrule.train import Run
    from chainrule.train.compression import compress_file
    from chainrule.train.compression.reading import material_of

    words = parse([name, given, *(settings or [])])
    for word in words.settings:
        if word not in OWN:
            raise unknown(word, OWN, _HOW)
    split = words.settings.get("split")
    wanted = 1 if split else 2
    if len(words.names) != wanted:
        raise ArgumentError(
            f"compress wants {'RUN' if split else 'RUN and FILE-OR-FOLDER'}",
            remedy="chainrule compress RUN photos/ out=photos.crz, or RUN split=test",
        )
    run = Run.open(find(words.names[0], runs_folder(words.settings.get("runs"))))
    run.code()  # a model that cannot compress says so before anything is read
    material: Material
    if split:
        material = _split(run, split, words.settings.get("n"))
        source = f"{run.id}-{split}{'.txt' if material.form['as'] == 'text' else '.npy'}"
    else:
        path = Path(words.names[1]).expanduser()
        source, material = path.resolve().name, material_of(path, run.preparation)
    out = Path(words.settings.get("out", f"{source}.crz")).expanduser()

    def announce(seconds: float) -> None:
        if seconds > _WORTH_SAYING and not json:
            note(f"the networks will take about {duration(seconds)}")

    chosen = _options(words.settings)
    with progress_line(silent=json):
        report = compress_file(run, (source, material), out, announce=announce, **chosen)
        rivals, bound = _compared(run, material, report, words.settings)
    if json:
        emit({**_machine(run, out, report, rivals, bound), "left_out": list(material.left_out)})
    else:
        if material.left_out:
            note(_left_out(material.left_out))
        _show(run, out, report, rivals, bound, verified=chosen["verify"])


def _split(run: "Run", split: str, count: str | None) -> "Material":
    """A split of the run's data in their own units, or the first examples of it."""
    import numpy as np

    from chainrule.cli.settings import whole_number
    from chainrule.data import kinds
    from chainrule.data.text import tokenizers
    from chainrule.information.compression.arranging import arranged

    part = run.data.split(split)
    most = None if count is None else whole_number("n", count)
    if kinds.of(run.schema).is_corpus(run.schema):
        return arranged(run.schema, tokenizers.of(run.schema).decode(part.arrays["tokens"][:most]))
    if kinds.of(run.schema).has_events:
        return arranged(run.schema, part.x[:most].astype(np.min_scalar_type(len(run.schema.tokens) - 1)))
    raw = np.rint(np.asarray(run.data.inverse(part.x[:most])))
    return arranged(run.schema, raw.astype(np.min_scalar_type(max(run.schema.levels - 1, 1))))


def _options(given: Any) -> dict[str, Any]:
    from chainrule.cli.settings import whole_number, yes_or_no
    from chainrule.core.errors import ArgumentError

    found: dict[str, Any] = {"verify": yes_or_no("verify", {"verify": "true", **given})}
    for name in ("lanes", "rows", "seed"):
        if name in given:
            found[name] = whole_number(name, given[name], low=0 if name == "seed" else 1)
    if "cells" in given:
        found["cells"] = given["cells"]
    if "step" in given:
        try:
            found["step"] = float(given["step"])
        except ValueError:
            raise ArgumentError(f"step={given['step']}: step must be a number") from None
    return found


def _left_out(names: Sequence[str]) -> str:
    what = (
        "1 file that is no image, or hidden"
        if len(names) == 1
        else f"{len(names):,} files, no images or hidden"
    )
    first = ", ".join(names[:3])
    return f"left out {what}: {first}{', ...' if len(names) > 3 else ''}"


def _compared(
    run: "Run", material: "Material", report: "CompressionReport", given: Any
) -> "tuple[list[Rival], float | None]":
    """What others make of the same data, where these are not too many, and what the model says that they cost."""
    import numpy as np

    from chainrule.cli.settings import yes_or_no
    from chainrule.information.compression.codes import alphabet
    from chainrule.train.compression import league
    from chainrule.train.compression.bound import bound_bits
    from chainrule.train.compression.league import LARGEST

    if not yes_or_no("compare", {"compare": "true", **given}) or not report.examples:
        return [], None
    rivals = []
    if report.raw_bytes <= LARGEST:
        size = np.min_scalar_type(alphabet(run.schema) - 1)
        symbols = np.concatenate([part.astype(size) for part in material.segments()])
        text = None if material.text is None else "".join(material.text()).encode("utf-8")
        rivals = league(run.schema, symbols, text)
    if report.model_bits is not None:
        return rivals, report.model_bits
    bounds = [bound_bits(run.model, run.schema, symbols) for symbols in material.segments()]
    return rivals, sum(bits for bits in bounds if bits is not None) if None not in bounds else None


def _machine(
    run: "Run", out: Path, report: "CompressionReport", rivals: "list[Rival]", bound: float | None
) -> dict[str, Any]:
    return {
        "run": run.id,
        "path": out,
        "examples": report.examples,
        "raw_bytes": report.raw_bytes,
        "file_bytes": report.file_bytes,
        "model_bytes": _weights(run),
        "bits_per_entry": report.bits_per_entry,
        "file_bits_per_entry": report.file_bits_per_entry,
        "bound_bits_per_entry": None if bound is None else bound / max(report.entries, 1),
        "initial_bits": report.initial_bits,
        "bits": report.ledger,
        "seconds": report.seconds,
        "others": {rival.name: rival.bytes for rival in rivals},
    }


def _show(
    run: "Run",
    out: Path,
    report: "CompressionReport",
    rivals: "list[Rival]",
    bound: float | None,
    *,
    verified: bool,
) -> None:
    from chainrule.cli.output import note, say, show, table
    from chainrule.core.formatting import duration
    from chainrule.core.quoting import shell_word
    from chainrule.data import kinds
    from chainrule.train.compression.league import LARGEST

    entries = max(report.entries, 1)
    kind = kinds.of(run.schema)
    unit = f"bits per {'token' if kind.has_tokens else 'event' if kind.has_events else 'dimension'}"
    noun = "tokens" if kind.has_tokens else kind.noun
    first, *rest = noun.split()  # "rows of a table"
    one = " ".join([first.removesuffix("s"), *rest])
    amount = f"{report.examples:,} {one if report.examples == 1 else noun}"
    say(
        "written",
        f"{shell_word(str(out))}   {report.file_bytes:,} bytes of {amount} ({report.raw_bytes:,} bytes)",
    )
    parts = [f"{name} {bits / entries:.4f}" for name, bits in report.ledger.items()]
    terms = f"{' + '.join(parts).replace('+ returned -', '- returned ')} = " if len(parts) > 1 else ""
    say("bits", f"{terms}{report.bits_per_entry:.4f} {unit}")
    began = f", {report.initial_bits / entries:.4f} of it bits to begin with" if report.initial_bits else ""
    say("file", f"{report.file_bits_per_entry:.4f} {unit} with everything in it{began}")
    if bound is not None:
        say("bound", f"{bound / entries:.4f} {unit} by the model")
        if bound > 1.2 * report.net_bits:
            note(
                "the file is below the bound, likely because no symbol in it costs more than 24 bits: train longer"
            )
    say("checked", "read back, equal to the last bit" if verified else "not read back (verify=false)")
    say("took", duration(report.seconds))
    if report.raw_bytes > LARGEST:
        say("others", f"not compared: {report.raw_bytes:,} bytes are more than {LARGEST:,}")
    if rivals:
        show()
        rows = [(f"chainrule ({run.id})", report.file_bytes), *rivals]
        ranked = sorted(rows, key=lambda row: row[1])
        table(
            ["compressor", "bytes", unit],
            [[name, f"{size:,}", f"{8 * size / entries:.4f}"] for name, size in ranked],
        )
        show()
        weights = _weights(run)
        say(
            "model",
            f"its weights, {weights:,} bytes, are not in the file: decompressing needs the run (with them "
            f"{report.file_bytes + weights:,} bytes, {8 * (report.file_bytes + weights) / entries:.4f} {unit})",
        )


def _weights(run: "Run") -> int:
    import jax

    return sum(leaf.nbytes for leaf in jax.tree.leaves(run.code().weights))


__all__ = ["compress"]

"""Compressing and back: data, a code and a file brought together, with nothing reported before it was read back."""

import hashlib
import io
import math
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from io import BufferedIOBase
from typing import Any, final

import jax
import numpy as np

from chainrule import __version__
from chainrule.core import progress
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.core.quoting import plain
from chainrule.core.types import Tree
from chainrule.data import kinds
from chainrule.information.compression.arranging import (
    Material,
    arranged,
    forms_of,
    joined,
    raw_bytes,
    restored,
    texts,
)
from chainrule.information.compression.coders import PRECISION, constriction
from chainrule.information.compression.codes import Code, Ledger, Watch
from chainrule.information.compression.container import CompressedReader, CompressedWriter
from chainrule.information.compression.headers import LARGEST_SEED, MOST_ROWS, wrong_field
from chainrule.information.compression.lanes import MOST, decode_lanes, encode_lanes, lane_counts
from chainrule.information.compression.sources import HasCode

_MOST_ENTRIES = 2**28
"""Numbers or tokens of a segment; files are written with far fewer."""


@final
@dataclass
class CompressionReport:
    """What a compressed file holds, and where its bits went."""

    examples: int = 0
    entries: int = 0
    """Numbers or tokens in all of them."""
    raw_bytes: int = 0
    """Of a text in UTF-8, of others with as many bytes for a number as its levels need."""
    file_bytes: int = 0
    initial_bits: int = 0
    """Bits that stacks began with; they are in the file."""
    ledger: Ledger = field(default_factory=dict)
    """Bits by what they were spent on; those that came back are negative."""
    model_bits: float | None = None
    """What the probabilities of a language model say, before they were rounded; of others `bound_bits` says it."""
    seconds: float = 0.0

    @property
    def net_bits(self) -> float:
        """Bits of the data themselves."""
        return sum(self.ledger.values())

    @property
    def bits_per_entry(self) -> float:
        """Net bits of a number or token: bits per dimension."""
        return self.net_bits / max(self.entries, 1)

    @property
    def file_bits_per_entry(self) -> float:
        """The same with everything that is in the file."""
        return 8 * self.file_bytes / max(self.entries, 1)


def compress(
    source: Any, data: Any, *, lanes: int = 1, seed: int = 0, verify: bool = True, **options: Any
) -> bytes:
    """Data as a short string of bytes, from which `decompress` with the same model makes them again, bit by bit.

    `source` is a trained run or a model whose probabilities are exact or bounded: latent variables are coded by getting
    bits back, everything else symbol by symbol. `data` are arrays of whole numbers (levels) or of the fractions that a
    model sees, or a text. `lanes` are streams that are coded at the same time, each with bits to begin with of its own;
    `rows` are examples, or pieces of a text, that go through the networks together. `step` is the width of a cell for
    codes, if not what suits their posteriors; `cells="equal-mass"` makes cells that cost the same under a standard
    normal prior. `verify` reads everything back before it is returned.
    """
    file = io.BytesIO()
    code = code_of(source)
    write(file, code, arranged(code.schema, data), lanes=lanes, seed=seed, verify=verify, **options)
    return file.getvalue()


def decompress(source: Any, blob: Any) -> Any:
    """What `compress` was given; anything that would make it something else is an error.

    Of a file of images, as `chainrule compress` writes it, their pixels, in the order of their names.
    """
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise ArgumentError(
            f"decompress(source, blob): the bytes that compress returned are wanted, not a {type(blob).__name__}",
            remedy="of a file: Path('photos.crz').read_bytes()",
        )
    reader = CompressedReader(io.BytesIO(blob))
    code = code_of(source)
    parts, form = read(reader, code), checked_header(reader)["form"]
    if form["as"] == "text":
        return "".join(texts(code.schema, form, parts))
    return restored(code.schema, form, joined(code.schema, parts))


def code_of(source: Any) -> Code:
    """The code of a run or a model."""
    if isinstance(source, HasCode):
        return source.code()
    raise CapabilityError(
        f"{type(source).__name__} gives no symbol of its data a probability that it could be coded by",
        remedy="compress with a vae, an autoregressive model such as made or pixel-cnn, or a language model",
    )


def write(
    file: BufferedIOBase,
    code: Code,
    material: Material,
    *,
    lanes: int = 1,
    rows: int | None = None,
    seed: int = 0,
    verify: bool = True,
    labels: dict[str, Any] | None = None,
    announce: Callable[[float], None] | None = None,
    **options: Any,
) -> CompressionReport:
    """Write a compressed file segment by segment; each is read back before the next.

    `announce` is told beforehand how many seconds the networks will take, about.
    """
    constriction()  # says what to install, before anything is computed
    began = time.monotonic()
    first = next(material.segments(), np.zeros((0, code.schema.dimensions), np.int32))
    _check_options(lanes, rows, seed)
    own = first[: lane_counts(len(first), lanes)[0]]
    rows = code.suited_rows(own) if rows is None else int(rows)
    code = code.with_rows(rows).fitted(first, **options)
    header = {
        **(labels or {}),
        "total": material.total,
        "form": dict(material.form),
        "route": code.route,
        "lanes": lanes,
        "rows": rows,
        "settings": code.settings(),
        "precision": PRECISION,
        "seed": int(seed),
        "weights": weights_hash(code.weights),
        "fingerprint": code.fingerprint(),
        "platform": backend(),
        "versions": _versions(),
    }
    if announce is not None:
        announce(_seconds(code, material.total) * (2 if verify else 1))
    writer, report = CompressedWriter(file, header, material.names), CompressionReport()
    for symbols in material.segments():
        raw, watch = raw_bytes(code.schema, symbols), _watch("compressing", report.examples, material.total)
        streams = encode_lanes(code, symbols, lanes, seed, watch)
        if verify:
            again = _watch("checking", report.examples, material.total)
            _check_same(decode_lanes(code, streams, len(symbols), seed, again), symbols)
        writer.segment(len(symbols), streams, raw)
        report.examples += len(symbols)
        report.entries += symbols.size
        report.raw_bytes += len(raw) if material.text is None else 0
        report.initial_bits += sum(32 * stream.initial for stream in streams)
        own_bits = [stream.model_bits for stream in streams if stream.model_bits is not None]
        if own_bits:
            report.model_bits = sum(own_bits, report.model_bits or 0.0)
        for name, bits in (item for stream in streams for item in stream.ledger.items()):
            report.ledger[name] = report.ledger.get(name, 0.0) + bits
    writer.close()
    _check_whole(report, material)
    if material.text is not None:
        report.raw_bytes = sum(len(piece.encode("utf-8")) for piece in material.text())
    report.file_bytes, report.seconds = writer.bytes, time.monotonic() - began
    return report


def _check_whole(report: CompressionReport, material: Material) -> None:
    if report.examples != material.total:
        raise DataError(
            f"the data changed while they were compressed: {material.total:,} became {report.examples:,}",
            remedy="compress a copy that nothing else writes to",
        )


def _check_options(lanes: int, rows: int | None, seed: int) -> None:
    if whole("compress", "lanes", lanes) > MOST:
        raise ArgumentError(f"lanes={lanes}: there can be {MOST} lanes at most")
    if rows is not None and whole("compress", "rows", rows) > MOST_ROWS:
        raise ArgumentError(f"rows={rows}: {MOST_ROWS:,} rows at most go through the networks together")
    if whole("compress", "seed", seed, least=0) > LARGEST_SEED:
        raise ArgumentError(f"seed={seed}: the largest seed is {LARGEST_SEED}")


def read(reader: CompressedReader, code: Code) -> Iterator[np.ndarray]:
    """The symbols of a file, segment by segment; weights and arithmetic have to be those that it was written with."""
    header = checked_header(reader)
    constriction()
    if header["weights"] != weights_hash(code.weights):
        raise DataError(
            f"the weights of this model are not those of the file (hash {header['weights'][:12]})",
            remedy=f"decode with the run that compressed it: {_origin(header)}",
        )
    try:
        code = code.with_rows(header["rows"]).opened(header["settings"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        remedy = "decompress it with the version that wrote it, or compress the data again"
        raise reader.error("has settings of its code that this version does not know", remedy) from None
    if code.fingerprint() != header["fingerprint"]:
        raise DataError(
            f"this backend computes different probabilities ({backend()} vs {header['platform']}): decode on the "
            "recorded backend",
            remedy=f"the file: {_named(header['versions'])}; here: {_named(_versions())}",
        )
    done, total, form = 0, header["total"], header["form"]
    if form["as"] not in forms_of(code.schema) or (
        form["as"] == "array" and math.prod(form["shape"]) != total * code.schema.dimensions
    ):
        raise reader.error("has a header that does not suit its model: form", "was it written by Chainrule?")
    for number, segment in enumerate(reader.segments(), start=1):
        watch = _watch("decompressing", done, total)
        most = _MOST_ENTRIES if kinds.of(code.schema).has_tokens else _MOST_ENTRIES // code.schema.dimensions
        if segment.examples > min(total - done, max(most, 1)):
            raise reader.error(f"claims {segment.examples:,} examples in one segment, which cannot be")
        try:
            symbols = decode_lanes(code, segment.lanes, segment.examples, header["seed"], watch)
        except DataError as error:
            raise DataError(f"segment {number}: {error.message}", remedy=error.remedy) from None
        reader.matched(segment, number, raw_bytes(code.schema, symbols))
        done += segment.examples
        yield symbols
    if done != total:
        raise reader.error(f"holds {done:,} examples, and its header says {total:,}")


def _origin(header: dict[str, Any]) -> str:
    """The run and its step that a header names."""
    if "run" not in header:
        return "its name is not recorded"
    step = header.get("step")
    return plain(f"{header['run']}{f', as it was at step {step:,}' if isinstance(step, int) else ''}")


def checked_header(reader: CompressedReader) -> dict[str, Any]:
    """What a file says about itself, where decoding can start from it."""
    if (wrong := wrong_field(reader.header)) is not None:
        lacks = not isinstance(reader.header, dict) or wrong not in reader.header
        raise reader.error(
            f"has a header that lacks what decoding needs: {wrong}"
            if lacks
            else f"has a header that cannot be: {wrong}",
            "was it written by Chainrule?",
        )
    return reader.header


def weights_hash(weights: Tree) -> str:
    """SHA-256 of all arrays of a model, in their order.

    >>> weights_hash({"a": np.zeros(2)})[:12]
    '...'
    """
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(weights):
        if isinstance(leaf, np.ndarray | jax.Array):
            array = np.asarray(leaf)
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def backend() -> str:
    """What computes here, in a few words."""
    device = jax.devices()[0]
    return f"{device.platform}/{device.device_kind} on {platform.machine()}"


def _versions() -> dict[str, str]:
    return {
        "chainrule": __version__,
        "jax": jax.__version__,
        "constriction": version("constriction"),
    }


def _named(versions: dict[str, Any]) -> str:
    return plain(", ".join(f"{name} {number}" for name, number in versions.items()))


def _seconds(code: Code, count: int) -> float:
    """What reading so many examples takes, by how long the networks take for made-up ones; they are compiled by now."""
    began = time.monotonic()
    for _ in code.outputs():
        pass
    return (time.monotonic() - began) / max(code.probed, 1) * code.steps(count)


def _check_same(found: np.ndarray, symbols: np.ndarray) -> None:
    if not np.array_equal(found, symbols):
        raise DataError(
            "what was compressed does not come back: this machine computes other probabilities the second time",
            remedy="use fewer rows (rows=1), or compress on the CPU (JAX_PLATFORMS=cpu)",
        )


def _watch(what: str, done: int, total: int) -> Watch:
    return lambda more: progress.update(what, done + more, total)


__all__ = [
    "CompressionReport",
    "backend",
    "checked_header",
    "code_of",
    "compress",
    "decompress",
    "read",
    "weights_hash",
    "write",
]

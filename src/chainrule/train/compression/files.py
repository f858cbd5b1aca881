"""Compressed files of runs: written and read back as files and folders, whole or not at all."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from chainrule import models
from chainrule.core.errors import ArgumentError, ChainruleError, DataError, RunError
from chainrule.data.schema import Schema
from chainrule.information.compression.arranging import (
    LevelSpelling,
    Material,
    joined,
    restored,
    texts,
    unlevelled,
)
from chainrule.information.compression.codes import Code
from chainrule.information.compression.compressing import (
    CompressionReport,
    checked_header,
    code_of,
    read,
    weights_hash,
    write,
)
from chainrule.information.compression.container import CompressedReader
from chainrule.train.compression.reading import as_image, material_of
from chainrule.train.files import disk_errors
from chainrule.train.run import Run, runs


def compress_file(
    run: Run,
    source: str | Path | tuple[str, Material],
    out: str | Path,
    *,
    verify: bool = True,
    **options: Any,
) -> CompressionReport:
    """A file or folder as one compressed file, which is there when it was read back, or not at all.

    `source` is a path, or data with a name.
    """
    out = absent(Path(out).expanduser())
    if isinstance(source, tuple):
        name, material = source
    else:
        path = Path(source).expanduser()
        name, material = path.resolve().name, material_of(path, run.preparation)
    labels = {"run": run.id, "step": run.step, "model": models.title(run.model), "name": name}
    with whole_file(out) as temporary, disk_errors(out), temporary.open("wb") as file:
        return write(file, code_of(run), material, verify=verify, labels=labels, **options)


def decompress_file(
    file: str | Path, out: str | Path | None = None, run: Run | None = None, where: str | Path | None = None
) -> Path:
    """The file or folder that was compressed, and where it is now; by the run that its header names, or another.

    Where a run has trained on, the checkpoint that compressed is used as long as it is there. `where` is the folder of
    the runs. Tokens come back as an array, or as a text where `out` ends in .txt.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise DataError(f"{path} does not exist" if not path.exists() else f"{path} is no file")
    with path.open("rb") as opened:
        reader = CompressedReader(opened, path.name)
        header = checked_header(reader)
        form = header["form"]
        target = absent(Path(out).expanduser() if out else _own_name(reader))
        if form["as"] == "image" and target.suffix.lower() != ".png":
            raise ArgumentError(
                f"out={target}: an image comes back as PNG", remedy=f"out={target.with_suffix('.png')}"
            )
        run, code = found_code(header, where) if run is None else (run, _code_then(run, header))
        with whole_file(target) as temporary, disk_errors(target):
            parts = read(reader, code or code_of(run))
            if form["as"] in ("image", "images"):
                _write_images(temporary, run.schema, reader, parts)
            else:
                if form["as"] == "tokens" and target.suffix == ".txt":
                    form = {"as": "text"}
                _write_symbols(temporary, run.schema, form, parts)
    return target


def _own_name(reader: CompressedReader) -> Path:
    """The name that something had when it was compressed; no place to write to: only its last part is believed."""
    name = Path(Path(str(reader.header.get("name", ""))).name)
    if not name.name:
        raise ArgumentError("the file records no name", remedy="say where to write: out=FILE")
    return name.with_suffix(".png") if reader.header["form"]["as"] == "image" else name


def found_code(header: dict[str, Any], where: str | Path | None = None) -> tuple[Run, Code]:
    """The run of a header and its code: by its name, or any whose weights are the same."""
    wanted, trained_on = str(header.get("run", "")), ""
    candidates = sorted(runs(where), key=lambda run: run.id != wanted)
    for run in candidates:
        with contextlib.suppress(ChainruleError):
            if (code := _code_then(run, header, earlier=run.id == wanted)) is not None:
                return run, code
            if run.id == wanted:
                trained_on = f": {wanted} has the checkpoints of steps {', '.join(map(str, run.checkpoints))}"
    step = f" at step {header['step']}" if isinstance(header.get("step"), int) else ""
    raise RunError(
        f"the file was compressed by {f'the run {wanted!r}{step}' if wanted else 'a model that it does not name'}, "
        f"and no run here has its weights{trained_on}",
        remedy="bring that checkpoint back; training on removes old ones unless keep= is large"
        if trained_on
        else "say where it is: run=PATH, or runs=DIR",
    )


def _code_then(run: Run, header: dict[str, Any], *, earlier: bool = True) -> Code | None:
    """The code of the checkpoint that compressed a file: that in use, or an earlier one; none where it is gone."""
    code = code_of(run)
    if weights_hash(code.weights) == header["weights"]:
        return code
    for step in [one for one in run.checkpoints if one != run.step] if earlier else []:
        code = code_of(run.model_at(step))
        if weights_hash(code.weights) == header["weights"]:
            return code
    return None


def absent(path: Path) -> Path:
    """A path where nothing is yet; what is there is never written over."""
    if path.exists():
        raise ArgumentError(
            f"out={path}: is there already", remedy="choose another name with out=, or remove it"
        )
    if not path.resolve().parent.is_dir():
        raise ArgumentError(f"out={path}: the folder {path.parent} does not exist")
    return path


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes `path` when everything went well and vanishes otherwise."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.rename(path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        temporary.unlink(missing_ok=True)


def _write_symbols(target: Path, schema: Schema, form: dict[str, Any], parts: Iterator[np.ndarray]) -> None:
    """A text, or an array, of which no more than a segment is in memory."""
    with target.open("wb") as file:
        if form["as"] == "text":
            file.writelines(piece.encode("utf-8") for piece in texts(schema, form, parts))
            return
        if form["as"] in ("tokens", "events"):
            np.save(file, restored(schema, form, joined(schema, parts)))
            return
        dtype, shape = np.dtype(form["dtype"]), tuple(form["shape"])
        described = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, described)
        spelling = LevelSpelling(form["top"], form["product"])
        for symbols in parts:
            file.write(unlevelled(schema, symbols, dtype, spelling).tobytes())


def _write_images(
    target: Path, schema: Schema, reader: CompressedReader, parts: Iterator[np.ndarray]
) -> None:
    """One image as a file, several as a folder, all as PNG: what was lossy would not come back bit by bit."""
    form = reader.header["form"]
    several = form["as"] == "images"
    targets = [target / name for name in _safe_names(reader)] if several else [target]
    pixels = (
        row
        for symbols in parts
        for row in unlevelled(schema, symbols, np.dtype(np.uint8), LevelSpelling(form["top"], False))
    )
    if several:
        target.mkdir()
    written = 0
    for path, row in zip(targets, pixels, strict=False):
        path.parent.mkdir(parents=True, exist_ok=True)
        as_image(schema, form, row).save(path, "PNG")
        written += 1
    # The end of the file is read, and checked, when another image is asked for.
    if written < len(targets) or next(pixels, None) is not None:
        raise reader.error("holds more names than images, or fewer")


def _safe_names(reader: CompressedReader) -> list[str]:
    """Names of images below a folder, each its own."""
    try:
        names = [Path(name) for name in json.loads(reader.names) if "\0" not in name]
        outside = any(name.is_absolute() or ".." in name.parts for name in names)
        found = [name.with_suffix(".png").as_posix() for name in names]
    except (ValueError, TypeError, RecursionError):
        raise reader.error("has a list of names that cannot be read") from None
    if outside:
        raise reader.error("names files outside of its own folder", "do not trust where it comes from")
    if len(set(found)) < len(found):  # a.jpg and a.png
        found = [f"{name.as_posix()}.png" for name in names]
    if len(set(found)) < len(found):
        raise reader.error("has a name twice")
    return found


__all__ = ["absent", "compress_file", "decompress_file", "found_code", "whole_file"]

"""Options of sampling that users give in the units of their data, in those of the model.

Conditions are targets; what is known of an example, and examples to begin with, come as files: of images these are read
by the model, which knows how pixels are scaled, and of rows here, as only the run knows how they were read.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data import kinds
from chainrule.data.inputs.protocol import Preparation
from chainrule.data.readers import npy
from chainrule.data.row_files import read_row
from chainrule.data.scaling import scaled_target
from chainrule.data.schema import Schema
from chainrule.models.protocol import Model

if TYPE_CHECKING:
    from chainrule.train.run import Run

_CONDITIONS = ("condition", "negative")
_FILES = {"start": ("samples",), "inpaint": ("known", "mask")}
"""Options that name a file of examples, and the arrays of one that is NPZ."""


def in_model_units(
    prepared: Preparation, options: Mapping[str, Any], open_run: Callable[[str | Path], "Run"]
) -> dict[str, Any]:
    """The options with conditions scaled as targets are, and files of rows read and scaled as examples are.

    A classifier that leads to a class, or a control beside another, may be the name or the folder of a run, which
    `open_run` opens.
    """
    found = dict(options)
    if isinstance(judge := found.get("classifier"), str | Path):
        found["classifier"] = _classifier(prepared.schema, open_run(judge))
    if found.get("beside") is not None:
        given = found["beside"] if isinstance(found["beside"], list | tuple) else [found["beside"]]
        found["beside"] = [_beside(prepared.schema, one, open_run) for one in given]
    if prepared.target_scaling is not None:
        for name in _CONDITIONS:
            if found.get(name) is not None:
                found[name] = scaled_target(prepared.schema, prepared.target_scaling, name, found[name])
    if kinds.of(prepared.schema).has_rows:
        for name in _FILES:
            if isinstance(found.get(name), str | Path):
                found[name] = _rows(prepared, name, Path(found[name]))
    return found


def _classifier(schema: Schema, run: "Run") -> Model:
    """The model of a run that tells the classes of the same data."""
    for what in ("kind", "shape", "classes"):
        theirs, ours = getattr(run.schema, what), getattr(schema, what)
        if theirs != ours:
            raise ArgumentError(
                f"classifier={run.id}: the {what} of its data is {theirs}, that of this run's {ours}",
                remedy="give a run that was trained on the same data",
            )
    return run.model


def _beside(schema: Schema, given: Any, open_run: Callable[[str | Path], "Run"]) -> Model:
    """The model of a further control, which may be a model, a run, or the name or folder of one."""
    if isinstance(given, Model):
        return given
    run = open_run(given) if isinstance(given, str | Path) else given
    if run.schema.shape != schema.shape:
        raise ArgumentError(
            f"beside={run.id}: its images have the shape {run.schema.shape}, those of this run {schema.shape}",
            remedy="give a run that stands beside the same diffusion model",
        )
    model: Model = run.model
    return model


def _rows(prepared: Preparation, option: str, path: Path) -> Any:
    """Rows to begin with, or a row of which something is known and a mask, from an NPZ or a CSV file."""
    if path.suffix.lower() == ".npz":
        arrays = npy.named(path, _FILES[option])
        values, *mask = (arrays[name] for name in _FILES[option])
    else:
        values, *mask = read_row(path, prepared.schema, prepared.reading)
        if not mask[0].any():
            raise ArgumentError(f"{option}={path}: nothing is known of the row", remedy="fill in some cells")
        if option == "start" and not mask[0].all():
            raise ArgumentError(
                f"start={path}: cells are missing", remedy="to have them filled in, use inpaint= instead"
            )
        mask = mask if option == "inpaint" else []
    shape = prepared.schema.shape
    if values.shape[-1:] != shape[-1:]:
        raise ArgumentError(f"{option}={path}: rows of shape {values.shape}; the data have shape {shape}")
    scaled = np.asarray(
        prepared.scaling.apply(values.astype(np.float64)[None] if values.ndim == 1 else values)
    )
    scaled = scaled[0] if values.ndim == 1 else scaled
    return (scaled, mask[0]) if mask else scaled


__all__ = ["in_model_units"]

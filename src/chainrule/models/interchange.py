"""Weights to and from other libraries, as safetensors files.

PyTorch stores the same numbers in other layouts: dense weights as (outputs, inputs), kernels as (outputs, inputs,
height, width), and it flattens images channels first. A table of layer classes below holds these differences; which
layer has which name is said by the caller.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from chainrule import nn
from chainrule.core import tree
from chainrule.core.errors import ArgumentError, DataError, suggest
from chainrule.models.base import Flattened, Model

M = TypeVar("M", bound=Model)
Names = Mapping[str, str | Flattened]
"""From the place of a layer in our model (`blocks.0.conv`) to its name in the file (`features.0`)."""


class Field(NamedTuple):
    """One array of a layer: what the file calls it, and the way into the file and back."""

    theirs: str
    out: Callable[[np.ndarray], np.ndarray]
    back: Callable[[np.ndarray], np.ndarray]


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _swap(array: np.ndarray) -> np.ndarray:
    return np.swapaxes(array, 0, 1)


def _kernel_out(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, (-1, -2), (0, 1))


def _kernel_back(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, (0, 1), (-1, -2))


_BIAS = Field("bias", _same, _same)
_SCALE = {"scale": Field("weight", _same, _same), "shift": Field("bias", _same, _same)}
_KERNEL = {"weight": Field("weight", _kernel_out, _kernel_back), "bias": _BIAS}
LAYERS: dict[type, dict[str, Field]] = {
    nn.Linear: {"weight": Field("weight", _swap, _swap), "bias": _BIAS},
    nn.Conv: _KERNEL,
    nn.ConvTranspose: _KERNEL,
    nn.LayerNorm: _SCALE,
    nn.BatchNorm: {
        **_SCALE,
        "mean": Field("running_mean", _same, _same),
        "var": Field("running_var", _same, _same),
    },
    nn.NoNorm: {},
}
IGNORED = ("num_batches_tracked",)
"""Endings of names in PyTorch files that hold no weights."""


@final
@dataclass(frozen=True)
class Imported:
    """A model with weights from a file, and what did not fit."""

    model: Any
    loaded: tuple[str, ...]
    """Arrays of the file that were taken."""
    missing: tuple[str, ...]
    """Arrays the model needs that the file does not have; they keep their values."""
    misshapen: tuple[str, ...]
    """Arrays that are there in another shape; the model keeps its own."""
    unused: tuple[str, ...]
    """Arrays of the file that the model has no place for."""

    def __str__(self) -> str:
        lines = [f"{len(self.loaded)} arrays taken"]
        for what in ("missing", "misshapen", "unused"):
            found = getattr(self, what)
            if found:
                lines.append(f"{len(found)} {what}: {', '.join(found[:3])}{' ...' if len(found) > 3 else ''}")
        return "; ".join(lines)


def read(model: M, path: str | Path, names: Names, *, strict: bool = True) -> Imported:
    """The model with the weights of a safetensors file, of which `names` says what it calls each layer."""
    place = Path(path)
    stored = _read(place)
    table = _table(model, names)
    arrays, taken, missing, misshapen = [], [], [], []
    for theirs, (array, field) in table.items():
        wanted = field.out(np.empty(array.shape, np.bool_)).shape
        if theirs not in stored:
            missing.append(theirs)
        elif stored[theirs].shape != wanted:
            misshapen.append(f"{theirs} is {stored[theirs].shape} instead of {wanted}")
        else:
            array = jnp.asarray(field.back(stored[theirs]), array.dtype)
            taken.append(theirs)
        arrays.append(array)
    unused = sorted(name for name in set(stored) - set(table) if not name.endswith(IGNORED))
    report = Imported(None, tuple(taken), tuple(missing), tuple(misshapen), tuple(unused))
    if strict and (missing or misshapen or unused):
        raise ArgumentError(
            f"{place.name} does not fit: {report}",
            remedy="strict=False takes what fits; names={...} says what the file calls each layer",
        )
    loaded = eqx.tree_at(lambda m: [array for array, _ in _table(m, names).values()], model, arrays)
    return Imported(loaded, report.loaded, report.missing, report.misshapen, report.unused)


def write(model: Model, path: str | Path, names: Names | None) -> Path:
    """Write the weights to a safetensors file: under these names in PyTorch's layouts, or as they are here."""
    place = Path(path)
    if place.suffix != ".safetensors":
        raise ArgumentError(f"export_weights(path={str(path)!r}): the name must end in .safetensors")
    if names is None:
        own = tree.named_leaves(eqx.filter(model, eqx.is_array))
        arrays = {name: np.asarray(array) for name, array in own}
    else:
        table = _table(model, names).items()
        arrays = {
            theirs: np.ascontiguousarray(field.out(np.asarray(array))) for theirs, (array, field) in table
        }
    safetensors.numpy.save_file(arrays, place)
    return place


def _read(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise DataError(f"{path} is not a file", remedy="name a .safetensors file")
    try:
        with safetensors.safe_open(path, framework="flax") as file:  # knows bfloat16
            return {name: np.asarray(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise DataError(
            f"{path.name} is not a safetensors file ({error})",
            remedy="files of other formats may hold code and are not opened; convert them where you trust them",
        ) from None


def _table(model: Any, names: Names) -> dict[str, tuple[Any, Field]]:
    """For every name in the file: our array and the way between the two."""
    table = {}
    for ours, theirs in names.items():
        layer = _at(model, ours)
        fields = LAYERS.get(type(layer))
        if fields is None:
            known = ", ".join(sorted(kind.__name__ for kind in LAYERS))
            raise ArgumentError(
                f"names: {ours} is a {type(layer).__name__}; layers that can be exchanged are {known}"
            )
        name, grid = theirs if isinstance(theirs, Flattened) else (theirs, ())
        for field_name, field in fields.items():
            array = getattr(layer, field_name)
            if array is not None:
                way = _flattened(field, grid) if grid and field_name == "weight" else field
                table[f"{name}.{field.theirs}"] = (array, way)
    return table


def _at(model: Any, path: str) -> Any:
    node = model
    for part in path.split("."):
        try:
            node = node[int(part)] if part.isdecimal() else getattr(node, part)
        except (AttributeError, IndexError, TypeError):
            known = list(vars(node)) if hasattr(node, "__dict__") else []
            raise ArgumentError(
                f"names: the model has no layer {path!r}{suggest(part, known)}",
                remedy="a place is written as attributes and numbers, e.g. blocks.0.conv",
            ) from None
    return node


def _flattened(field: Field, grid: tuple[int, ...]) -> Field:
    """A dense layer on a flattened feature map: (*grid, channels) here, (channels, *grid) there."""

    def out(weight: np.ndarray) -> np.ndarray:
        image = weight.reshape(*grid, -1, weight.shape[1])
        return field.out(np.moveaxis(image, -2, 0).reshape(weight.shape))

    def back(theirs: np.ndarray) -> np.ndarray:
        weight = field.back(theirs)
        image = weight.reshape(-1, *grid, weight.shape[1])
        return np.moveaxis(image, 0, -2).reshape(weight.shape)

    return Field(field.theirs, out, back)


__all__ = ["Imported", "Names", "read", "write"]

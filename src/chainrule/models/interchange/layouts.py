"""Weights to and from other libraries, as safetensors files.

PyTorch stores the same numbers in other layouts: dense weights as (outputs, inputs), kernels as (outputs, inputs,
height, width), and it flattens images channels first. A table of layer classes below holds these differences; which
layer has which name is said by the caller.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from chainrule import nn
from chainrule.core import tree
from chainrule.core.errors import ArgumentError, DiskError, suggest
from chainrule.models.interchange import weight_files
from chainrule.models.protocol import Flattened, InOut, Joined, Model, Name, NameTable, Patches, Spelled
from chainrule.models.protocol.weight_checks import check_values

M = TypeVar("M", bound=Model)
Names: TypeAlias = Mapping[str, Name] | NameTable
"""From the path of a layer in our model (`blocks.0.conv`) to its name in the file (`features.0`)."""
Arrays: TypeAlias = dict[str, np.ndarray]


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
    nn.Embedding: {"weight": Field("weight", _same, _same)},
    nn.positions.Learned: {"weight": Field("weight", _same, _same)},
    nn.LayerNorm: _SCALE,
    nn.GroupNorm: _SCALE,
    nn.RMSNorm: {"scale": _SCALE["scale"]},
    nn.BatchNorm: {
        **_SCALE,
        "mean": Field("running_mean", _same, _same),
        "var": Field("running_var", _same, _same),
    },
    nn.NoNorm: {},
    nn.LayerScale: {"scale": Field("weight", _same, _same)},
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
    adapted: tuple[str, ...] = ()
    """Arrays that were taken in another shape, such as positions for images of another size."""

    def __str__(self) -> str:
        lines = [f"{len(self.loaded)} arrays taken"]
        for what in ("adapted", "missing", "misshapen", "unused"):
            found = getattr(self, what)
            if found:
                lines.append(f"{len(found)} {what}: {', '.join(found[:3])}{' ...' if len(found) > 3 else ''}")
        return "; ".join(lines)


class StoredArray(NamedTuple):
    """One array of ours, the names of its parts in the file, and the way into the file and back."""

    array: Any
    theirs: tuple[str, ...]
    out: Callable[[np.ndarray], list[np.ndarray]]
    back: Callable[[Sequence[np.ndarray]], np.ndarray]
    either: bool = False
    """Whether files hold it either way round."""
    adapt: Callable[[np.ndarray, tuple[int, ...]], np.ndarray | None] | None = None
    """How one of another shape in the file is brought to ours."""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of its parts in the file."""
        return [part.shape for part in self.out(np.empty(self.array.shape, np.bool_))]


def read(
    model: M, path: str | Path, names: Names, *, strict: bool = True, fresh: Sequence[str] = ()
) -> Imported:
    """The model with the weights of a safetensors file or folder, of which `names` says what it calls each layer.

    Layers that `fresh` names by pattern keep their weights, whatever the file has for them.
    """
    file = weight_files.found(path)
    names, every = _without(_whole(names), fresh), _whole(names)
    mapped = _stored_arrays(model, names)
    stored = _without_copies(_without_prefix(weight_files.arrays(file), names.prefix), names.copies)
    stored = {name: array for name, array in stored.items() if not name.endswith(names.zeros) or array.any()}
    if _turned(mapped, stored):
        for name in (name for one in mapped if one.either for name in one.theirs):
            stored |= {name: stored[name].T} if name in stored else {}
    adapted = _adapted(mapped, stored)
    stored |= adapted
    arrays: list[Any] = []
    taken: list[str] = []
    missing: list[str] = []
    misshapen: list[str] = []
    for one in mapped:
        lacking = [name for name in one.theirs if name not in stored]
        parts = [
            (name, wanted) for name, wanted in zip(one.theirs, one.shapes, strict=True) if name in stored
        ]
        odd = [(name, wanted) for name, wanted in parts if stored[name].shape != wanted]
        missing += lacking
        misshapen += [f"{name} is {stored[name].shape} instead of {wanted}" for name, wanted in odd]
        for name, _ in parts:
            check_values(name, stored[name])
        if lacking or odd:
            arrays.append(one.array)
        else:
            arrays.append(jnp.asarray(one.back([stored[name] for name in one.theirs]), one.array.dtype))
            taken += one.theirs
    known = stored_shapes(model, every)
    unused = sorted(
        name for name in stored.keys() - known.keys() if not name.endswith((*IGNORED, *names.ignored))
    )
    report = Imported(None, tuple(taken), tuple(missing), tuple(misshapen), tuple(unused), tuple(adapted))
    if strict and (missing or misshapen or unused):
        raise ArgumentError(
            f"{file.name} does not fit: {report}",
            remedy="strict=False (on the command line strict=false) takes what fits and lists the rest; in Python "
            "names={...} says what the file calls each layer",
        )
    loaded = eqx.tree_at(lambda m: [one.array for one in _stored_arrays(m, names)], model, arrays)
    return replace(report, model=loaded)


def closest(model: Model, tables: Sequence[Names], stored: Collection[str]) -> Names:
    """The table of names most of which are in a file; the first of several that are alike."""

    def found(names: Names) -> int:
        prefix = _whole(names).prefix
        return len(stored_shapes(model, names).keys() & {name.removeprefix(prefix) for name in stored})

    return max(tables, key=found)


def stored_shapes(model: Model, names: Names) -> dict[str, tuple[int, ...]]:
    """What the arrays of a model are called in a file with these names, and their shapes there."""
    rows = _stored_arrays(model, _whole(names))
    return {name: shape for row in rows for name, shape in zip(row.theirs, row.shapes, strict=True)}


def write(
    model: Model,
    path: str | Path,
    names: Names | None,
    head: Mapping[str, str],
    *,
    more: Mapping[str, np.ndarray] = MappingProxyType({}),
    prefixed: bool = False,
) -> Path:
    """Write the weights to a safetensors file: under these names in PyTorch's layouts, or as they are here.

    `head` is the text that goes with them, `more` further arrays; `prefixed` puts the prefix of the table before names.
    """
    file = Path(path)
    if file.suffix != ".safetensors":
        raise ArgumentError(f"export_weights(path={str(path)!r}): the name must end in .safetensors")
    if names is None:
        own = tree.named_leaves(eqx.filter(model, eqx.is_array))
        arrays = {name: np.asarray(array) for name, array in own}
    else:
        arrays = {}
        for one in _stored_arrays(model, _whole(names)):
            parts = one.out(np.asarray(one.array))
            arrays |= {name: np.ascontiguousarray(a) for name, a in zip(one.theirs, parts, strict=True)}
        arrays |= more
        if prefixed:
            arrays = {_whole(names).prefixed(name): array for name, array in arrays.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        safetensors.numpy.save_file(arrays, file, metadata=dict(head))
    except safetensors.SafetensorError as error:  # its name for whatever the operating system refuses
        raise DiskError(f"{file} cannot be written ({error})", remedy="name another file") from None
    return file


def _whole(names: Names) -> NameTable:
    return names if isinstance(names, NameTable) else NameTable(names)


def _without(names: NameTable, fresh: Sequence[str]) -> NameTable:
    """The table without the layers that the patterns mean."""
    for pattern in fresh:
        if not any(tree.matches(ours, pattern) for ours in names.layers):
            tops = list(dict.fromkeys(ours.split(".")[0] for ours in names.layers))
            raise ArgumentError(
                f"fresh={pattern}: no layer has such a name{suggest(pattern, tops)}",
                remedy=f"layers of this model: {', '.join(tops)}",
            )
    kept = {
        ours: theirs
        for ours, theirs in names.layers.items()
        if not any(tree.matches(ours, pattern) for pattern in fresh)
    }
    return replace(names, layers=kept)


def _without_prefix(stored: Arrays, prefix: str) -> Arrays:
    """Names without a prefix, where the file has it."""
    return {name.removeprefix(prefix): array for name, array in stored.items()}


def _without_copies(stored: Arrays, copies: Mapping[str, str]) -> Arrays:
    """Without arrays that only repeat another one; one that differs stays, and is reported as unused."""
    repeated = {
        copy
        for copy, original in copies.items()
        if copy in stored and original in stored and np.array_equal(stored[copy], stored[original])
    }
    return {name: array for name, array in stored.items() if name not in repeated}


def _adapted(mapped: Sequence[StoredArray], stored: Arrays) -> Arrays:
    """Arrays of the file in the shape that ours have, where there is a way to get there."""
    found: Arrays = {}
    for one in mapped:
        for name, shape in zip(one.theirs, one.shapes, strict=True):
            if one.adapt is not None and name in stored and stored[name].shape != shape:
                new = one.adapt(np.asarray(stored[name]), shape)
                found |= {} if new is None else {name: new}
    return found


def _turned(mapped: Sequence[StoredArray], stored: Arrays) -> bool:
    """Whether the file holds (outputs, inputs) where (inputs, outputs) is expected; square matrices cannot tell."""
    votes: dict[bool, str] = {}
    for one in mapped:
        for name, shape in zip(one.theirs, one.shapes, strict=True):
            if one.either and name in stored and shape != shape[::-1]:
                if stored[name].shape == shape:
                    votes.setdefault(False, name)
                elif stored[name].shape == shape[::-1]:
                    votes.setdefault(True, name)
    if len(votes) == 2:
        raise ArgumentError(
            f"the file holds {votes[False]} as (inputs, outputs) and {votes[True]} as (outputs, inputs)",
            remedy="such a file was put together from two programs; write all matrices one way round",
        )
    return True in votes


def _stored_arrays(model: Any, names: NameTable) -> list[StoredArray]:
    """Every array of ours that the table names, with the way to the file and back."""
    mapped = []
    for ours, theirs in names.layers.items():
        layer = _at(model, ours)
        fields = LAYERS.get(type(layer))
        if fields is None:
            known = ", ".join(sorted(kind.__name__ for kind in LAYERS))
            raise ArgumentError(
                f"names: {ours} is a {type(layer).__name__}; layers that can be exchanged are {known}"
            )
        for field_name, field in fields.items():
            array = getattr(layer, field_name)
            if array is not None:
                mapped.append(_stored_array(array, field_name, field, theirs))
    return mapped


def _stored_array(array: Any, field_name: str, field: Field, theirs: Name) -> StoredArray:
    matrix = field_name == "weight"
    if isinstance(theirs, Joined):
        ends = np.cumsum(theirs.widths)[:-1]
        return StoredArray(
            array,
            tuple(f"{name}.{field.theirs}" for name in theirs.names),
            lambda array: [field.out(part) for part in np.split(array, ends, axis=-1)],
            lambda parts: np.concatenate([field.back(part) for part in parts], axis=-1),
        )
    if isinstance(theirs, Spelled):
        units = (1,) * theirs.before, (1,) * theirs.after
        return StoredArray(
            array,
            (theirs.arrays[field_name],),
            lambda array: [(out := field.out(array)).reshape(*units[0], *out.shape, *units[1])],
            lambda parts: field.back(parts[0].reshape(field.out(np.empty(array.shape, np.bool_)).shape)),
            adapt=theirs.adapt,
        )
    name = theirs if isinstance(theirs, str) else theirs.name
    if isinstance(theirs, Patches) and matrix:
        field = _as_kernel(field, theirs.side)
    if isinstance(theirs, Flattened) and matrix:
        field = _flattened(field, theirs.grid)
    if isinstance(theirs, InOut) and matrix:
        field = Field(field.theirs, _same, _same)
    return StoredArray(
        array,
        (f"{name}.{field.theirs}",),
        lambda array: [field.out(array)],
        lambda parts: field.back(parts[0]),
        either=isinstance(theirs, InOut) and matrix,
    )


def _at(model: Any, path: str) -> Any:
    node = model
    for part in path.split("."):
        try:
            node = node[int(part)] if part.isdecimal() else getattr(node, part)
        except (AttributeError, IndexError, TypeError):
            known = list(vars(node)) if hasattr(node, "__dict__") else []
            raise ArgumentError(
                f"names: the model has no layer {path!r}{suggest(part, known)}",
                remedy="a path is written as attributes and numbers, e.g. blocks.0.conv",
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


def _as_kernel(field: Field, side: int) -> Field:
    """A dense layer on patches: (side, side, channels) in one axis here, a kernel of a convolution there."""

    def out(weight: np.ndarray) -> np.ndarray:
        return _kernel_out(weight.reshape(side, side, -1, weight.shape[1]))

    def back(theirs: np.ndarray) -> np.ndarray:
        return _kernel_back(theirs).reshape(-1, theirs.shape[0])

    return Field(field.theirs, out, back)


__all__ = ["LAYERS", "Imported", "Names", "closest", "read", "stored_shapes", "write"]

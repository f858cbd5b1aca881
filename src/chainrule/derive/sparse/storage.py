"""Storage of prepared sparse derivatives: pattern and colours as plain arrays, the rest as JSON, nothing that is code.

The function itself is not kept. A fingerprint of it is, so that colours are never used for a function that they were
not made for. Where fingerprints cannot be compared, the pattern is detected again and has to lie within the saved one.
"""

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, ChainruleError, DiskError
from chainrule.core.types import Tree
from chainrule.derive import validation
from chainrule.derive.sparse import preparation
from chainrule.derive.sparse.coloring.methods import METHODS
from chainrule.derive.sparse.coloring.result import TWO_SIDED, Coloring, SideColors
from chainrule.derive.sparse.compressed_products import CompressedProducts
from chainrule.derive.sparse.compression import recipe, restricted
from chainrule.derive.sparse.detection import Guard, analyse
from chainrule.derive.sparse.fingerprint import fingerprint
from chainrule.derive.sparse.formats import FORMATS
from chainrule.derive.sparse.patterns import Pattern
from chainrule.derive.sparse.sparse_derivative import SparseDerivative
from chainrule.derive.sparse.strategy import MISSING_RULE, Choice

_FORMAT = "chainrule sparse derivative 2"
_EARLIER = "chainrule sparse derivative 1"
"""Its fingerprints left out rules written by hand and numbers inside compiled functions."""


class StorageError(ChainruleError):
    """A file that holds no prepared derivative, or one of something else."""


def save(made: SparseDerivative, path: Path) -> None:
    """Write a prepared derivative; the file appears whole or not at all."""
    coloring = made.coloring
    sides = coloring.colors if isinstance(coloring.colors, SideColors) else (coloring.colors,)
    about = {
        "format": _FORMAT,
        "what": made.what,
        "output": made.format,
        "part": made.part,
        "local": made.local,
        "shape": list(coloring.pattern.shape),
        "coloring": coloring.to_json(),
        "reason": made.report.reason,
        "inputs": _describe(made.inputs),
        "program": _fingerprint(made.what, made.f, made.inputs),
        "jax": jax.__version__,
    }
    arrays = {f"colors_{number}": side for number, side in enumerate(sides)}
    point = [] if made.guard is None else jax.tree.leaves(made.guard.point)
    arrays |= {f"point_{number}": np.asarray(leaf) for number, leaf in enumerate(point)}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                about=np.array(json.dumps(about)),
                indptr=coloring.pattern.indptr,
                cols=coloring.pattern.cols,
                **arrays,
            )
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DiskError(f"{path} could not be written: {error.strerror or error}") from error


def load(path: str | Path, f: Callable[[Any], Any], x: Tree | None = None) -> SparseDerivative:
    """The derivative saved at `path`, for the same function; nothing is detected or coloured again.

    (The conditions a local pattern relies on are part of the function, so they are looked up again where it was found.
    Programs of different versions of JAX cannot be compared, nor can those in files of earlier versions of this
    library: there the pattern is detected again, and what was saved is used only if it holds every entry.)
    `x`, if given, must be a point of the kind it was prepared for; it is needed only where points are PyTrees of other
    containers than dictionaries, lists and tuples. Raises `StorageError` naming what differs.
    """
    validation.function("sparse.load", f)
    about, arrays = _read(Path(path))
    kept = about["inputs"]
    inputs = _inputs(Path(path), kept, x)
    _, outputs = preparation.shapes(about["what"], f, inputs)
    pattern = _pattern(Path(path), about, arrays)
    notes = [f"loaded from {Path(path).name}"]
    if about["format"] == _FORMAT and about["jax"] == jax.__version__:
        _require_the_same(Path(path), about, f, inputs)
    else:
        _require_within(Path(path), about, f, inputs, pattern)
        notes.append("its pattern was detected again: the file is of an earlier version or of another JAX")
    coloring = _coloring(Path(path), about, arrays, pattern)
    chosen = Choice(coloring, recipe(coloring), about["reason"], {coloring.method: coloring.counts})
    guard = _guard(Path(path), about, arrays, f, inputs, pattern) if about["local"] else None
    inner = _inner(about["what"], f, inputs)
    kind = jnp.result_type(*jax.tree.leaves(inputs))
    plan = CompressedProducts(inner, outputs, restricted(chosen.recipe, about["part"]), kind)
    made = SparseDerivative(about["what"], f, plan, chosen, inputs, about["output"], about["part"], guard)
    made.report = preparation.report(about["what"], chosen, tuple(notes), {})
    return made


def _inner(what: str, f: Callable[[Any], Any], inputs: Tree) -> Callable[[Any], Any]:
    """What is differentiated once more: the function, or its gradient by the mode it has a rule for."""
    if what == "jacobian":
        return f
    try:
        jax.eval_shape(jax.grad(f), inputs)
    except MISSING_RULE:
        return jax.jacfwd(f)
    return jax.grad(f)


def _fingerprint(what: str, f: Callable[[Any], Any], inputs: Tree) -> str:
    return fingerprint(f, _inner(what, f, inputs), *preparation.shapes(what, f, inputs))


def _require_the_same(path: Path, about: dict[str, Any], f: Callable[[Any], Any], inputs: Tree) -> None:
    found = _fingerprint(about["what"], f, inputs)
    if found != about["program"]:
        raise StorageError(
            f"{path} was prepared for another function (program {about['program'][:12]}, this one is {found[:12]}): "
            "its operations, its rules or the numbers it closes over differ",
            remedy=f"prepare it again: sparse.{about['what']}(f, x)",
        )


def _require_within(
    path: Path, about: dict[str, Any], f: Callable[[Any], Any], inputs: Tree, pattern: Pattern
) -> None:
    """Raise unless every entry of the derivative of `f` is in the pattern; a local one is looked at with its guard."""
    if about["local"]:
        return
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), inputs)
    found = analyse(f, zeros, of=about["what"]).pattern
    if not pattern.contains(found):
        raise StorageError(
            f"{path} is of an earlier version or of another JAX, and its pattern lacks entries "
            "that the derivative of this function may have",
            remedy=f"prepare it again: sparse.{about['what']}(f, x)",
        )


def _describe(inputs: Tree) -> dict[str, Any]:
    leaves, structure = jax.tree.flatten(inputs)
    return {
        "leaves": [[list(leaf.shape), str(leaf.dtype)] for leaf in leaves],
        "structure": str(structure),
        "tree": _containers(inputs),
    }


def _containers(tree: Any) -> Any:
    """Nested plain containers as JSON; "other" where there are others."""
    if isinstance(tree, jax.ShapeDtypeStruct):
        return "leaf"
    if tree is None:
        return "none"
    if type(tree) is dict and all(isinstance(key, str) for key in tree):
        keys = sorted(tree)
        return {"kind": "dict", "keys": keys, "parts": [_containers(tree[key]) for key in keys]}
    if type(tree) in (list, tuple):
        return {"kind": type(tree).__name__, "keys": [], "parts": [_containers(part) for part in tree]}
    return "other"


def _rebuild(description: Any, leaves: list[Any]) -> Any:
    if description == "leaf":
        return leaves.pop(0)
    if description == "none":
        return None
    parts = [_rebuild(part, leaves) for part in description["parts"]]
    if description["kind"] == "dict":
        return dict(zip(description["keys"], parts, strict=True))
    return tuple(parts) if description["kind"] == "tuple" else parts


def _inputs(path: Path, kept: dict[str, Any], x: Tree | None) -> Tree:
    leaves = [jax.ShapeDtypeStruct(tuple(shape), np.dtype(dtype)) for shape, dtype in kept["leaves"]]
    wide = [leaf.dtype for leaf in leaves if jnp.zeros((), leaf.dtype).dtype != leaf.dtype]
    if wide:
        raise StorageError(
            f"{path} was prepared for {wide[0]}, which JAX does not use now",
            remedy='jax.config.update("jax_enable_x64", True)',
        )
    if x is None:
        if "other" in json.dumps(kept["tree"]):
            raise ArgumentError(
                f"sparse.load: points have structure {kept['structure']}, which only a point can tell",
                remedy="pass one: load(path, f, x)",
            )
        return _rebuild(kept["tree"], leaves)
    given = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), validation.point("sparse.load", x))
    theirs = _describe(given)
    for part, words in (("structure", "points of structure"), ("leaves", "points with leaves")):
        if theirs[part] != kept[part]:
            raise StorageError(f"{path} was prepared for {words} {kept[part]}, x has {theirs[part]}")
    return given


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        # NumPy leaves a damaged file open if it opens it itself.
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop("about")))
        if about["format"] not in (_FORMAT, _EARLIER):
            raise StorageError(f"{path} has format {about['format']!r}, this version reads {_FORMAT!r}")
        return about, arrays
    except FileNotFoundError as error:
        raise StorageError(f"{path} does not exist") from error
    except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile, EOFError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{path} is not a saved sparse derivative, or it is damaged") from error


def _pattern(path: Path, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Pattern:
    """The pattern, through the constructor that checks it."""
    try:
        indptr, cols = arrays["indptr"], arrays["cols"]
        m, n = about["shape"]
        rows = np.repeat(np.arange(m), np.diff(indptr))
        made = Pattern(rows, cols, (m, n))
        if made.nnz != len(cols):
            raise ValueError("an entry occurs twice")
        return made
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{path} is damaged: its pattern cannot be read ({error})") from error


def _guard(
    path: Path,
    about: dict[str, Any],
    arrays: dict[str, np.ndarray],
    f: Callable[[Any], Any],
    inputs: Tree,
    pattern: Pattern,
) -> Guard:
    """The guard of a local pattern, found again at the point the file names."""
    shapes, structure = jax.tree.flatten(inputs)
    leaves = [arrays.get(f"point_{number}") for number in range(len(shapes))]
    for leaf, like in zip(leaves, shapes, strict=True):
        if leaf is None or leaf.shape != like.shape or leaf.dtype != like.dtype:
            raise StorageError(f"{path} is damaged: the point of its local pattern cannot be read")
    found = analyse(f, jax.tree.unflatten(structure, leaves), of=about["what"], local=True)
    if found.guard is None or not pattern.contains(found.pattern):
        raise StorageError(f"{path} is damaged: its pattern is not the one at its point")
    return found.guard


def _coloring(path: Path, about: dict[str, Any], arrays: dict[str, np.ndarray], pattern: Pattern) -> Coloring:
    try:
        kept = about["coloring"]
        sides = [arrays[f"colors_{number}"] for number in range(2 if kept["method"] in TWO_SIDED else 1)]
        m, n = pattern.shape
        sizes = [m, n] if len(sides) == 2 else [m] if kept["method"] == "row" else [n]
        if (
            kept["method"] not in METHODS
            or about["output"] not in FORMATS
            or about["part"] not in preparation.PARTS
        ):
            raise ValueError("unknown method, format or part")
        if [side.shape for side in sides] != [(size,) for size in sizes]:
            raise ValueError("wrong number of colours")
        colors = SideColors(*sides) if len(sides) == 2 else sides[0]
        return Coloring(pattern=pattern, colors=colors, **kept)
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{path} is damaged: its colours cannot be read ({error})") from error


__all__ = ["StorageError", "load", "save"]

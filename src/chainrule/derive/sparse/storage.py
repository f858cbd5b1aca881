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
from chainrule.derive.jaxprs.refusals import MISSING_RULE
from chainrule.derive.sparse import preparation
from chainrule.derive.sparse.coloring.methods import METHODS
from chainrule.derive.sparse.coloring.result import TWO_SIDED, Coloring, SideColors
from chainrule.derive.sparse.compressed_products import CompressedProducts
from chainrule.derive.sparse.compression import recipe, restricted
from chainrule.derive.sparse.detection import Guard
from chainrule.derive.sparse.detection.detector import analyse_signed
from chainrule.derive.sparse.fingerprint import fingerprint
from chainrule.derive.sparse.formats import FORMATS
from chainrule.derive.sparse.patterns import Pattern
from chainrule.derive.sparse.signature import Signature, Valued, signed
from chainrule.derive.sparse.sparse_derivative import SparseDerivative
from chainrule.derive.sparse.strategy import Choice
from chainrule.derive.sparse.traced_function import TracedFunction, traced_function

_FORMAT = "chainrule sparse derivative 2"
_EARLIER = "chainrule sparse derivative 1"
"""Its fingerprints left out rules written by hand and numbers inside compiled functions."""
_ONE_ARGUMENT = {"argnums": 0, "has_aux": False, "holomorphic": False}
_CALL = tuple(_ONE_ARGUMENT)
_WIDE = ("float64", "complex128", "int64", "uint64")
"""Types that JAX may be told not to use."""


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
        "arguments": _describe(made.signature.arguments),
        "call": {name: getattr(made.signature, name) for name in _CALL},
        "program": _fingerprint(made.what, made.f, made.signature),
        "jax": jax.__version__,
    }
    arrays = {f"colors_{number}": side for number, side in enumerate(sides)}
    point = [] if made.guard is None else made.guard.numbers
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


def load(path: str | Path, f: Callable[..., Any], x: Tree | None = None, args: Any = ()) -> SparseDerivative:
    """The derivative saved at `path`, for the same function; nothing is detected or coloured again.

    (The conditions a local pattern relies on are part of the function, so they are looked up again where it was found.
    Programs of different versions of JAX cannot be compared, nor can those in files of earlier versions of this
    library: there the pattern is detected again, and what was saved is used only if it holds every entry.)
    `x` and `args`, if given, must be arguments of the kind it was prepared for; they are needed only where arguments
    are PyTrees of other containers than dictionaries, lists and tuples, or hold functions. Raises `StorageError`
    naming what differs.
    """
    validation.function("sparse.load", f)
    about, arrays = _read(Path(path))
    signature = _signature(Path(path), about, x, args)
    function = traced_function(about["what"], f, signature)
    pattern = _pattern(Path(path), about, arrays)
    notes = [f"loaded from {Path(path).name}"]
    if about["format"] == _FORMAT and about["jax"] == jax.__version__:
        _require_the_same(Path(path), about, f, signature)
    else:
        _require_within(Path(path), about, f, signature, pattern)
        notes.append("its pattern was detected again: the file is of an earlier version or of another JAX")
    coloring = _coloring(Path(path), about, arrays, pattern)
    chosen = Choice(coloring, recipe(coloring), about["reason"], {coloring.method: coloring.counts})
    guard = _guard(Path(path), about, arrays, f, signature, pattern) if about["local"] else None
    inner = _inner(about["what"], function.value, signature)
    outputs = _outputs(about["what"], function, signature)
    plan = CompressedProducts(inner, outputs, restricted(chosen.recipe, about["part"]), signature.dtype)
    made = SparseDerivative(about["what"], f, plan, chosen, signature, about["output"], about["part"], guard)
    made.report = preparation.report(about["what"], chosen, tuple(notes), {}, made.memory())
    return made


def _inner(what: str, value: Valued, signature: Signature) -> Valued:
    """What is differentiated once more: the function, or its gradient by the mode it has a rule for."""
    if what == "jacobian":
        return value
    try:
        jax.eval_shape(signature.gradient(value), signature.inputs, signature.held)
    except MISSING_RULE:
        return signature.gradient(value, forward=True)
    return signature.gradient(value)


def _outputs(what: str, function: TracedFunction, signature: Signature) -> Tree:
    """Shapes of what that returns."""
    return signature.inputs if what == "hessian" else function.outputs


def _fingerprint(what: str, f: Callable[..., Any], signature: Signature) -> str:
    # Of the function as it is written: of a traced one other programs come, and files would be of another function.
    inner = _inner(what, signature.value(f), signature)
    return fingerprint(
        what, signature, f, inner, _outputs(what, traced_function(what, f, signature), signature)
    )


def _require_the_same(path: Path, about: dict[str, Any], f: Callable[..., Any], signature: Signature) -> None:
    found = _fingerprint(about["what"], f, signature)
    if found != about["program"]:
        raise StorageError(
            f"{path} was prepared for another function (program {about['program'][:12]}, this one is {found[:12]}): "
            "its operations, its rules or the numbers it closes over differ",
            remedy=f"prepare it again: sparse.{about['what']}(f, x)",
        )


def _require_within(
    path: Path, about: dict[str, Any], f: Callable[..., Any], signature: Signature, pattern: Pattern
) -> None:
    """Raise unless every entry of the derivative of `f` is in the pattern; a local one is looked at with its guard."""
    if about["local"]:
        return
    at = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), (signature.inputs, signature.held))
    found = analyse_signed(f, signature, at[0], at[1], about["what"], local=False).pattern
    if not pattern.contains(found):
        raise StorageError(
            f"{path} is of an earlier version or of another JAX, and its pattern lacks entries "
            "that the derivative of this function may have",
            remedy=f"prepare it again: sparse.{about['what']}(f, x)",
        )


def _describe(arguments: Tree) -> dict[str, Any]:
    leaves, structure = jax.tree.flatten(arguments)
    arrays = [leaf for leaf in leaves if isinstance(leaf, jax.ShapeDtypeStruct)]
    return {
        "leaves": [[list(leaf.shape), str(leaf.dtype)] for leaf in arrays],
        "structure": str(structure),
        "tree": _containers(arguments),
    }


def _containers(tree: Any) -> Any:
    """Nested plain containers, and plain values in them, as JSON; "other" where there are others."""
    if isinstance(tree, jax.ShapeDtypeStruct):
        return "other" if jax.dtypes.issubdtype(tree.dtype, jax.dtypes.extended) else "leaf"
    if tree is None:
        return "none"
    if type(tree) in (int, bool, str):
        return {"kind": "plain", "value": tree}
    if type(tree) is dict and all(isinstance(key, str) for key in tree):
        keys = sorted(tree)
        return {"kind": "dict", "keys": keys, "parts": [_containers(tree[key]) for key in keys]}
    if type(tree) in (list, tuple):
        return {"kind": type(tree).__name__, "keys": [], "parts": [_containers(part) for part in tree]}
    return "other"


def _rebuild(description: Any, leaves: list[Any]) -> Any:
    if description == "leaf":
        shape, dtype = leaves.pop(0)
        return jax.ShapeDtypeStruct(tuple(shape), np.dtype(dtype))
    if description == "none":
        return None
    if description == "other":
        raise ArgumentError(
            "sparse.load: the arguments it was prepared for hold more than arrays in plain containers",
            remedy="pass one set of them: load(path, f, x), or load(path, f, x, args)",
        )
    if description["kind"] == "plain":
        return description["value"]
    parts = [_rebuild(part, leaves) for part in description["parts"]]
    if description["kind"] == "dict":
        return dict(zip(description["keys"], parts, strict=True))
    return tuple(parts) if description["kind"] == "tuple" else parts


def _signature(path: Path, about: dict[str, Any], x: Tree | None, args: Any) -> Signature:
    """How the function was called, from the file or from a set of arguments that agrees with it."""
    where, call = f"sparse.{about['what']}", about.get("call", _ONE_ARGUMENT)
    # Files of functions of one argument used to describe just that one.
    kept = about["arguments"] if "arguments" in about else about["inputs"]
    for _, dtype in kept["leaves"]:
        if dtype in _WIDE and jnp.zeros((), dtype).dtype != dtype:
            raise StorageError(
                f"{path} was prepared for {dtype}, which JAX does not use now",
                remedy='jax.config.update("jax_enable_x64", True)',
            )
    if x is None:
        made = _rebuild(kept["tree"], list(kept["leaves"]))
        return Signature(where, made if "arguments" in about else (made,), **call)
    given, _, _ = signed(where, x, args, **call)
    theirs = _describe(given.arguments if "arguments" in about else given.arguments[0])
    for part, words in (("structure", "arguments of structure"), ("leaves", "arguments with leaves")):
        if theirs[part] != kept[part]:
            raise StorageError(f"{path} was prepared for {words} {kept[part]}, these have {theirs[part]}")
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
    f: Callable[..., Any],
    signature: Signature,
    pattern: Pattern,
) -> Guard:
    """The guard of a local pattern, found again at the point the file names."""
    shapes, structure = jax.tree.flatten((signature.inputs, signature.held))
    leaves = [arrays.get(f"point_{number}") for number in range(len(shapes))]
    for leaf, like in zip(leaves, shapes, strict=True):
        if leaf is None or leaf.shape != like.shape or leaf.dtype != like.dtype:
            raise StorageError(f"{path} is damaged: the point of its local pattern cannot be read")
    at = jax.tree.unflatten(structure, leaves)
    found = analyse_signed(f, signature, at[0], at[1], about["what"], local=True)
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

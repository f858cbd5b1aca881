"""Fingerprints of functions: a hash of everything a sparsity pattern depends on.

The program of a function does not tell its derivative: a rule written by hand stands in it by name only. The programs
of its products do, since the rules are written out there; so those are hashed too, with the numbers that they and the
programs inside them hold.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from chainrule.core.types import Tree
from chainrule.derive import flattening
from chainrule.derive.jaxprs.equations import inner_programs
from chainrule.derive.jaxprs.refusals import MISSING_RULE
from chainrule.derive.sparse.compressed_products import forward_product, reverse_product
from chainrule.derive.sparse.signature import Signature, Valued

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def fingerprint(what: str, signature: Signature, f: Callable[..., Any], inner: Valued, outputs: Tree) -> str:
    """SHA-256 of `f` and of the products of `inner` (`f` itself, or its gradient) for arguments of these kinds."""
    digest = hashlib.sha256()
    # A Hessian is made of forward products only.
    kinds = {forward_product: signature.inputs} | ({reverse_product: outputs} if what == "jacobian" else {})
    function = jax.make_jaxpr(signature.value(f))(signature.inputs, signature.held)
    for program in (function, *_products(signature, inner, kinds)):
        digest.update(_ADDRESS.sub("0x", str(program)).encode())
        for numbers in _numbers(program):
            array = np.asarray(jax.random.key_data(numbers) if _is_key(numbers) else numbers)
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _products(
    signature: Signature, inner: Valued, kinds: dict[Callable[..., Any], Tree]
) -> Iterator[ClosedJaxpr]:
    """The programs of one product of each kind along directions like these, as far as there are rules for it."""
    for product, like in kinds.items():
        direction = jax.ShapeDtypeStruct((flattening.size(like),), signature.dtype)
        try:
            yield jax.make_jaxpr(partial(product, inner))(signature.inputs, signature.held, direction)
        except MISSING_RULE:
            continue


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and bool(jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _numbers(program: ClosedJaxpr) -> Iterator[Any]:
    """Arrays that a program and the programs inside it close over or have among their parameters."""
    held = [program.consts, *(tuple(equation.params.values()) for equation in program.eqns)]
    yield from (leaf for leaf in jax.tree.leaves(held) if isinstance(leaf, (np.ndarray, jax.Array)))
    for equation in program.eqns:
        for inner in inner_programs(equation):
            yield from _numbers(inner)


__all__ = ["fingerprint"]

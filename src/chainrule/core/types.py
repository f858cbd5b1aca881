"""Type vocabulary: names of axes in signatures, and the few array types with a name of their own.

Axis names mean the same thing everywhere:

| name | axis |
|---|---|
| `batch` | examples; always the leading axis |
| `time` | position in a sequence |
| `height`, `width`, `channels` | images, channels last |
| `features`, `inputs`, `outputs` | coordinates of a vector, and the two sides of a linear map |
| `classes` | one entry per class |
| `...` | any leading axes |
"""

from typing import Any, TypeAlias

from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

Key: TypeAlias = PRNGKeyArray
Scalar: TypeAlias = Float[Array, ""]
Tree: TypeAlias = Any
"""Any PyTree of arrays; JAX checks its structure where it matters."""

__all__ = ["Array", "ArrayLike", "Float", "Int", "Key", "Scalar", "Tree"]

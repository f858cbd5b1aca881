"""The ground floor: shape vocabulary, errors, registries, random keys, tree arithmetic, pictures as data."""

from chainrule.core import errors, pictures, random, tree, types
from chainrule.core.registry import Registry

__all__ = ["Registry", "errors", "pictures", "random", "tree", "types"]

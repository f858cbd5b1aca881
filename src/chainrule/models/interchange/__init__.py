"""Weights to and from other programs: layouts and names, files and folders, and what they say of their model."""

from chainrule.models.interchange.layouts import LAYERS, Imported, Names, closest, read, stored_shapes, write

__all__ = ["LAYERS", "Imported", "Names", "closest", "read", "stored_shapes", "write"]

"""Data: sources, files, splits, deterministic batches."""

from chainrule.data.base import Batch, Data, Rows, Scaling, Schema, Split, Windows
from chainrule.data.batches import Batches

__all__ = ["Batch", "Batches", "Data", "Rows", "Scaling", "Schema", "Split", "Windows"]

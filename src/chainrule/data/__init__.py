"""Data: named sets and files, checked from end to end, split, scaled, and served in deterministic batches."""

from chainrule.data import pairs, tokenizers
from chainrule.data.base import Batch, Data, Pairs, Rows, Scaling, Schema, Split, Windows
from chainrule.data.batches import Batches
from chainrule.data.in_memory import from_arrays
from chainrule.data.loading import check, load
from chainrule.data.packing import Packed
from chainrule.data.scan import Report
from chainrule.data.showing import excerpt, preview
from chainrule.data.sources import Known, names

__all__ = [
    "Batch",
    "Batches",
    "Data",
    "Known",
    "Packed",
    "Pairs",
    "Report",
    "Rows",
    "Scaling",
    "Schema",
    "Split",
    "Windows",
    "check",
    "excerpt",
    "from_arrays",
    "load",
    "names",
    "pairs",
    "preview",
    "tokenizers",
]

"""Data: named sets and files, checked from end to end, split, scaled, and served in deterministic batches."""

from chainrule.data.batches import Batch, Batches
from chainrule.data.dataset import Data
from chainrule.data.domains import with_target
from chainrule.data.loading.in_memory import from_arrays
from chainrule.data.loading.load import check, load
from chainrule.data.loading.problems import ScanReport
from chainrule.data.loading.sources import KnownSource, names
from chainrule.data.previews import excerpt, preview
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Rows, Split
from chainrule.data.text import pairs, tokenizers
from chainrule.data.text.packing import Packed
from chainrule.data.text.pairs import Pairs
from chainrule.data.text.windows import Windows

__all__ = [
    "Batch",
    "Batches",
    "Data",
    "KnownSource",
    "Packed",
    "Pairs",
    "Rows",
    "Scaling",
    "ScanReport",
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
    "with_target",
]

"""Kernels of sequences of letters: words, genes, proteins. Readers of files are in `files`."""

from chainrule.kernels.sequences.encoding import DNA, PROTEIN
from chainrule.kernels.sequences.families import Families, mutated_families
from chainrule.kernels.sequences.kernel import Saving, SequenceKernel, saving
from chainrule.kernels.sequences.spectrum import CountingKernel, Driver, Spectrum, WeightedDegree
from chainrule.kernels.sequences.subsequences import Subsequences

__all__ = [
    "DNA",
    "PROTEIN",
    "CountingKernel",
    "Driver",
    "Families",
    "Saving",
    "SequenceKernel",
    "Spectrum",
    "Subsequences",
    "WeightedDegree",
    "mutated_families",
    "saving",
]

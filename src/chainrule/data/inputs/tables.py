"""New rows of a table: CSV files, data frames and arrays, their columns brought to the features of training by name."""

from chainrule.data.inputs import arrays
from chainrule.data.inputs.protocol import Given, Inputs, Preparation


def inputs(given: Given, prepared: Preparation) -> Inputs:
    """Rows of an array with the features of training as its columns."""
    return arrays.inputs(given, prepared, "rows")


__all__ = ["inputs"]

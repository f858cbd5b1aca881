"""Which models can be trained on which data, and what is said where one cannot."""

from collections.abc import Sequence

from chainrule.core.errors import CapabilityError
from chainrule.data.schema import Schema
from chainrule.models.protocol import Entry

_FEW = 6
"""Models that a refusal names."""


def suits(found: Entry, schema: Schema) -> bool:
    """Whether a model takes data of this kind with this target."""
    return schema.kind in found.kinds and schema.target in found.targets


def refusal(found: Entry, schema: Schema, others: Sequence[str]) -> CapabilityError:
    """What the model needs, and others that take the data."""
    wanted = f"{' or '.join(found.kinds)} data with target {' or '.join(found.targets)}"
    few = ", ".join(others[:_FEW]) + (", ..." if len(others) > _FEW else "")
    return CapabilityError(
        f"{found.name} needs {wanted}; these are {schema.kind} data with target {schema.target}",
        remedy=f"models that fit your data: {few or 'none'}; all models: chainrule models ls",
    )


__all__ = ["refusal", "suits"]

"""Pictures of a flow: its audit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax.numpy as jnp

from chainrule.core.pictures import Picture
from chainrule.core.types import Key
from chainrule.data.dataset import Data
from chainrule.networks.flows.audit_pictures import audit_table

if TYPE_CHECKING:
    from chainrule.models.flow.flow_model import FlowModel

_EXAMPLES = 256


def all_of(model: "FlowModel", data: Data, key: Key) -> Sequence[Picture]:
    """Every picture that suits the data."""
    x = jnp.asarray(data.test.batch(range(min(_EXAMPLES, len(data.test)))).x, jnp.float32)
    return [audit_table(model.audit(x, key))]


__all__ = ["all_of"]

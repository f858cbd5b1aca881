"""Models and data as they are given to training: whatever is neither is refused with the way to make it one."""

from typing import Any

import equinox as eqx

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data.dataset import Data
from chainrule.models.protocol import CanAdapt, Model, NeedsSchema


def prepared(model: Any, data: Any) -> Model:
    """The model as it is trained on these data; whatever is no model, or no data, is refused here."""
    if not isinstance(data, Data):
        raise ArgumentError(
            f"data is a {type(data).__name__}",
            remedy="load it first: cr.data.load(name_or_path), or cr.data.from_arrays(x, y)",
        )
    checked = as_model(model)
    if data.other is not None and not isinstance(checked, CanAdapt):
        raise CapabilityError(
            f"target={data.other.name}: {models.title(checked)} learns from one domain",
            remedy="train a model that adapts to another one, dann, or leave target out",
        )
    return checked.bound(data.schema) if isinstance(checked, NeedsSchema) else checked


def as_model(given: Any) -> Model:
    """A model, or what the function that builds it gives; a network without a loss is refused."""
    if isinstance(given, Model):
        return given
    if isinstance(given, eqx.Module):
        name = type(given).__name__
        raise ArgumentError(
            f"{name} is a network without a loss, not a model",
            remedy=f'give it one: cr.models.wrap({name.lower()}, loss="cross-entropy", metrics=["accuracy"])',
        )
    if not callable(given):
        raise ArgumentError(
            f"model is a {type(given).__name__}",
            remedy='build one: cr.models.build("mlp", data), or wrap a network: cr.models.wrap(network, loss=...)',
        )
    return as_model(given())


__all__ = ["as_model", "prepared"]

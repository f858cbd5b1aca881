"""Which class a Gaussian process is, by its settings and the targets of the data."""

from chainrule.core.types import Key
from chainrule.data import targets
from chainrule.data.schema import Schema
from chainrule.models.kernel.gp.model import GPRegressor
from chainrule.models.kernel.gp.settings import GPConfig
from chainrule.models.kernel.gp.sparse import SparseGPClassifier, SparseGPRegressor


def build(config: GPConfig, schema: Schema, key: Key) -> GPRegressor | SparseGPClassifier | SparseGPRegressor:
    """The exact process of values, or one by inducing inputs of values or classes."""
    if not targets.of(schema).has_values:
        return SparseGPClassifier(config, schema, key)
    if config.method == "sparse":
        return SparseGPRegressor(config, schema, key)
    return GPRegressor(config, schema, key)


__all__ = ["build"]

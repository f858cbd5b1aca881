"""Which class a Gaussian process is, by its settings and the targets of the data."""

from chainrule.core.types import Key
from chainrule.data import targets
from chainrule.data.schema import Schema
from chainrule.models.kernel.gp.features import FeatureGPRegressor
from chainrule.models.kernel.gp.iterative import IterativeGPRegressor
from chainrule.models.kernel.gp.laplace import LaplaceGPClassifier
from chainrule.models.kernel.gp.model import GPRegressor
from chainrule.models.kernel.gp.settings import GPConfig
from chainrule.models.kernel.gp.sparse import SparseGPClassifier, SparseGPRegressor

GPModel = (
    FeatureGPRegressor
    | GPRegressor
    | IterativeGPRegressor
    | LaplaceGPClassifier
    | SparseGPClassifier
    | SparseGPRegressor
)


def build(config: GPConfig, schema: Schema, key: Key) -> GPModel:
    """The process of values, exact, by features or by iteration; of classes by Laplace; or by inducing inputs."""
    if not targets.of(schema).has_values:
        found = LaplaceGPClassifier if config.method == "laplace" else SparseGPClassifier
        return found(config, schema, key)
    if config.approximate != "none":
        return FeatureGPRegressor(config, schema, key)
    if config.method == "sparse":
        return SparseGPRegressor(config, schema, key)
    if config.method == "iterative":
        return IterativeGPRegressor(config, schema, key)
    return GPRegressor(config, schema, key)


__all__ = ["GPModel", "build"]

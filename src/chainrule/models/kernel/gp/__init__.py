"""Gaussian processes of values and classes."""

from chainrule.models.kernel.gp.building import build
from chainrule.models.kernel.gp.features import FeatureGPRegressor
from chainrule.models.kernel.gp.iterative import IterativeGPRegressor
from chainrule.models.kernel.gp.laplace import LaplaceGPClassifier
from chainrule.models.kernel.gp.model import GPRegressor
from chainrule.models.kernel.gp.settings import GPConfig, measured, suited
from chainrule.models.kernel.gp.sparse import SparseGPClassifier, SparseGPRegressor, started
from chainrule.models.protocol import Entry

entry = Entry(
    name="gp",
    summary="Gaussian process: a distribution over functions, with calibrated uncertainty of every prediction.",
    config=GPConfig,
    build=build,
    kinds=("image", "points", "table"),
    targets=("value", "class"),
    data="wave",
    suited=suited,
    measured=measured,
    started=started,
    toy={"points": 40, "restarts": 0},
    toy_data="wave",
    citation="Rasmussen and Williams, Gaussian Processes for Machine Learning, MIT Press, 2006",
    training={"steps": 1000, "batch": 256, "optimizer": {"name": "adam", "lr": 0.02}},
)

__all__ = [
    "FeatureGPRegressor",
    "GPConfig",
    "GPRegressor",
    "IterativeGPRegressor",
    "LaplaceGPClassifier",
    "SparseGPClassifier",
    "SparseGPRegressor",
    "entry",
]

"""Support vector machines: classes, values, and the region of examples without a target."""

from chainrule.models.kernel.svm.model import SVMClassifier, SVMRegion, SVMRegressor, build
from chainrule.models.kernel.svm.settings import SVMConfig, measured
from chainrule.models.protocol import Entry

entry = Entry(
    name="svm",
    summary="Support vector machine: the border with the widest margin between classes, a tube of values, or a region.",
    config=SVMConfig,
    build=build,
    kinds=("image", "points", "table"),
    targets=("class", "value", "none"),
    data="digits",
    measured=measured,
    toy={"probability": False},
    toy_data="moons",
    citation="Cortes and Vapnik, Support-vector networks, Machine Learning 20, 1995",
    training={"steps": 1},
)

__all__ = ["SVMClassifier", "SVMConfig", "SVMRegion", "SVMRegressor", "entry"]

"""Neural spline flow."""

from chainrule.models.flow.flow_model import started
from chainrule.models.flow.spline_flow.model import SplineFlowConfig, build
from chainrule.models.flow.stacks import TRAINING, narrow
from chainrule.models.protocol import Entry

entry = Entry(
    name="spline-flow",
    summary="Neural spline flow: the most flexible density of tables and points, exact and fast to judge.",
    config=SplineFlowConfig,
    build=build,
    kinds=("table", "points", "image"),
    targets=("none", "class", "labels", "value"),
    data="moons",
    suited=narrow,
    started=started,
    toy={"layers": 2, "width": 16, "blocks": 1, "bins": 4},
    toy_data="moons",
    citation="Durkan, Bekasov, Murray and Papamakarios, Neural spline flows, NeurIPS 2019",
    training=TRAINING,
)

__all__ = ["SplineFlowConfig", "entry"]

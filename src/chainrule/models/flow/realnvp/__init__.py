"""RealNVP."""

from chainrule.models.flow.flow_model import started
from chainrule.models.flow.realnvp.model import RealNVPConfig, became, build, suited
from chainrule.models.flow.stacks import TRAINING
from chainrule.models.protocol import Entry

entry = Entry(
    name="realnvp",
    summary="RealNVP: coupling layers, whose densities and draws both take one pass.",
    config=RealNVPConfig,
    build=build,
    kinds=("table", "points", "image"),
    targets=("none", "class", "labels", "value"),
    data="moons",
    suited=suited,
    became=became,
    started=started,
    toy={"layers": 2, "width": 16},
    toy_data="moons",
    citation="Dinh, Sohl-Dickstein and Bengio, Density estimation using Real NVP, ICLR 2017",
    training=TRAINING,
)

__all__ = ["RealNVPConfig", "entry"]

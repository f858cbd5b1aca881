"""Networks linearised in their parameters."""

from chainrule.models.protocol import Entry
from chainrule.models.supervised.linearized.bodies import KINDS
from chainrule.models.supervised.linearized.model import Linearized, LinearizedConfig, adopts

entry = Entry(
    name="linearized",
    summary="A network as its Taylor expansion in its parameters: what its tangent kernel would learn.",
    config=LinearizedConfig,
    build=Linearized,
    kinds=("image", "table", "points", "sequence"),
    targets=("class", "labels", "value"),
    data="digits",
    toy={"body": {"name": "mlp", "width": 16, "depth": 2}},
    toy_data="moons",
    citation="Lee et al., Wide neural networks of any depth evolve as linear models under gradient descent, 2019, "
    "arXiv:1902.06720",
    training={"batch": 64, "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.0}},
    adopts=adopts,
)

__all__ = ["KINDS", "Linearized", "LinearizedConfig", "adopts", "entry"]

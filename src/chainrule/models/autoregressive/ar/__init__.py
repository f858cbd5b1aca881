"""AR(p)."""

from chainrule.models.autoregressive.ar.fitting import fit
from chainrule.models.autoregressive.ar.model import AR, ARConfig
from chainrule.models.autoregressive.ar.process import ARProcess, Forecast
from chainrule.models.protocol import Entry

entry = Entry(
    name="ar",
    summary="Linear autoregression of order p: series of numbers with exact likelihood and forecast intervals.",
    config=ARConfig,
    build=AR,
    kinds=("sequence",),
    targets=("none", "class", "value"),
    data="cycles",
    toy={},
    toy_data="cycles",
    citation="Yule, On a method of investigating periodicities in disturbed series, Phil. Trans. A 226, 1927",
    training={
        "batch": 64,
        "steps": 1000,
        "optimizer": {"name": "adam", "lr": 3e-2},
        "schedule": {"name": "cosine"},
    },
)

__all__ = ["AR", "ARConfig", "ARProcess", "Forecast", "entry", "fit"]

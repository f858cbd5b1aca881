"""Did adaptation help? A method beside the source alone, a few target labels alone, and an oracle, over several seeds.

Where the method is worse than doing nothing beyond chance, that is negative transfer, and said so.
"""

from typing import Any, Literal, final

from pydantic import Field

from chainrule.data import load, with_target
from chainrule.data.loading.sources import find
from chainrule.explain.methods.compared_trainings import compared
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.transfer.adaptation import adaptation_report


@final
class NegativeTransferSettings(Settings):
    """The two domains, the method and its training."""

    data: str = Field("moons", description="the source, with targets")
    target: str = Field("rotated-moons", description="the target, whose targets only judge")
    n: int | None = Field(None, ge=10, le=10**6, description="examples of each, where the data can be drawn")
    noise: float | None = Field(None, ge=0, description="noise of both, where the data can be drawn")
    load: dict[str, Any] = Field(
        default_factory=dict, description="further options of the source, e.g. load.texture=0"
    )
    load_target: dict[str, Any] = Field(
        default_factory=dict, description="further options of the target, e.g. load_target.angle=50"
    )
    align: Literal["adversarial", "mmd", "coral"] = Field(
        "adversarial", description="how domains are brought together"
    )
    strength: float = Field(1.0, ge=0, le=1e6, description="weight of the alignment")
    few: int = Field(20, ge=0, description="target examples with targets of the second baseline")
    seeds: int = Field(5, ge=2, le=100, description="trainings of each kind, in one program")
    steps: int = Field(4000, ge=1, description="steps of each")


def run(settings: NegativeTransferSettings, listener: Listener) -> Outcome:
    """Train all four and compare."""
    both = {"n": settings.n, "noise": settings.noise}
    drawn = {name: value for name, value in both.items() if value is not None}
    # Other points than those of the source where points are drawn. The same images on other backgrounds are divided
    # alike, so that none is in training here and in a test there.
    seed = int("n" in find(settings.target).options)
    source = load(settings.data, **{**drawn, **settings.load})
    target = load(settings.target, **{"seed": seed, **drawn, **settings.load_target})
    listener(f"{settings.data} and {settings.target}: four trainings of {settings.seeds} seeds")
    found = adaptation_report(
        with_target(source, target),
        seeds=settings.seeds,
        few=settings.few,
        settings={"align": settings.align, "strength": settings.strength},
        steps=settings.steps,
    )
    return compared(found, settings.data, settings.target, settings.seeds)


experiment = Experiment(
    "Did adaptation help? A method beside the source alone, a few target labels and an oracle, over several seeds.",
    NegativeTransferSettings,
    run,
    toy={"n": 40, "few": 0, "seeds": 2, "steps": 2},
    reference="Wang, Dai, Poczos and Carbonell, Characterizing and avoiding negative transfer, CVPR 2019",
)

__all__ = ["NegativeTransferSettings", "experiment", "run"]

"""f-GAN: any f-divergence."""

from chainrule.models.adversarial.building import counted_classes
from chainrule.models.adversarial.f_gan.model import FGAN, FGANConfig
from chainrule.models.adversarial.training import TRAINING, sized_noise, training_on
from chainrule.models.protocol import Entry

entry = Entry(
    name="f-gan",
    summary="f-GAN: a generator that lowers a bound of one of nine f-divergences, or of your own.",
    config=FGANConfig,
    build=FGAN,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    toy={"width": 16, "depth": 2, "latent": 4, "divergence": "hellinger"},
    toy_data="moons",
    citation="Nowozin, Cseke and Tomioka, f-GAN: Training generative neural samplers using variational divergence "
    "minimization, NeurIPS 2016",
    measured=counted_classes,
    suited=sized_noise,
    training={**TRAINING, "steps": 4000, "optimizer": {**TRAINING["optimizer"], "lr": 5e-4}},
    training_on=training_on,
)

__all__ = ["FGAN", "FGANConfig", "entry"]

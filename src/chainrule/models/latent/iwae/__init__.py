"""Importance-weighted auto-encoder."""

from chainrule.models.latent.iwae.model import IWAE, IWAEConfig
from chainrule.models.latent.likelihoods import checked
from chainrule.models.latent.starting import centred
from chainrule.models.latent.training import TRAINING
from chainrule.models.protocol import Entry, Recipe

entry = Entry(
    name="iwae",
    summary="Importance-weighted auto-encoder: several codes of each example make the bound of the likelihood tighter.",
    config=IWAEConfig,
    build=IWAE,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    measured=checked,
    started=centred,
    toy={"latent": 2, "width": 16, "depth": 1, "k": 3},
    toy_data="moons",
    citation="Burda, Grosse and Salakhutdinov, Importance weighted autoencoders, ICLR 2016",
    training=TRAINING,
    recipes={
        "published": Recipe(
            summary="published sizes (784-200-200-50, tanh, zeros and ones drawn anew), a schedule of ours; for a GPU",
            model={"latent": 50, "width": 200, "depth": 2, "activation": "tanh", "likelihood": "bernoulli"},
            data={"binarize": "dynamic"},
            train={
                "batch": 500,
                "epochs": 3000,
                "ema": 0.0,
                "optimizer": {"name": "adam", "lr": 4e-3},
                "schedule": {"name": "cosine", "warmup": 1000},
            },
        )
    },
    surrogate_gradient="that of the encoder is doubly reparametrised: the same on average, with less noise",
)

__all__ = ["IWAE", "IWAEConfig", "entry"]

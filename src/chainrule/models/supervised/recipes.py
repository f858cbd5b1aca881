"""Recipes that image classifiers share."""

from chainrule.models.protocol import Recipe

FINETUNE = Recipe(
    "published weights on photos of your own: small steps, larger ones for the head, crops and mirror images",
    train={
        "batch": 32,
        "epochs": 10,
        "optimizer": {"name": "adamw", "lr": 1e-4, "decay": 0.05, "clip": 1.0},
        "groups": {"head": {"lr": 1e-3}},
        "schedule": {"name": "1cycle"},
        "augment": {"flip": True, "resized_crop": 0.5},
        "ema": 0.99,
    },
)
PHOTOS = Recipe(
    "photos from scratch: strong augmentation, stochastic depth, averaged weights, many epochs",
    model={"stochastic_depth": 0.1},
    train={
        "batch": 64,
        "epochs": 100,
        "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.05, "clip": 1.0},
        "schedule": {"name": "1cycle"},
        "augment": {
            "flip": True,
            "resized_crop": 0.25,
            "rand_augment": 2,
            "magnitude": 9,
            "mixup": 0.2,
            "cutmix": 1.0,
        },
        "ema": 0.999,
    },
)

__all__ = ["FINETUNE", "PHOTOS"]

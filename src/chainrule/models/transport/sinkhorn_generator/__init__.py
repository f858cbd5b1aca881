"""Generator trained by the Sinkhorn divergence."""

from collections.abc import Mapping
from typing import Any

from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.protocol import Entry
from chainrule.models.transport.sinkhorn_generator.losses import suited_eps
from chainrule.models.transport.sinkhorn_generator.model import SinkhornGenerator, SinkhornGeneratorConfig


def _training_on(schema: Schema) -> Mapping[str, Any]:
    """Smaller batches and slower steps for images."""
    if not kinds.of(schema).spatial:
        return {}
    return {"batch": 256, "steps": 3000, "optimizer": {"lr": 2e-4}}


def _suited(config: SinkhornGeneratorConfig, schema: Schema, examples: int | None) -> dict[str, Any]:
    """As much noise as a vector has entries, up to 16, and more for images; distances for vectors, squares for images.

    A point that batches send now to one mode, now to another lies between them where squares are least, and at one of
    them where distances are.
    """
    del examples
    spatial = kinds.of(schema).spatial
    cost = config.cost if "cost" in config.model_fields_set else "sqeuclidean" if spatial else "euclidean"
    latent = 32 if spatial else min(16, schema.dimensions)
    return {"latent": latent, "cost": cost, "eps": suited_eps(cost)}


entry = Entry(
    name="sinkhorn-generator",
    summary="Generator of points, rows or images from noise, trained by nothing but optimal transport.",
    config=SinkhornGeneratorConfig,
    build=SinkhornGenerator,
    kinds=("points", "table", "image"),
    targets=("class", "labels", "value", "none"),
    data="moons",
    toy={"width": 16, "depth": 2, "latent": 2},
    toy_data="moons",
    citation="Genevay, Peyré and Cuturi, Learning generative models with Sinkhorn divergences, AISTATS 2018; Feydy et "
    "al., Interpolating between optimal transport and MMD using Sinkhorn divergences, AISTATS 2019",
    training={
        "steps": 4000,
        "batch": 512,
        "ema": 0.99,
        "eval_every": 250,
        "optimizer": {"name": "adam", "lr": 1e-3, "decay": 0.0},
        "schedule": {"name": "cosine", "floor": 0.05},
    },
    training_on=_training_on,
    suited=_suited,
)

__all__ = ["SinkhornGenerator", "SinkhornGeneratorConfig", "entry"]

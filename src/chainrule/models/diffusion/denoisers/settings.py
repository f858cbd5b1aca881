"""Settings that all models with a denoiser share."""

import abc
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.diffusion.denoisers.learned import NetworkDenoiser
from chainrule.models.diffusion.denoisers.selection import Name, network_denoiser, resolved
from chainrule.models.protocol import Config
from chainrule.networks.conditions import condition_encoder

FEW = 5_000
"""Pictures below which the default U-Net is a small one."""


class DenoiserConfig(Config):
    """Which network denoises, how large it is, and what it is conditioned on."""

    denoiser: Name = Field(
        "auto", description="network; auto takes dense layers except for images of more than 256 entries"
    )
    width: int | None = Field(
        None, ge=1, description="units or channels of a layer; none: 256 (mlp), 32 or 64 (unet), 192 (dit)"
    )
    depth: int | None = Field(
        None, ge=1, le=100, description="blocks, of each resolution in a unet; none: 3 (mlp), 1 or 2, 6 (dit)"
    )
    pad: bool = Field(False, description="unet: pad images whose sides cannot be halved often enough")
    conditional: bool = Field(
        True, description="learn the targets (classes, values, captions), where the data have them"
    )
    condition_dropout: float = Field(
        0.1, ge=0, lt=1, description="share of examples trained without their target, as guidance needs it"
    )

    class_shares: tuple[Annotated[float, Field(ge=0)], ...] | None = Field(
        None,
        description="how often each class is drawn when none is named; none: as in the training data, or equally often "
        "where nobody counted them",
    )

    def shares(self, classes: int) -> np.ndarray:
        """The share of each of so many classes among samples for which none is named, and in the bound."""
        given = (
            np.full(classes, 1.0) if self.class_shares is None else np.array(self.class_shares, np.float64)
        )
        if len(given) != classes or not given.sum() > 0:
            raise ArgumentError(
                f"class_shares={','.join(f'{share:g}' for share in given)}: the data have {classes} classes",
                remedy="give one number for each, or leave class_shares out",
            )
        return given / given.sum()

    @abc.abstractmethod
    def network_for(self, schema: Schema) -> Name:
        """The name of the network for some data; "auto" lets their size decide."""

    def network_denoiser(self, schema: Schema, key: Key, **own: Any) -> NetworkDenoiser:
        """A fresh denoiser for some data with these settings; `own` are further ones of the model."""
        if self.class_shares is not None:
            self.shares(len(schema.classes))
        return network_denoiser(
            self.network_for(schema),
            schema,
            key,
            read=condition_encoder(schema, self.conditional),
            width=self.width,
            depth=self.depth,
            pad=self.pad,
            **own,
        )


def suited(config: DenoiserConfig, schema: Schema, examples: int | None) -> dict[str, int]:
    """A U-Net a quarter as wide and half as deep where few pictures of many pixels are to be learned.

    Thousands of pictures pay for the time a large network takes; dozens do not.
    """
    few = examples is not None and examples < FEW
    convolutional = resolved(config.network_for(schema), schema) == "unet"
    return {"width": 32, "depth": 1} if few and convolutional else {}


def counted_classes(config: DenoiserConfig, data: Data) -> Mapping[str, Any]:
    """The share of each class among the training examples, in six digits; nothing where that was given.

    >>> import chainrule as cr
    >>> counted_classes(cr.models.configure("vdm"), cr.data.load("moons"))
    {'class_shares': (0.5, 0.5)}
    """
    if config.class_shares is not None or not (config.conditional and targets.of(data.schema).one_class):
        return {}
    counts = np.bincount(np.asarray(data.train.y), minlength=len(data.schema.classes))
    return {"class_shares": tuple(float(f"{share:.6g}") for share in counts / counts.sum())}


__all__ = ["FEW", "DenoiserConfig", "counted_classes", "suited"]

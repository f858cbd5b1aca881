"""Networks that can be expanded in their parameters, by name."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config, Model
from chainrule.models.supervised.alexnet.model import AlexNet, AlexNetConfig
from chainrule.models.supervised.cnn.model import CNN, CNNConfig
from chainrule.models.supervised.convnext.model import ConvNeXt, ConvNeXtConfig
from chainrule.models.supervised.mlp.model import MLP, MLPConfig
from chainrule.models.supervised.mobilenet.model import MobileNet, MobileNetConfig
from chainrule.models.supervised.resnet.model import ResNet, ResNetConfig
from chainrule.models.supervised.supervised_model import Supervised
from chainrule.models.supervised.vgg.model import VGG, VGGConfig
from chainrule.models.supervised.vit.model import ViT, ViTConfig


class ExpandableNetwork(NamedTuple):
    """The settings of a network, and how it is built from them."""

    config: type[Config]
    build: Callable[[Any, Schema, Key], Supervised]


KINDS: Mapping[str, ExpandableNetwork] = {
    "mlp": ExpandableNetwork(MLPConfig, MLP),
    "cnn": ExpandableNetwork(CNNConfig, CNN),
    "resnet": ExpandableNetwork(ResNetConfig, ResNet),
    "vgg": ExpandableNetwork(VGGConfig, VGG),
    "vit": ExpandableNetwork(ViTConfig, ViT),
    "convnext": ExpandableNetwork(ConvNeXtConfig, ConvNeXt),
    "mobilenet": ExpandableNetwork(MobileNetConfig, MobileNet),
    "alexnet": ExpandableNetwork(AlexNetConfig, AlexNet),
}
"""By the names of the models."""


def configured(name: str, settings: Mapping[str, Any]) -> Config:
    """The checked settings of a network."""
    return KINDS[name].config(**settings)


def built(name: str, settings: Mapping[str, Any], schema: Schema, key: Key) -> Supervised:
    """A network with fresh parameters."""
    return KINDS[name].build(configured(name, settings), schema, key)


def name_of(model: Model) -> str | None:
    """The name of a network that can be expanded; none for any other model."""
    return next((name for name, kind in KINDS.items() if type(model) is kind.build), None)


__all__ = ["KINDS", "ExpandableNetwork", "built", "configured", "name_of"]

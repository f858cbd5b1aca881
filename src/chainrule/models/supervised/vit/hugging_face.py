"""What the files beside the weights of a vision transformer in Hugging Face's transformers say, in our settings.

`config.json` says what shapes do not tell, such as the number of heads; `preprocessor_config.json` which pixels the
network was trained on.
"""

from collections.abc import Mapping
from typing import Any

from chainrule.core.errors import DataError
from chainrule.models.protocol.config_files import agree, check, number, refuse, whole
from chainrule.models.supervised.vit.weights import sizes_of
from chainrule.networks.image_towers import PIXELS


def settings(
    config: Mapping[str, Any], pixels: Mapping[str, Any] | None, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """Our settings for what the files of a folder describe; an error where they and the arrays do not agree."""
    if config["model_type"] != "vit":
        raise DataError(
            f"config.json describes a model of type {config['model_type']!r}; vit reads vit",
            remedy="models of other types differ in more than their names",
        )
    check(config, "quantization_config", None, why="its weights are quantised")
    check(config, "hidden_act", "gelu")
    check(config, "qkv_bias", True)
    found = {
        "layers": whole(config, "num_hidden_layers"),
        "heads": whole(config, "num_attention_heads"),
        "width": whole(config, "hidden_size"),
        "hidden": whole(config, "intermediate_size"),
        "patch": whole(config, "patch_size"),
        "size": whole(config, "image_size"),
        "norm_eps": number(config, "layer_norm_eps", 1e-12),
        **({} if pixels is None else {"pixels": _pixels(pixels)}),
    }
    said = {name: value for name, value in found.items() if value is not None}
    agree(said, "config.json", sizes_of(shapes), "the arrays")
    return said


def _pixels(said: Mapping[str, Any]) -> str:
    """The name of what is done to pixels first."""
    if said.get("do_rescale") is False:
        raise refuse("do_rescale", False, "pixels here are numbers from 0 to 1")
    if said.get("do_normalize") is False:
        return "none"
    both = tuple(tuple(said.get(name) or ()) for name in ("image_mean", "image_std"))
    for name, known in PIXELS.items():
        if both == known:
            return name
    raise DataError(
        f"preprocessor_config.json: image_mean={list(both[0])}, image_std={list(both[1])} are not supported",
        remedy=f"known are {' and '.join(f'{name} {known}' for name, known in PIXELS.items())}; to read the images "
        "in another way all the same, take the file out of the folder and say pixels=",
    )


__all__ = ["settings"]

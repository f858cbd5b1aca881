"""Vision transformers."""

from chainrule.models.protocol import Entry
from chainrule.models.supervised.recipes import FINETUNE, PHOTOS
from chainrule.models.supervised.vit import hugging_face
from chainrule.models.supervised.vit.model import ViT, ViTConfig
from chainrule.models.supervised.vit.weights import published, timm_names, torch_names, transformers_names

entry = Entry(
    name="vit",
    summary="Vision transformer: an image read as a sequence of patches; tiny to large as published, mini by default.",
    config=ViTConfig,
    build=ViT,
    kinds=("image",),
    targets=("class", "labels", "value", "votes"),
    data="digits",
    toy={"layers": 2, "heads": 2, "width": 16, "patch": 4},
    toy_data="digits",
    citation="Dosovitskiy et al., An image is worth 16x16 words, ICLR 2021",
    training={
        "batch": 64,
        "epochs": 30,
        "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.05, "clip": 1.0},
        "schedule": {"name": "1cycle"},
    },
    recipes={"finetune": FINETUNE, "photos": PHOTOS},
    torch_names=torch_names,
    layouts={"timm": timm_names, "transformers": transformers_names},
    published=published,
    described=hugging_face.settings,
    untold=("heads", "pixels"),
)

__all__ = ["ViT", "ViTConfig", "entry"]

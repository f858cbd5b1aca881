"""BERT: masked modelling of texts and images."""

from chainrule.models.protocol import Entry
from chainrule.models.representation.bert.hugging_face import hugging_face
from chainrule.models.representation.bert.masked import BERTConfig
from chainrule.models.representation.bert.model import BERT
from chainrule.models.representation.bert.patches import PatchBERT, build
from chainrule.models.representation.bert.weights import sized, torch_names

entry = Entry(
    name="bert",
    summary="Transformer that reads both ways: fills gaps in texts or images and gives them a vector.",
    config=BERTConfig,
    build=build,
    kinds=("text", "image"),
    targets=("none", "class", "labels", "value"),
    data="shakespeare",
    toy={"layers": 1, "heads": 2, "width": 16},
    toy_data="shakespeare",
    citation="Devlin et al., BERT: pre-training of deep bidirectional transformers, NAACL 2019",
    training={
        "batch": 32,
        "steps": 3000,
        "optimizer": {"name": "adamw", "lr": 1e-3, "betas": (0.9, 0.99), "decay": 0.1, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100, "floor": 0.1},
        "eval_examples": 512,
    },
    torch_names=torch_names,
    sized=sized,
    hugging_face=hugging_face,
)

__all__ = ["BERT", "BERTConfig", "PatchBERT", "entry"]

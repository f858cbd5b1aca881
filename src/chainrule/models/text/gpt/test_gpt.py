"""The sizes of published models, and pictures."""

from typing import Any

import equinox as eqx
import jax

from chainrule import data, models
from chainrule.core.pictures import AttentionMaps, Images, Scatter
from chainrule.data.schema import Schema
from chainrule.models.text.gpt import GPT


def size(tokens: int, window: int, **settings: Any) -> int:
    schema = Schema("text", (window + 1,), tokens=tuple(map(chr, range(tokens))))
    shapes = eqx.filter_eval_shape(models.build, "gpt", schema, **settings)
    return sum(leaf.size for leaf in jax.tree.leaves(shapes) if isinstance(leaf, jax.ShapeDtypeStruct))


def test_the_sizes_are_those_of_the_published_models() -> None:
    assert size(65, 64) == 800_000
    small = {"layers": 12, "heads": 12, "width": 768}
    assert size(50_257, 1024, preset="gpt2", **small) == 124_439_808


def test_pictures_show_every_head_and_every_symbol() -> None:
    plays = data.load("shakespeare", window=16)
    model = models.build("gpt", plays, layers=2, heads=2, width=8)
    assert isinstance(model, GPT)
    maps, heads, tokens = model.pictures(plays, jax.random.key(0))
    assert isinstance(maps, AttentionMaps)
    assert maps.weights.shape == (2, 2, len(maps.queries), len(maps.keys)) == (2, 2, 16, 16)
    assert isinstance(heads, Images)
    assert list(heads.labels) == [f"layer {i}, head {j}" for i in (1, 2) for j in (1, 2)]
    assert isinstance(tokens, Scatter)
    assert sum(map(len, tokens.groups.values())) <= len(plays.schema.tokens)

"""Conditions of every kind: what networks make of them, how guidance treats them, and what cannot be asked for."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Batch, Schema, from_arrays
from chainrule.models.diffusion.denoisers.guided import guided
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.models.diffusion.denoisers.selection import network_denoiser
from chainrule.models.diffusion.diffusion import Diffusion
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.steering.anagrams import Anagram
from chainrule.models.diffusion.steering.views import view
from chainrule.networks.conditioning import Conditioning
from chainrule.networks.conditions import ImageEncoder, TextEncoder, condition_encoder, masked
from chainrule.networks.unet import CrossBlock, UNet
from chainrule.train import keep
from tests.tiers import tiers

KEY = jax.random.key(0)
LEVEL = Level(jnp.asarray(0.6), jnp.asarray(0.8))
DRAW = np.random.default_rng(0)
WORDS = ("<unk>", " a", " three", " five")
VALUE = Schema("image", (4, 4, 1), "value", (3,))
TEXT = Schema("image", (4, 4, 1), "text", (4,), target_tokens=WORDS)
CASES: dict[str, tuple[str, str, Schema, Any]] = {
    "numbers by multiplication": ("mlp", "multiply", VALUE, DRAW.normal(size=(2, 3))),
    "a picture beside a dense input": (
        "mlp",
        "auto",
        Schema("image", (4, 4, 1), "value", (2, 2, 1)),
        DRAW.normal(size=(2, 2, 2, 1)),
    ),
    "a picture beside a picture": (
        "unet",
        "auto",
        Schema("image", (4, 4, 1), "value", (4, 4, 2)),
        DRAW.normal(size=(2, 4, 4, 2)),
    ),
    "tokens by attention": (
        "dit",
        "auto",
        Schema("image", (4, 4, 1), "value", (2, 3)),
        np.asarray(masked(jnp.asarray(DRAW.normal(size=(2, 2, 3))), jnp.array([[1, 1], [1, 0]], bool))),
    ),
    "labels by concatenation": (
        "dit",
        "concatenate",
        Schema("image", (4, 4, 1), "labels", (2,), classes=("a", "b")),
        np.array([[0, 1], [1, 1]], np.float64),
    ),
}


def shaken(tree: Any) -> Any:
    """The same with arrays off their initial values: a fresh network predicts zero whatever it is asked."""
    noise = np.random.default_rng(0)
    arrays, rest = eqx.partition(tree, eqx.is_inexact_array)

    def moved(a: jax.Array) -> jax.Array:  # on the host, where no shape needs a program of its own
        return jnp.asarray((np.asarray(a) + 0.2 * noise.normal(size=a.shape)).astype(a.dtype))

    return eqx.combine(jax.tree.map(moved, arrays), rest)


def made(name: str, inject: str, schema: Schema) -> LearnedDenoiser:
    return network_denoiser(
        name, schema, KEY, read=condition_encoder(schema), inject=inject, width=4, depth=1
    )


@eqx.filter_jit
def predict(net: LearnedDenoiser, x: jax.Array, condition: Any) -> jax.Array:
    return net.predict(x, LEVEL, condition)


@pytest.mark.parametrize("case", tiers(CASES, slow=["a picture beside a picture"]))
def test_what_a_network_is_told_matters_and_so_does_being_told_nothing(case: str) -> None:
    name, inject, schema, condition = CASES[case]
    net = shaken(made(name, inject, schema))
    x = jnp.repeat(jax.random.normal(KEY, (1, 4, 4, 1)), 3, axis=0)
    assert net.condition_encoder is not None
    given = jnp.concatenate([jnp.asarray(condition), net.condition_encoder.null(1).astype(condition.dtype)])
    out = np.asarray(predict(net, x, given))
    assert np.isfinite(out).all()
    assert min(np.abs(out[i] - out[j]).max() for i, j in ((0, 1), (0, 2), (1, 2))) > 1e-4


@pytest.mark.slow  # trains a U-Net with attention
def test_positions_attend_to_words_and_never_to_padding() -> None:
    net = shaken(made("unet", "auto", TEXT))
    x = jnp.repeat(jax.random.normal(KEY, (1, 4, 4, 1)), 3, axis=0)
    given = jnp.array([[1, 3, 4, 4], [1, 2, 4, 4], [4, 4, 4, 4]])
    found = eqx.filter_jit(lambda x, given: net.attention_maps(x, LEVEL, given))(x, given)
    # What is found of a word moves what deeper layers ask.
    assert float(jnp.abs(found[-1][0] - found[-1][1])[..., 0].max()) > 1e-4
    assert {layer.shape[1:3] for layer in found} == {(4, 4), (2, 2)}
    for layer in found:
        weights = np.asarray(layer)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-6)
        assert (weights[0, ..., :3] > 0).all()
        assert (weights[0, ..., 3:] == 0).all()
        assert (weights[2, ..., 1:] == 0).all()


@pytest.mark.slow
def test_guidance_and_anagrams_take_captions_as_they_take_classes() -> None:
    net = shaken(made("mlp", "auto", TEXT))
    x = jax.random.normal(KEY, (2, 4, 4, 1))
    given, other = jnp.array([[1, 2, 4, 4]] * 2), jnp.array([[1, 3, 4, 4]] * 2)
    with_, without, away = (predict(net, x, c) for c in (given, net.null(given), other))
    np.testing.assert_allclose(predict(net, x, None), without, atol=1e-9)
    for negative, second in ((None, without), (other[0], away)):
        strong = guided(net, 3.0, negative=negative)
        np.testing.assert_allclose(predict(strong, x, given), 3 * with_ - 2 * second, atol=1e-5)
    flip = view("transpose", (4, 4, 1))
    both = Anagram(net, [view("identity", (4, 4, 1)), flip])
    seen = predict(both, x, jnp.stack([given, other]))
    eps = eqx.filter_jit(lambda x, c: net.value("eps", x, LEVEL, c))
    halves = eps(x, given), flip.undo(eps(flip.apply(x), other))
    np.testing.assert_allclose(seen, (halves[0] + halves[1]) / 2, atol=1e-5)


def test_a_share_of_the_conditions_is_replaced_by_nothing() -> None:
    reader = TextEncoder(4, 3, 8, KEY)
    rows = jnp.zeros((4000, 3), jnp.int32)
    gone = (np.asarray(reader.dropped(rows, 0.25, KEY)) == 4).all(axis=1)
    assert gone.mean() == pytest.approx(0.25, abs=0.03)
    assert gone.sum() == (np.asarray(reader.dropped(rows, 0.25, KEY)) == 4).any(axis=1).sum()


def test_ways_of_entering_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no positions that could attend"):
        made("mlp", "attention", TEXT)
    with pytest.raises(ArgumentError, match=r"shape \(2, 2, 1\) beside pictures of shape \(4, 4, 1\)"):
        UNet((4, 4, 1), read=lambda w, k: ImageEncoder((2, 2, 1), w, k), widths=(4, 4), key=KEY)
    with pytest.raises(ArgumentError, match="one number, a vector"):
        condition_encoder(Schema("image", (4, 4, 1), "value", (1, 2, 3, 4)))


def model_of(schema: Schema, **settings: Any) -> Diffusion:
    found = models.build("diffusion", schema, width=4, depth=1, **settings)
    assert isinstance(found, Diffusion)
    return found


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (np.ones(4), r"shape \(4,\): the model was trained on conditions of shape \(3,\)"),
        (np.full(3, np.nan), "not finite"),
        (np.ones((3, 3)), "give one for all, or 2"),
        (np.array([3.0, 0, 0]), "condition of length 1.732: the model was trained on vectors of length 1"),
    ],
    ids=["dimension", "not finite", "count", "length"],
)
def test_vectors_of_another_space_are_refused(condition: np.ndarray, message: str) -> None:
    model = model_of(Schema("points", (2,), "value", (3,), target_length=1.0))
    assert model.conditions(np.ones(3), 2).shape == (2, 3)
    with pytest.raises(ArgumentError, match=message):
        model.conditions(condition, 2)


def test_captions_may_be_asked_for_as_rows_of_tokens() -> None:
    model = model_of(TEXT)
    rows = np.array([[1, 2, 4, 4], [1, 3, 4, 4]])
    np.testing.assert_array_equal(model.conditions(rows, 2), rows)
    for bad in (np.array([[1, 2, 4, 9]]), rows[:, :3], 3):
        with pytest.raises(ArgumentError, match="condition: "):
            model.conditions(bad, 2)
    with pytest.raises(CapabilityError, match="without classes or other conditions"):
        model_of(TEXT, conditional=False).conditions("a three", 2)


@pytest.fixture(scope="module")
def torch(oracle: Callable[[str], ModuleType]) -> ModuleType:
    return oracle("torch")


def test_attention_to_a_condition_gives_the_numbers_of_pytorch(torch: ModuleType) -> None:
    functional, draw = torch.nn.functional, np.random.default_rng(1)
    block = shaken(CrossBlock(128, 6, KEY))
    x, tokens = draw.normal(size=(2, 2, 3, 128)), draw.normal(size=(2, 5, 6))
    seen = np.arange(5)[None] < np.array([[5], [2]])
    given = Conditioning(jnp.zeros((2, 1)), tokens=jnp.asarray(tokens), seen=jnp.asarray(seen))
    ours = np.asarray(eqx.filter_jit(block)(jnp.asarray(x), given)[0])
    layer, norm = block.cross.attention, block.norm
    theirs = {
        name: torch.tensor(np.asarray(a))
        for name, a in (
            ("query", layer.query.weight),
            ("query_bias", layer.query.bias),
            ("inward", layer.inward.weight),
            ("inward_bias", layer.inward.bias),
            ("outward", layer.outward.weight),
            ("outward_bias", layer.outward.bias),
            ("scale", norm.scale),
            ("shift", norm.shift),
            ("gate", block.cross.gate),
        )
    }
    inside = torch.tensor(np.moveaxis(x, -1, 1).copy())
    flat = functional.group_norm(inside, norm.groups, theirs["scale"], theirs["shift"], norm.eps)
    flat = flat.flatten(2).transpose(1, 2)

    def heads(h: Any) -> Any:
        return h.unflatten(2, (layer.heads, -1)).transpose(1, 2)

    keys, values = (torch.tensor(tokens) @ theirs["inward"] + theirs["inward_bias"]).chunk(2, dim=2)
    query = flat @ theirs["query"] + theirs["query_bias"]
    mask = torch.tensor(seen)[:, None, None, :]
    gathered = functional.scaled_dot_product_attention(
        heads(query), heads(keys), heads(values), attn_mask=mask
    )
    out = gathered.transpose(1, 2).flatten(2) @ theirs["outward"] + theirs["outward_bias"]
    expected = x + (theirs["gate"] * out).numpy().reshape(x.shape)
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["an image", "rows of vectors, some of them padding"])
def test_arrays_beside_the_examples_are_conditions(kind: str, tmp_path: Path) -> None:
    y = DRAW.random((30, 4, 4)) if kind == "an image" else DRAW.normal(size=(30, 3, 2))
    if kind != "an image":
        y[::3, 2] = np.nan
    data = from_arrays(DRAW.random((30, 4, 4)), y)
    run = keep(models.build("diffusion", data, width=8, depth=1), data, run=tmp_path / "run", origin={})
    batch = Batch(jnp.asarray(data.train.x[:8]), jnp.asarray(data.train.y[:8]))
    assert np.isfinite(float(eqx.filter_jit(run.model.loss)(batch, KEY)[0]))
    assert run.sample(2, condition=y[:2], steps=2).shape == (2, 4, 4, 1)
    for wrong in (y[:2, :, :1], y[0, 0], "a three"):
        with pytest.raises(ArgumentError, match="trained on numbers of shape"):
            run.sample(2, condition=wrong)

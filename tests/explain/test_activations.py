"""Activations by name: read, replaced, and taken apart, on models whose parts are known."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import explain, models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Batch, Schema, load
from chainrule.explain.methods.attribution import frozen, head_vectors
from chainrule.explain.methods.head_habits import attention_weights, habits, repeated_tokens
from tests.explain.induction import LENGTH, SCHEMA, TOKENS, induction_model

X = np.array([[1, 5, 2, 7, 4], [0, 3, 3, 6, 1]], np.int32)
LOGITS = eqx.filter_jit(lambda model, x: model.logits(x))
GPTS: dict[str, dict[str, Any]] = {
    "modern": {},
    "scan, grouped heads": {"scan": True, "heads": 4, "key_heads": 2},
    "gpt2, recompute": {"preset": "gpt2", "recompute": True, "tie": False},
}


def gpt(**settings: Any) -> Any:
    return models.build("gpt", SCHEMA, **{"layers": 2, "heads": 2, "width": 16, **settings})


@pytest.fixture(scope="module")
def inductive() -> Any:
    return induction_model()


def twice(*first: int) -> np.ndarray:
    return np.array([[*first, *first]], np.int32)


@pytest.mark.parametrize("name", GPTS)
def test_a_cache_holds_what_the_model_computes_and_its_sums_add_up(name: str) -> None:
    model = gpt(**GPTS[name])
    logits, cache = explain.run_with_cache(model.logits, X)
    np.testing.assert_allclose(logits, LOGITS(model, X), rtol=1e-5, atol=1e-6)
    for i in range(2):
        block = f"blocks.{i}"
        mid = cache[f"{block}.resid_pre"] + cache[f"{block}.attn_out"]
        np.testing.assert_allclose(cache[f"{block}.resid_mid"], mid, atol=1e-6)
        np.testing.assert_allclose(cache[f"{block}.resid_post"], mid + cache[f"{block}.mlp_out"], atol=1e-6)
    np.testing.assert_array_equal(cache["blocks.1.resid_pre"], cache["blocks.0.resid_post"])
    patterns = np.stack([cache[f"blocks.{i}.attention.pattern"] for i in range(2)], axis=1)
    np.testing.assert_allclose(patterns, attention_weights(model, jnp.asarray(X)), atol=1e-6)
    assert list(cache) == explain.activation_names(model.logits, X)
    heads = head_vectors(model.blocks[0].attention, cache["blocks.0.attention.z"]).sum(axis=1)
    bias = model.blocks[0].attention.outward.bias
    np.testing.assert_allclose(
        np.asarray(heads) + (0 if bias is None else np.asarray(bias)), cache["blocks.0.attn_out"], atol=1e-6
    )


def test_encoders_translators_and_vision_transformers_have_names_too() -> None:
    bert = models.build("bert", SCHEMA, layers=1, heads=2, width=8)
    assert "blocks.0.attention.pattern" in explain.activation_names(bert.logits, X)
    pairs = Schema("text", (5,), "text", (4,), tokens=("a", "b"), target_tokens=("c", "d"))
    translator: Any = models.build("translator", pairs, layers=1, heads=2, width=8)
    x, y = np.array([[0, 1, 0, 2, 2]], np.int32), np.array([[1, 0, 2, 2]], np.int32)
    names = explain.activation_names(translator.logits, x, y)
    for name in ("encoder.0.attention.z", "decoder.0.cross.pattern", "decoder.0.mlp.post", "features"):
        assert name in names
    _, cache = explain.run_with_cache(translator.logits, x, y, names="decoder.0.cross.pattern")
    assert cache["decoder.0.cross.pattern"].shape == (1, 2, 4, 5)
    np.testing.assert_allclose(
        cache["decoder.0.cross.pattern"], eqx.filter_jit(translator.alignment)(x, y), atol=1e-6
    )
    digits = load("digits")
    vit: Any = models.build("vit", digits, layers=1, heads=2, width=8, patch=4)
    images = digits.train.batch(np.arange(2)).x
    names = explain.activation_names(vit.predict, images)
    assert {"embedding", "positions", "blocks.0.attention.z", "features"} <= set(names)


def test_a_hook_replaces_a_value_and_leaves_nothing_behind(inductive: Any) -> None:
    compiled = eqx.filter_jit(inductive.logits)
    x = twice(0, 3, 1, 5)
    before = np.asarray(compiled(x))

    def silenced(value: Any, name: str) -> Any:
        assert name == "blocks.1.attention.z"
        return value.at[:, 0].set(0)

    hooks = {"blocks.1.attention.z": silenced}
    expected = np.asarray(LOGITS(inductive.without_head(1, 0), x))
    assert np.abs(expected - before).max() > 1
    np.testing.assert_allclose(explain.run_with_hooks(inductive.logits, x, hooks=hooks), expected, atol=1e-5)
    with explain.hooked(hooks):  # a program that was compiled before is traced again
        np.testing.assert_allclose(compiled(x), expected, atol=1e-5)
    np.testing.assert_array_equal(compiled(x), before)


def test_hooks_reach_into_sampling_token_by_token(inductive: Any) -> None:
    def text() -> str:
        tokens = inductive.sample(jax.random.key(0), 1, prompt="adbfcad", length=3, temperature=0.0)
        return inductive.tokenizer.decode(np.asarray(tokens[0]))

    assert text() == "adbfcadbfc"
    with explain.hooked({"blocks.0.attn_out": lambda value, name: jnp.zeros_like(value)}):
        assert text() != "adbfcadbfc"
    assert text() == "adbfcadbfc"


def test_what_cannot_be_read_or_replaced_is_said(inductive: Any) -> None:
    with pytest.raises(
        ArgumentError, match=r"no activation 'blocks.7.mlp_out' \(did you mean 'blocks.\d.mlp_out'"
    ):
        explain.run_with_hooks(inductive.logits, X, hooks={"blocks.7.mlp_out": lambda value, name: value})
    with pytest.raises(
        ArgumentError, match=r"the hook at blocks.0.mlp_out returned \(5, 32\) for a value of shape"
    ):
        explain.run_with_hooks(inductive.logits, X, hooks={"*.mlp_out": lambda value, name: value[0]})
    with pytest.raises(ArgumentError, match=r"model\.logits, not jax\.jit"):
        explain.run_with_cache(eqx.filter_jit(inductive.logits), X)
    with pytest.raises(ArgumentError, match="passes none that has a name"):
        explain.run_with_cache(jnp.sin, np.ones(2))


def test_the_induction_head_is_found(inductive: Any) -> None:
    scores = explain.induction_scores(inductive, jax.random.key(0), period=8, n=8)
    assert scores[1, 0] > 0.9
    assert scores[1, 0] > 3 * np.sort(scores.ravel())[-2]
    x = jnp.asarray(twice(*range(8)))
    found = habits(*[np.asarray(attention_weights(inductive, x))] * 2)
    assert found["previous"][0, 0] == pytest.approx(1.0)
    assert found["induction"][1, 0] > 0.9
    rows = np.asarray(repeated_tokens(jax.random.key(0), TOKENS, 5, 3))
    np.testing.assert_array_equal(rows[:, :5], rows[:, 5:])


# ---------------------------------------------------------------------- what adds up to a logit


@pytest.mark.parametrize("name", GPTS)
def test_contributions_add_up_to_the_logit(name: str) -> None:
    model = gpt(**GPTS[name])
    tokens = np.roll(X, -1, axis=1)
    logits = np.asarray(LOGITS(model, X), np.float64)
    chosen = np.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
    found = explain.logit_attribution(model, X, tokens, "nothing")
    np.testing.assert_allclose(found.values.sum(axis=0), chosen, atol=1e-5)
    np.testing.assert_allclose(found.logits, chosen, atol=1e-5)
    assert ("positions" in found.names) == (name == "gpt2, recompute")
    if name == "modern":
        assert np.abs(found.values[-1]).max() < 1e-6, "no shift, no bias: nothing is constant"
        relative = explain.logit_attribution(model, X, tokens)
        np.testing.assert_allclose(relative.values.sum(axis=0), chosen - logits.mean(axis=-1), atol=1e-5)


def test_the_induction_head_is_what_says_the_next_token(inductive: Any) -> None:
    x = twice(0, 3, 1, 5, 2)
    found = explain.logit_attribution(inductive, x[:, :-1], x[:, 1:], np.roll(x[:, 1:], 1, axis=1))
    second = found.values[:, 0, 6:].mean(axis=1)
    assert found.names[int(second.argmax())] == "layer 2, head 1"
    assert second.max() > 0.9 * second.sum() > 1


def test_a_masked_model_is_taken_apart_where_its_stream_is_a_sum() -> None:
    bert: Any = models.build("bert", SCHEMA, layers=1, heads=2, width=8)
    found = explain.logit_attribution(bert, X, X, "nothing")
    chosen = np.take_along_axis(np.asarray(LOGITS(bert, X)), X[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(found.values.sum(axis=0), chosen, atol=1e-5)
    classic: Any = models.build("bert", SCHEMA, layers=1, heads=2, width=8, preset="bert")
    with pytest.raises(CapabilityError, match="leave no sum to take apart"):
        explain.logit_attribution(classic, X, X)


def taken_apart(name: str) -> tuple[Any, Batch]:
    """A model with a residual stream, in double precision, and examples of its kind."""
    pairs = Schema("text", (6,), "text", (5,), tokens=tuple("abcd"), target_tokens=tuple("xyz"))
    image = Schema("image", (8, 8, 1), "class", (), classes=tuple("abc"))
    rng = np.random.default_rng(0)
    two = Batch(jnp.asarray(rng.integers(0, 5, (2, 6))), jnp.asarray([[0, 1, 2, 3, 3], [2, 2, 3, 3, 3]]))
    pictures = Batch(jnp.asarray(rng.random((2, 8, 8, 1))), jnp.asarray([2, 0]))
    schema, batch, own = {
        "gpt": (SCHEMA, Batch(jnp.asarray(X)), {}),
        "bert": (SCHEMA, Batch(jnp.asarray(X)), {}),
        "translator": (pairs, two, {}),
        "translator, untied": (pairs, two, {"tie": False}),
        "vit": (image, pictures, {"patch": 4}),
    }[name]
    model = models.build(name.split(",")[0], schema, layers=2, heads=2, width=8, **own)
    exact = jax.tree.map(lambda leaf: leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf, model)
    return eqx.nn.inference_mode(exact), batch


@pytest.mark.parametrize("name", ["gpt", "bert", "translator", "translator, untied", "vit"])
def test_every_residual_stream_adds_up_to_its_logits(name: str) -> None:
    with jax.enable_x64(True):
        model, batch = taken_apart(name)
        asked = model.questions(batch, jax.random.key(0))
        found = explain.logit_attribution(model, asked.inputs, asked.answers, "nothing")
        logits = eqx.filter_jit(model.stream_logits)(*asked.inputs)
        chosen = jnp.take_along_axis(logits, asked.answers[..., None], axis=-1)[..., 0]
        assert found.values.dtype == np.float64
        np.testing.assert_allclose(found.values.sum(axis=0), chosen, atol=1e-10)
        assert asked.asked.any(axis=1).all()
        assert ("layer 2, cross head 2" in found.names) == name.startswith("translator")
        if name == "vit":
            np.testing.assert_allclose(logits[:, 0], model.logits(batch.x), atol=1e-10)
        if not name.startswith("translator"):
            relative = explain.logit_attribution(model, asked.inputs, asked.answers)
            heads = [relative.names.index(f"layer {i}, head {j}") for i in (1, 2) for j in (1, 2)]
            brought = explain.source_attribution(model, asked.inputs, asked.answers, 1)
            np.testing.assert_allclose(
                brought.sum(axis=-1).reshape(4, -1), relative.values[heads][:, :, 1], atol=1e-10
            )


def test_a_frozen_norm_is_linear_and_agrees_where_it_was_frozen() -> None:
    stream = jax.random.normal(jax.random.key(0), (1, 3, 8))
    for norm in (gpt().norm, gpt(preset="gpt2").norm):
        norm = type(norm)(8)
        linear = frozen(norm, stream)
        np.testing.assert_allclose(linear(stream), norm(stream), atol=1e-5)
        np.testing.assert_allclose(linear(3 * stream), 3 * linear(stream), atol=1e-5)
    assert frozen(None, stream)(stream) is stream


# ---------------------------------------------------------------------- what is missed


def passages(count: int) -> Batch:
    rng = np.random.default_rng(0)
    rows = np.stack([rng.permutation(TOKENS) for _ in range(count)])
    x = np.concatenate([rows, rows, rows[:, :1]], axis=1)[:, : LENGTH + 1]
    return Batch(jnp.asarray(x, jnp.int32))


def test_the_loss_without_a_head_is_that_of_the_model_without_it(inductive: Any) -> None:
    batch = passages(3)
    found = explain.ablate_heads(inductive, batch, jax.random.key(0))
    nats = eqx.filter_jit(lambda model: model.surprisal(batch.x).mean(axis=1))
    base = np.asarray(nats(inductive))
    risen = np.array(
        [[np.asarray(nats(inductive.without_head(i, j))) - base for j in range(2)] for i in range(2)]
    )
    assert found.base == pytest.approx(base.mean(), rel=1e-5)
    np.testing.assert_allclose(found.rise, risen.mean(axis=-1), atol=1e-5)
    np.testing.assert_allclose(found.stderr, risen.std(axis=-1, ddof=1) / np.sqrt(3), atol=1e-5)
    assert found.rise[1, 0] > 0.5 < found.rise[0, 0]
    assert (found.rise[:, 1] == 0).all(), "the other heads write nothing"
    mean = explain.ablate_heads(inductive, batch, jax.random.key(0), "mean")
    _, cache = explain.run_with_cache(inductive.logits, batch.x[:, :-1], names="*.z")
    instead = cache["blocks.1.attention.z"][:, 0].mean(axis=(0, 1))
    hooks = {"blocks.1.attention.z": lambda value, name: value.at[:, 0].set(instead[None, None])}
    expected = explain.run_with_hooks(inductive.surprisal, batch.x, hooks=hooks).mean() - base.mean()
    assert mean.rise[1, 0] == pytest.approx(float(expected), abs=1e-4)
    assert np.isnan(explain.ablate_heads(inductive, passages(1), jax.random.key(0)).stderr).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source", "settings", "layers"),
    [
        ("bert", "shakespeare", {}, 1),
        ("translator", "copy", {}, 3),  # of the encoder, of the decoder, and to the source
        ("vit", "digits", {"patch": 4}, 1),
    ],
)
def test_heads_and_neurons_of_other_transformers_are_taken_out(
    name: str, source: str, settings: dict[str, Any], layers: int
) -> None:
    data = load(source)
    model = models.build(name, data, layers=1, heads=2, width=8, **settings)
    model = eqx.nn.inference_mode(model)
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(3)))
    found = explain.ablate_heads(model, batch, jax.random.key(0), "mean")
    assert found.rise.shape == found.stderr.shape == (layers, 2)
    assert np.abs(found.rise).max() > 0
    chosen, neurons = explain.ablate_neurons(model, batch, jax.random.key(0), most=3)
    assert len(chosen) == 3
    assert np.isfinite(neurons.rise).all()


def test_the_neuron_that_matters_is_found_and_measured(inductive: Any) -> None:
    # One neuron of the second MLP fires always and speaks for the last token, which is mostly wrong.
    block = inductive.blocks[1]
    model = eqx.tree_at(
        lambda model: [model.blocks[1].widen.weight, model.blocks[1].narrow.weight],
        inductive,
        [block.widen.weight.at[:TOKENS, 2].set(1.0), block.narrow.weight.at[2, TOKENS - 1].set(1.0)],
    )
    batch = passages(3)
    chosen, found = explain.ablate_neurons(model, batch, jax.random.key(0), most=2)
    assert chosen[0] == (1, 2)
    nats = eqx.filter_jit(lambda model: model.surprisal(batch.x).mean())
    assert found.rise[0] == pytest.approx(float(nats(inductive) - nats(model)), abs=1e-5)
    assert found.rise[0] < -0.01
    assert found.rise[1] == 0.0


# ---------------------------------------------------------------------- what brings an answer back


def test_the_source_of_a_translator_is_patched_position_by_position() -> None:
    schema = Schema("text", (5,), "text", (4,), tokens=tuple("abcd"), target_tokens=tuple("xyz"))
    model: Any = models.build("translator", schema, layers=1, heads=2, width=8, seed=3)
    y = jnp.array([[0, 1, 2, 3]])
    call = jax.tree_util.Partial(lambda model, y, x: model.logits(x, y), model, y)
    clean, corrupted = np.array([[0, 1, 2, 3, 4]]), np.array([[0, 3, 2, 3, 4]])

    def metric(logits: Any) -> Any:
        return logits[0, 2, 0] - logits[0, 2, 1]

    source = explain.patch_activations(call, clean, corrupted, metric, at="encoder.*.resid_pre")
    assert source.names == ("encoder.0.resid_pre",)
    np.testing.assert_allclose(source.restored[0], [0, 1, 0, 0, 0], atol=1e-4)
    heads = explain.patch_activations(call, clean, corrupted, metric, at="decoder.*.cross.z")
    assert heads.restored.shape == (1, 2)
    with pytest.raises(ArgumentError, match="another number") as error:
        explain.patch_activations(call, clean, corrupted, metric)
    assert "at=decoder.*.resid_pre" in error.value.remedy


def test_patching_shows_where_the_answer_is_carried(inductive: Any) -> None:
    # The token after the second "a": the first text says "d", the other "e".
    clean, corrupted = np.array([[0, 3, 1, 5, 0]]), np.array([[0, 4, 1, 5, 0]])

    def metric(logits: Any) -> Any:
        return logits[0, -1, 3] - logits[0, -1, 4]

    found = explain.patch_activations(inductive.logits, clean, corrupted, metric)
    assert found.names == ("blocks.0.resid_pre", "blocks.1.resid_pre")
    expected = np.zeros((2, 5))
    expected[:, 1] = 1  # before both layers the answer stands at its own position
    np.testing.assert_allclose(found.restored, expected, atol=1e-3)
    assert found.clean == pytest.approx(-found.corrupted, rel=1e-3)
    heads = explain.patch_activations(inductive.logits, clean, corrupted, metric, at="attention.z").restored
    np.testing.assert_allclose(heads, [[0, 0], [1, 0]], atol=1e-3)
    with pytest.raises(ArgumentError, match="the same number of tokens"):
        explain.patch_activations(inductive.logits, clean, corrupted[:, 1:], metric)
    with pytest.raises(ArgumentError, match="otherwise there is nothing to restore"):
        explain.patch_activations(inductive.logits, clean, clean, metric)


@pytest.mark.parametrize("name", ["gpt", "translator", "vit"])
def test_patching_everything_restores_all_and_nothing_nothing(name: str) -> None:
    model, clean, corrupted, position = _posed_pair(name)
    both = [tuple(jnp.asarray(x)[None] for x in inputs) for inputs in (clean, corrupted)]

    def metric(logits: Any) -> Any:
        return logits[0, position, 0] - logits[0, position, 1]

    call = model.stream_logits
    sites = model.patch_sites()
    found = explain.patch_activations(call, *both, metric, at=sites[0].names)
    before, after = (float(metric(call(*inputs))) for inputs in both)
    assert [found.clean, found.corrupted] == pytest.approx([before, after], abs=1e-5)
    assert {site.over for site in sites} <= {None, *range(len(clean))}

    def by_hand(patched: Sequence[str]) -> float:
        cache = explain.run_with_cache(call, *both[0], names=list(patched))[1] if patched else {}
        hooks = {one: lambda value, name: cache[name] for one in patched}
        return float(metric(explain.run_with_hooks(call, *both[1], hooks=hooks)))

    first = [site.names.replace("*", "0") for site in sites if site.names.endswith("resid_pre")]
    assert (by_hand(first) - after) / (before - after) == pytest.approx(1, abs=1e-5)
    assert by_hand([]) == pytest.approx(after, abs=1e-5)
    part = 1

    def hook(value: Any, name: str) -> Any:
        return value.at[:, part].set(explain.run_with_cache(call, *both[0], names=name)[1][name][:, part])

    for layer, one in enumerate(found.names):
        alone = float(metric(explain.run_with_hooks(call, *both[1], hooks={one: hook})))
        assert found.metrics[layer, part] == pytest.approx(alone, abs=1e-5)


def _posed_pair(name: str) -> tuple[Any, Any, Any, int]:
    """A model, two of its inputs as it poses them, and where it is asked."""
    pairs = Schema("text", (6,), "text", (5,), tokens=tuple("abcd"), target_tokens=tuple("xyz"))
    schemas = {
        "gpt": (Schema("text", (6,), tokens=tuple("abcd")), (np.array([0, 1, 2]),), (np.array([3, 1, 2]),)),
        "translator": (pairs, ("abcd", "xy"), ("abdd", "zy")),
        "vit": (
            Schema("image", (4, 4, 1), "class", classes=("cat", "dog")),
            (np.eye(4, dtype=np.float32)[..., None],),
            (np.eye(4, dtype=np.float32)[::-1, :, None],),
        ),
    }
    schema, *given = schemas[name]
    model: Any = eqx.nn.inference_mode(
        models.build(
            name, schema, layers=2, heads=2, width=8, seed=5, **({"patch": 2} if name == "vit" else {})
        )
    )
    clean, corrupted = (model.posed(*one) for one in given)
    assert clean.position == corrupted.position
    return model, clean.inputs, corrupted.inputs, clean.position

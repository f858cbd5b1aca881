"""What every model promises, one function a promise; each raises `AssertionError` when the promise is broken.

The same functions judge the registered models (`test_every_model.py`) and toys with one flaw each
(`test_the_contracts_can_fail.py`). In short:

- The loss is a pure function of (model, batch, key): compiled or not, it gives the same number, and its gradient is its
  derivative, for every part with respect to what that part owns. A model whose gradient is a surrogate on purpose
  says so in its registry entry.
- In inference mode the loss does not depend on the order of the examples. A loss that draws noise keeps this promise
  on average over keys, because noise belongs to a position in the batch and does not follow an example around.
- What a model says about an example (prediction, density, code) does not depend on the examples beside it.
- Arrays that training moves by rule are named by the model.
- A run folder holds the whole model: opened again, it gives the numbers the trained model gave.
"""

import ast
import inspect
import json
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pydantic

from chainrule import models
from chainrule.cli import training_request
from chainrule.cli.arguments import nest, parse
from chainrule.core import random, tree
from chainrule.core.errors import CapabilityError
from chainrule.data import Batch, Data, Schema, targets
from chainrule.data.text import pairs
from chainrule.models.protocol import (
    CanDecode,
    CanEncode,
    CanForecast,
    CanPredict,
    CanSample,
    CanSeparate,
    CanTranslate,
    Entry,
    HasBound,
    HasLogProb,
    HasOwnTraining,
    HasParts,
    HasState,
    Model,
    Part,
    parts_of,
)
from chainrule.train import Run, TrainConfig, checkpoints, former
from chainrule.train.evaluation import mean_loss
from chainrule.train.loop import merge
from chainrule.train.state import initial_state, trainable
from chainrule.train.step import Stepper

HEADINGS = (
    "What it is",
    "How it works",
    "Use it",
    "Settings that matter",
    "Results",
    "Pictures",
    "Limits",
    "References",
)
VERBS = (
    *(
        "train",
        "resume",
        "sample",
        "predict",
        "score",
        "probe",
        "compare",
        "models",
        "data",
        "runs",
        "derive",
        "import",
        "embed",
        "export",
        "compress",
        "decompress",
        "play",
    ),
    *("doctor", "studio"),
)
KEY = jax.random.key(7)
MANY = 64
"""Keys that an average over noise is taken over."""
KEYS = list(jax.random.split(KEY, MANY))


def examples(data: Data, n: int = 8) -> Batch:
    """The first training examples, on the device."""
    return jax.tree.map(jnp.asarray, data.train.batch(np.arange(n)))


# ---------------------------------------------------------------------- the loss


@eqx.filter_jit
def _compiled_loss(model: Model, batch: Batch, key: jax.Array) -> tuple[jax.Array, Any, Model]:
    """Loss, metrics and the model with moved state: one program for all that asks for any of them."""
    if isinstance(model, HasState):
        return model.loss_and_state(batch, key)
    return (*model.loss(batch, key), model)


def _losses(*asked: tuple[Model, Batch]) -> np.ndarray:
    """A row of losses for each model and batch: one for each of many keys, or for two where keys make no difference."""

    def found(keys: Sequence[jax.Array]) -> np.ndarray:
        return np.array([[float(_compiled_loss(*one, key)[0]) for key in keys] for one in asked])

    few = found(KEYS[:2])
    noisy = np.ptp(few, axis=1).max() >= _rounding(few)
    return np.hstack([few, found(KEYS[2:])]) if noisy else few


def _rounding(losses: np.ndarray) -> float:
    return float(1e-5 * (1 + np.abs(losses).mean()))


def check_jit(model: Model, batch: Batch) -> None:
    """Compiled or not, the loss and its metrics are the same scalars."""
    plain, compiled = model.loss(batch, KEY), _compiled_loss(model, batch, KEY)
    assert plain[0].shape == (), f"the loss has shape {plain[0].shape}, not that of a scalar"
    assert bool(jnp.isfinite(plain[0])), "the loss of a fresh model is not finite"
    assert plain[1].keys() == compiled[1].keys()
    for name, one, other in (
        ("loss", plain[0], compiled[0]),
        *((name, plain[1][name], compiled[1][name]) for name in plain[1]),
    ):
        assert np.allclose(one, other, rtol=1e-4, atol=1e-5), f"{name} changes under jit: {one} and {other}"


def check_order(model: Model, batch: Batch) -> None:
    """In inference mode the loss is the same for the examples in another order; with noise, on average over keys."""
    model = eqx.nn.inference_mode(model)
    order = np.random.default_rng(0).permutation(len(batch.x))
    shuffled = jax.tree.map(lambda a: jnp.asarray(np.asarray(a)[order]), batch)

    before, after = _losses((model, batch), (model, shuffled))
    scale = _rounding(before)
    if len(before) == 2:  # no noise: the promise holds for every key
        assert np.abs(after - before).max() <= scale, "the order of the examples changes the loss"
        return
    gap, noise = (after - before).mean(), (after - before).std() / np.sqrt(MANY)
    assert abs(gap) <= 5 * noise + scale, f"the order of the examples changes the loss by {gap:.3g}"


def check_gradient(model: Model, batch: Batch, surrogate: str = "") -> None:
    """Gradients are derivatives, unless the model has a reason (`surrogate`) for following something else."""
    if not surrogate:
        _check_gradients(model, batch)
        return
    try:
        _check_gradients(model, batch)
    except AssertionError as error:
        if "is off by" not in str(error):
            raise
    else:
        raise AssertionError(f"the gradient is the derivative after all, though the entry says {surrogate!r}")


def _check_gradients(model: Model, batch: Batch) -> None:
    """For every part, gradients agree with central differences in double precision along many directions.

    The point is a little way off the fresh model: arrays that start at zero sit on kinks and hide what is behind them.
    """
    noise = np.random.default_rng(1)
    with jax.enable_x64(True):
        wide = _doubled(model)
        own, rest = eqx.partition(wide, trainable(wide, parts_of(wide)))
        wide = eqx.combine(
            jax.tree.map(
                lambda leaf: jnp.asarray(np.asarray(leaf) + 0.05 * noise.normal(size=leaf.shape)), own
            ),
            rest,
        )
        for part in parts_of(wide):
            _check_gradient_of(wide, part, _doubled(batch))


def _doubled(values: Any) -> Any:
    """Floating arrays in double precision; by way of the host, where no type and shape needs a program of its own."""
    return jax.tree.map(
        lambda leaf: jnp.asarray(np.asarray(leaf, np.float64)) if eqx.is_inexact_array(leaf) else leaf, values
    )


def _check_gradient_of(model: Model, part: Part, batch: Batch) -> None:
    owned, rest = eqx.partition(part.where(model), part.where(trainable(model, parts_of(model))))
    arrays, structure = jax.tree.flatten(owned)
    leaves = [np.asarray(leaf) for leaf in arrays]

    @jax.jit
    def value_and_grad(leaves: list[np.ndarray]) -> tuple[jax.Array, list[jax.Array]]:
        def loss(leaves: list[np.ndarray]) -> jax.Array:
            moved = eqx.combine(jax.tree.unflatten(structure, leaves), rest)
            return part.loss(eqx.tree_at(part.where, model, moved), batch, KEY)[0]

        return jax.value_and_grad(loss)(leaves)

    value, grads = value_and_grad(leaves)
    assert value.dtype == jnp.float64, (
        f"the loss of {part.name} falls back to {value.dtype} in double precision"
    )
    grads = [np.asarray(g) for g in grads]
    assert any(g.any() for g in grads), f"the loss of {part.name} does not depend on anything it owns"
    noise = np.random.default_rng(0)
    chosen = np.unique(np.linspace(0, len(leaves) - 1, 8).astype(int))
    for single in [*chosen, *chosen, None, None]:
        direction = [
            noise.normal(size=leaf.shape) if single in (None, i) else np.zeros(leaf.shape)
            for i, leaf in enumerate(leaves)
        ]
        size = np.sqrt(sum(np.square(d).sum() for d in direction))
        direction = [d / size for d in direction]
        slope = sum(float(np.vdot(g, d)) for g, d in zip(grads, direction, strict=True))
        limit = 1e-5 * abs(slope) + 1e-8 * max(1.0, abs(float(value)))
        error = np.inf
        for h in (1e-5, 1e-6, 1e-7):  # a kink within one step of the point is not within all of them
            if error <= limit:
                break
            ahead, behind = (
                float(value_and_grad([p + s * h * d for p, d in zip(leaves, direction, strict=True)])[0])
                for s in (1, -1)
            )
            error = min(error, abs((ahead - behind) / (2 * h) - slope))
        where = "all arrays" if single is None else tree.names(owned)[single]
        assert error <= limit, f"gradient of {part.name}, {where}: {slope:.6g} is off by {error:.2g}"


def _arrays(values: Any) -> dict[str, Any]:
    """Arrays (or their shapes and types) by name."""
    kept = eqx.filter(values, lambda leaf: eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct))
    return dict(tree.named_leaves(kept))


def check_state(model: Model, batch: Batch) -> None:
    """What a loss moves by rule is named as state, and state keeps its shape and type."""
    before = _arrays(model)
    for part in parts_of(model):
        loss = eqx.filter_jit(part.loss) if isinstance(model, HasParts) else _compiled_loss
        after = _arrays(loss(model, batch, KEY)[2])
        assert after.keys() == before.keys()
        named = _arrays(eqx.filter(model, part.moved_by_rule(model)))
        for name, old in before.items():
            new = after[name]
            assert (new.shape, new.dtype) == (old.shape, old.dtype), f"{name} changes its shape or type"
            moved = not np.array_equal(new, old)
            assert not moved or name in named, f"{name} is moved by rule but not named as state"


def check_precision(model: Model, data: Data) -> None:
    """A step in bfloat16 has the loss of one in single precision, up to rounding, and finite gradients."""
    batch = examples(data)
    for part in parts_of(model):
        found = {}
        for precision in ("float32", "bfloat16"):
            config = TrainConfig.parse(precision=precision, batch=len(batch.x))
            stepper = Stepper(
                model, config, data.train, lambda step: 1.0, resident=data.train.changes, most=1
            )
            loss, _, _, grads = eqx.filter_jit(stepper.gradient)(model, part, batch, KEY)
            finite = all(np.isfinite(np.asarray(g)).all() for g in jax.tree.leaves(grads))
            assert finite, f"a gradient of {part.name} is not finite in {precision}"
            found[precision] = float(loss)
        high, low = found.values()
        assert abs(low - high) <= 0.1 * abs(high) + 0.05, (
            f"loss of {part.name}: {high:.4g}, in bfloat16 {low:.4g}"
        )


# ---------------------------------------------------------------------- learning and keeping


def check_learns(fresh: Model, run: Run, batch: Batch) -> None:
    """Over a toy run losses stay finite; a single loss falls, and of several parts each one moves.

    The loss is compared for the same examples and the same noise: what a run writes down is mostly noise at first.
    """
    _, losses = run.curve("loss")
    assert run.status["status"] == "done"
    assert len(losses) >= (1 if isinstance(fresh, HasOwnTraining) else 10)
    assert np.isfinite(losses).all()
    after = run.model_at(run.checkpoints[-1])
    if isinstance(fresh, HasParts):  # the losses of a game need not fall
        for part in parts_of(fresh):
            old, new = (
                jax.tree.leaves(eqx.filter(part.where(m), eqx.is_inexact_array)) for m in (fresh, after)
            )
            moved = any(not np.array_equal(a, b) for a, b in zip(old, new, strict=True))
            assert moved, f"{part.name} did not move in {run.status['step']} steps"
    else:
        first, last = _losses((fresh, batch), (after, batch)).mean(axis=1)
        assert last < first, f"the loss rose from {first:.4g} to {last:.4g}"


def check_kept(run: Run, opened: Model, data: Data) -> None:
    """A model opened from a run folder has the validation loss that training measured at that step."""
    steps, losses = run.curve("loss", "val")
    expected = float(losses[steps == run.step][0])
    key = random.key(run.settings.seed, "evaluate")
    found = mean_loss(opened, data.val, key, most=run.settings.eval_examples)[0]["loss"]
    assert np.isclose(found, expected, rtol=1e-5, atol=1e-6), f"trained: {expected:.6g}, opened: {found:.6g}"


# ---------------------------------------------------------------------- capabilities


def _row_by_row(what: str, f: Callable[[jax.Array], jax.Array], x: jax.Array) -> np.ndarray:
    """The results of `f`, which must not depend on the order or the number of the examples."""
    compiled = eqx.filter_jit(f)
    out = np.asarray(compiled(x))
    assert out.shape[:1] == x.shape[:1], f"{what} of {len(x)} examples has shape {out.shape}"
    assert np.isfinite(out).all(), f"{what} is not finite"
    order = np.random.default_rng(1).permutation(len(x))
    for rows in (order, np.arange(len(x) // 2)):
        again = np.asarray(compiled(jnp.asarray(np.asarray(x)[rows])))
        close = np.allclose(again, out[rows], rtol=1e-3, atol=1e-4)
        assert close, f"{what} of an example depends on the examples beside it"
    return out


def check_predict(model: Model, batch: Batch, schema: Schema) -> None:
    """Probabilities that sum to one, or values of the shape of the target."""
    assert isinstance(model, CanPredict)
    out = _row_by_row("the prediction", model.predict, batch.x)
    if targets.of(schema).has_boxes:
        check_boxes(out, schema)
        return
    if targets.of(schema).has_mask:
        assert out.shape == (*batch.y.shape, len(schema.classes)), f"predictions have shape {out.shape}"
        assert (out >= 0).all(), "probabilities are negative"
        assert np.allclose(out.sum(axis=-1), 1, atol=1e-4), "probabilities do not sum to one"
        return
    shape = (len(schema.classes),) if schema.target == "class" else schema.target_shape
    assert out.shape == (len(batch.x), *shape), f"predictions have shape {out.shape}"
    if schema.target == "class":
        assert (out >= 0).all(), "probabilities are negative"
        assert np.allclose(out.sum(axis=1), 1, atol=1e-4), "probabilities do not sum to one"


def check_boxes(out: np.ndarray, schema: Schema) -> None:
    """Rows (x0, y0, x1, y1, score, class) within the image, the highest scores first, filled up at the end."""
    assert out.ndim == 3, f"detections have shape {out.shape}"
    assert out.shape[-1] == 6, f"detections have shape {out.shape}"
    there = out[..., 5] >= 0
    assert (there[:, :-1] >= there[:, 1:]).all(), "rows that only fill up come before others"
    assert (out[..., 4][there] > 0).all(), "a detection has no score"
    assert (out[there][:, 5] < len(schema.classes)).all(), "a detection has a class that there is none of"
    high = np.array([schema.shape[1], schema.shape[0]] * 2)
    assert ((out[there][:, :4] >= 0) & (out[there][:, :4] <= high)).all(), "a box reaches out of its image"


def check_separate(model: Model, batch: Batch) -> None:
    """A signal for each source, of the shape of the mixture, whatever lies beside it."""
    assert isinstance(model, CanSeparate)
    out = _row_by_row("the sources", model.separate, batch.x)
    assert out.shape == (len(batch.x), len(model.source_names), *batch.x.shape[1:])


def check_new_inputs(run: Run, data: Data) -> None:
    """Inputs in the units of the data get what the model says of them; a model that predicts nothing names a verb."""
    model, x = run.model, data.test.batch(np.arange(5)).x
    if isinstance(model, CanForecast):
        found = run.predict(data.inverse(x)[0], horizon=3)
        assert found.names == ("+1", "+2", "+3"), f"rows are called {found.names}"
        assert (found["low"] < found.prediction).all(), "intervals do not hold the forecast"
        assert (found.prediction < found["high"]).all(), "intervals do not hold the forecast"
    elif isinstance(model, CanPredict):
        found = run.predict(data.inverse(x))
        expected = np.asarray(model.predict(jnp.asarray(x)))
        if targets.of(data.schema).has_boxes:
            ours = np.stack([found[name] for name in ("x0", "y0", "x1", "y1", "probability")], axis=1)
            rows = [
                one[one[:, 5] >= 0][:, :5] if (one[:, 5] >= 0).any() else np.full((1, 5), np.nan)
                for one in expected
            ]
            assert np.allclose(ours, np.concatenate(rows), atol=1e-3, equal_nan=True), (
                "new inputs are not prepared as the training examples were"
            )
            return
        if targets.of(data.schema).has_mask:
            masks = expected.argmax(axis=-1)
            for number, name in enumerate(data.schema.classes):
                shares = (masks == number).mean(axis=(1, 2))
                assert np.allclose(found[f"share {name}"], shares, atol=1e-3), (
                    "new inputs are not prepared as the training examples were"
                )
            return
        if not data.schema.classes:
            values = expected if data.target_scaling is None else data.target_scaling.inverse(expected)
            assert np.allclose(found.prediction, values, rtol=1e-4, atol=1e-5), (
                "new inputs are not prepared as the training examples were"
            )
            return
        ours = np.stack([found[name] for name in data.schema.classes], axis=1)
        assert np.allclose(ours, expected, atol=1e-5), (
            "new inputs are not prepared as the training examples were"
        )
        assert found.prediction.tolist() == [data.schema.classes[i] for i in expected.argmax(axis=1)]
    elif isinstance(model, CanSeparate):
        found = run.predict(data.inverse(x))
        assert found.names == tuple(map(str, range(len(x)))), f"recordings are called {found.names}"
        assert list(found.columns) == [f"level {name}" for name in model.source_names]
        signals = np.asarray(model.separate(jnp.asarray(x)))
        assert signals.shape == (len(x), len(model.source_names), *x.shape[1:])
        levels = 10 * np.log10(np.square(signals).mean(axis=(2, 3)))
        ours = np.stack(list(found.columns.values()), axis=1)
        assert np.allclose(ours, levels, atol=0.01), "recordings are not prepared as training examples were"
    elif isinstance(model, CanTranslate):
        found = run.predict([pairs.source_text(data.schema, row) for row in x])
        expected = [
            pairs.target_text(data.schema, row) for row in np.asarray(model.translate(jnp.asarray(x)))
        ]
        assert found.prediction.tolist() == expected, "new texts are not prepared as the training texts were"
    else:
        try:
            run.predict(np.asarray(x))
        except CapabilityError as error:
            verbs = re.findall(r"chainrule (\w+)", str(error))
            assert verbs, "the error names no verb"
            assert set(verbs) <= set(VERBS), f"the error names {verbs}"
        else:
            raise AssertionError("it predicts without being able to")


def check_sample(model: Model, schema: Schema) -> None:
    """As many examples as asked for, of the shape of the data, decided by the key and nothing else."""
    assert isinstance(model, CanSample)
    if schema.target == "text":
        check_translations(model, schema)
        return
    for n in (1, 3):
        out = np.asarray(model.sample(KEY, n))
        assert out.shape == (n, *schema.shape), f"{n} samples have shape {out.shape}"
        assert np.isfinite(out).all(), "samples are not finite"
    assert np.array_equal(out, model.sample(KEY, 3)), "the same key gives other samples"
    assert not np.array_equal(out, model.sample(jax.random.key(8), 3)), "another key gives the same samples"
    if schema.kind == "text":
        assert out.dtype.kind == "i", f"tokens are of type {out.dtype}"
        assert ((out >= 0) & (out < len(schema.tokens))).all(), "tokens are not in the vocabulary"
    if "condition" in inspect.signature(model.sample).parameters:
        assert model.sample(KEY, 3, condition=0).shape == (3, *schema.shape)


def check_translations(model: Model, schema: Schema) -> None:
    """Targets with an end: the likeliest are the same for every key, draws are decided by it."""
    assert isinstance(model, CanTranslate)
    end = len(schema.target_tokens)
    best, drawn = (np.asarray(model.sample(KEY, 3, **options)) for options in ({}, {"temperature": 1.0}))
    for out in (best, drawn):
        assert out.shape == (3, *schema.target_shape), f"3 targets have shape {out.shape}"
        assert ((out >= 0) & (out <= end)).all(), "tokens are not in the vocabulary"
        assert (out[:, -1] == end).all(), "a target has no end"
        assert ((out[:, :-1] != end) | (out[:, 1:] == end)).all(), "something follows the end"
    other = jax.random.key(8)
    assert np.array_equal(best, model.sample(other, 3)), "the likeliest targets depend on the key"
    assert np.array_equal(drawn, model.sample(KEY, 3, temperature=1.0)), "the same key gives other draws"
    assert not np.array_equal(drawn, model.sample(other, 3, temperature=1.0)), "another key gives the same"


def check_sample_of_run(run: Run, schema: Schema) -> None:
    """Samples of a run are in the original units: data with levels come back as those levels."""
    out = run.sample(3)
    assert out.shape == (3, *(schema.target_shape if schema.target == "text" else schema.shape))
    if schema.levels:
        assert np.array_equal(out, np.clip(np.rint(out), 0, schema.levels - 1))


def check_log_prob(model: Model, batch: Batch) -> None:
    """One finite log-density for each example."""
    assert isinstance(model, HasLogProb)
    out = _row_by_row("the log-density", model.log_prob, batch.x)
    assert out.shape == (len(batch.x),), f"log-densities have shape {out.shape}"


def check_bound(model: Model, batch: Batch) -> None:
    """One finite bound for each example; on average over keys not above the density, where that is known."""
    assert isinstance(model, HasBound)
    keys = jnp.stack(KEYS)
    bounds = np.asarray(eqx.filter_jit(eqx.filter_vmap(model.elbo, in_axes=(None, 0)))(batch.x, keys))
    assert bounds.shape == (MANY, len(batch.x)), f"bounds have shape {bounds.shape[1:]}"
    assert np.isfinite(bounds).all(), "the bound is not finite"
    if isinstance(model, HasLogProb):
        mean, noise = bounds.mean(axis=0), bounds.std(axis=0) / np.sqrt(len(keys))
        exact = np.asarray(eqx.filter_jit(model.log_prob)(batch.x))
        assert (mean <= exact + 5 * noise + 1e-4).all(), "the bound lies above the log-density"


def check_codes(model: Model, batch: Batch) -> None:
    """One code for each example, and an example of the right shape for each code."""
    codes = batch.x
    if isinstance(model, CanEncode):
        codes = jnp.asarray(_row_by_row("the code", model.encode, batch.x))
    if isinstance(model, CanDecode) and isinstance(model, CanEncode):
        out = _row_by_row("the decoded example", model.decode, codes)
        assert out.shape == batch.x.shape, f"decoded examples have shape {out.shape}"


# ---------------------------------------------------------------------- settings, entry, card


def check_config(schema: type[pydantic.BaseModel], toy: Any, reserved: Sequence[str]) -> None:
    """Every setting says what it is, survives plain values, and is not called like a word of training."""
    described = schema.model_json_schema()
    for group in (described, *described.get("$defs", {}).values()):
        for name, field in group.get("properties", {}).items():
            assert field.get("description") or "$ref" in field, f"setting {name!r} has no description"
    for config in (schema(), schema(**toy)):
        assert schema(**config.model_dump()) == config, "settings change on the way through plain values"
        assert schema(**json.loads(config.model_dump_json())) == config, (
            "settings change on the way through JSON"
        )
    clash = sorted({name.split(".")[0] for name in models.setting_names(schema)} & set(reserved))
    assert not clash, f"setting {clash[0]!r} is a word of `chainrule train` already"


def check_entry(entry: Entry, folder: str, data_names: Sequence[str]) -> None:
    """The entry is called like its folder and names data and training settings that exist."""
    assert entry.name == folder.replace("_", "-"), (
        f"the entry is called {entry.name!r}, its folder {folder!r}"
    )
    assert "\n" not in entry.summary
    assert entry.summary.endswith("."), "the summary is not a sentence"
    assert entry.citation, "there is no citation"
    for name in (entry.data, entry.toy_data):
        assert name in data_names, f"there are no data called {name!r}"
    TrainConfig.parse(**entry.training)
    for recipe in entry.recipes.values():
        models.configure(entry.name, **recipe.model)
        TrainConfig.parse(**merge(entry.training, recipe.train))


def check_former(entry: Entry, model: Model) -> None:
    """Former names are no present ones, and what they became is there."""
    present = models.setting_names(entry.config)
    groups = {name.split(".")[0] for name in present}
    for old, new in entry.former_settings.items():
        assert old not in present, f"{old!r} is the name of a setting today"
        assert new in present or new.split(".")[0] in groups, f"{old!r} became {new!r}, which is no setting"
    state = jax.eval_shape(lambda: initial_state(model, TrainConfig.parse(**{**entry.training, "ema": 0.9})))
    for name in checkpoints.table(state):
        read_as = former.array(name, entry.former_arrays)
        assert read_as == name, f"the array {name!r} of today would be read as {read_as!r}"


def sections(card: str) -> dict[str, str]:
    """The second-level headings of a card with what stands under each."""
    parts = re.split(r"^## (.*)$", card, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (text.strip() for text in parts[2::2]), strict=True))


def check_card(card: str, name: str) -> None:
    """The card has its fixed headings in order, and something to say under each."""
    assert card.startswith(f"# {name}: "), f"the card does not start with '# {name}: '"
    found = sections(card)
    assert tuple(found) == HEADINGS, f"the headings of the card are {', '.join(found)}"
    for heading, text in found.items():
        assert text, f"there is nothing under {heading!r}"


def check_commands(card: str, entry: Entry) -> None:
    """Commands under "Use it" are ones the command line takes, snippets are Python, and settings exist."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", sections(card)["Use it"], flags=re.MULTILINE | re.DOTALL)
    commands = []
    for language, block in blocks:
        if language == "python":
            ast.parse(block)
        else:
            commands += [shlex.split(line, comments=True) for line in block.splitlines()]
    commands = [words for words in commands if words]
    assert any(words[:3] == ["chainrule", "train", entry.name] for words in commands), "no command trains it"
    for words in commands:
        assert words[0] == "chainrule", f"{words[0]!r} is not a command of this project"
        assert words[1] in VERBS, f"there is no verb {words[1]!r}"
        if words[1] == "train":
            _check_training_command(words[2:], entry)
    for setting in re.findall(r"`([\w.]+=[^`\s]+)`", sections(card)["Settings that matter"]):
        _check_training_command([entry.name, setting], entry)


def _check_training_command(words: Sequence[str], entry: Entry) -> None:
    names, given = parse(words).names, dict(parse(words).settings)
    assert names in ((), (entry.name,)), f"{names} is not {entry.name}"
    options = [name.removeprefix("data.") for name in given if name.startswith("data.")]
    model, _, train = training_request.sort(given, entry, options)
    entry.config(**nest(model))
    TrainConfig.parse(**merge(entry.training, nest(train)))

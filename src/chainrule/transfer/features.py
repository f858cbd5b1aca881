"""Features of a trained model judged by simple classifiers on top of them: the cheap first answer before fine-tuning.

What a layer knows about classes is measured by how far a linear classifier, the nearest neighbours or the class means
get with its values alone. All layers are judged at once, from one pass over the examples. Penalties are chosen on
validation examples, scores are those of test examples.

References: Alain and Bengio, Understanding intermediate layers using linear classifier probes, 2016, arXiv:1610.01644;
Wu et al., Unsupervised feature learning via non-parametric instance discrimination, 2018 (nearest neighbours).
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, final, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError, CapabilityError, DataError, check_choice, suggest
from chainrule.core.types import Array
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.splits import Split, Subset
from chainrule.kernels.linear_models import ridge
from chainrule.models import layer_activations
from chainrule.models.protocol import CanPredict, Model

Features: TypeAlias = Float[np.ndarray, "rows width"]
Labels: TypeAlias = Int[np.ndarray, " rows"]
Method = Literal["linear", "neighbours", "means", "ridge"]
METHODS: tuple[str, ...] = get_args(Method)
PENALTIES = (1.0, 10.0, 100.0)
_STEPS = 1000
"""Of accelerated gradients."""
NEIGHBOURS = 20
_BATCH = 512
_WIDEST = 1024
"""Entries of a layer beyond which those of one channel are averaged."""


class LabelledFeatures(NamedTuple):
    """Features and the classes of their examples."""

    x: Features
    y: Labels


class FeatureScore(NamedTuple):
    """How good a classifier on top of some features is."""

    accuracy: float
    stderr: float
    penalty: float | None = None
    """The one that validation chose, of classifiers that have one."""


@final
@dataclass(frozen=True)
class LayerScores:
    """What every layer of a model knows about classes."""

    scores: Mapping[str, Mapping[str, FeatureScore]]
    """By layer, from the input on, and by method."""
    widths: Mapping[str, int]

    def best(self, method: str = "linear") -> str:
        """The layer with the highest accuracy."""
        return max(self.scores, key=lambda layer: self.scores[layer][method].accuracy)


def layer_features(model: Model, x: Any) -> dict[str, Features]:
    """What enters every affine layer of a model, for examples in model units; `input` is what enters the first.

    Values of one example are laid out as a vector; of wide maps each channel is averaged over its positions.
    """
    if not isinstance(model, CanPredict):
        raise CapabilityError(
            f"{type(model).__name__} predicts nothing whose layers could be watched",
            remedy="take a model that predicts classes or values",
        )
    found = layer_activations.layer_inputs(model, lambda model, x: model.predict(x), np.asarray(x), _BATCH)
    return {
        "input" if number == 0 else f"into {name}": _vectors(value.astype(np.float32))
        for number, (name, value) in enumerate(found.items())
    }


def _vectors(values: np.ndarray) -> Features:
    if values.ndim > 2 and math.prod(values.shape[1:]) > _WIDEST:
        return values.mean(axis=tuple(range(1, values.ndim - 1)))
    return values.reshape(len(values), -1)


def judge_features(
    train: LabelledFeatures,
    val: LabelledFeatures,
    test: LabelledFeatures,
    *,
    methods: Sequence[str] = METHODS,
    k: int = NEIGHBOURS,
) -> dict[str, FeatureScore]:
    """Accuracy of classifiers on top of features.

    `linear` is logistic regression, `ridge` least squares of one-hot classes, both with the penalty that is best on
    validation examples; `neighbours` the vote of the `k` with the largest cosine, `means` the class whose mean is
    nearest. Features are standardised by the training examples, but for cosines.

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> part = LabelledFeatures((rng.normal(size=(60, 3)) + 4 * y[:, None]).astype(np.float32), y)
    >>> judge_features(part, part, part, methods=("means",))["means"].accuracy
    1.0
    """
    for method in methods:
        check_choice("judge_features", "method", method, METHODS)
    train, val, test = _checked(train, val, test)
    if k < 1:
        raise ArgumentError(f"judge_features(k={k}): at least one neighbour is needed")
    mean, spread = train.x.mean(axis=0), train.x.std(axis=0) + 1e-6
    classes = int(np.concatenate([train.y, val.y, test.y]).max()) + 1
    even = [LabelledFeatures((part.x - mean) / spread, part.y) for part in (train, val, test)]
    found: dict[str, FeatureScore] = {}
    for method in methods:
        if method in ("linear", "ridge"):
            found[method] = _penalised(method, even[0], even[1], even[2], classes)
        elif method == "means":
            centres = np.stack([_centre(even[0], label) for label in range(classes)])
            found[method] = _judged(_nearest(even[2].x, centres), test.y)
        else:
            votes = _votes(
                jnp.asarray(test.x), jnp.asarray(train.x), jnp.asarray(train.y), min(k, len(train.x)), classes
            )
            found[method] = _judged(np.asarray(votes).argmax(axis=1), test.y)
    return found


def _checked(*parts: LabelledFeatures) -> list[LabelledFeatures]:
    """Parts as arrays; raises where they do not fit each other, or where there is nothing to learn from or to judge."""
    found: list[LabelledFeatures] = []
    for name, part in zip(("train", "val", "test"), parts, strict=True):
        x, y = np.asarray(part[0]), np.asarray(part[1])
        if x.ndim != 2 or y.shape != (len(x),) or (len(y) and y.dtype.kind not in "iu"):
            raise ArgumentError(
                f"judge_features({name}): features of shape {x.shape}, classes of shape {y.shape} and type {y.dtype}",
                remedy="give LabelledFeatures: (rows, width) numbers, and a class number from 0 on for each row",
            )
        if not len(x) and name != "val":
            raise ArgumentError(
                f"judge_features({name}): there are no examples", remedy="give some of all classes"
            )
        if len(y) and y.min() < 0:
            raise ArgumentError(f"judge_features({name}): class {y.min()}", remedy="number classes from 0 on")
        if not np.isfinite(x).all():
            raise ArgumentError(f"judge_features({name}): there are features that are not finite")
        if found and x.shape[1] != found[0].x.shape[1]:
            raise ArgumentError(
                f"judge_features({name}): {x.shape[1]} features, train has {found[0].x.shape[1]}",
                remedy="take all parts from the same layer",
            )
        found.append(LabelledFeatures(x, y if len(y) else np.zeros(0, np.int64)))
    return found


def _centre(part: LabelledFeatures, label: int) -> np.ndarray:
    own = part.x[part.y == label]
    return own.mean(axis=0) if len(own) else np.full(part.x.shape[1], np.inf)


def _nearest(x: Features, centres: np.ndarray) -> Labels:
    return np.asarray(np.square(x[:, None] - centres[None]).sum(axis=-1).argmin(axis=1))


def _penalised(
    method: str, train: LabelledFeatures, val: LabelledFeatures, test: LabelledFeatures, classes: int
) -> FeatureScore:
    """The classifier whose penalty is best on validation examples; of equal ones the larger penalty."""
    psi = [
        jnp.asarray(np.hstack([part.x, np.ones((len(part.x), 1))]), jnp.float32)
        for part in (train, val, test)
    ]
    y = jnp.asarray(train.y)
    if method == "linear":
        weights = logistic_path(psi[0], y, classes, jnp.asarray(PENALTIES))
    else:
        weights = jnp.stack([ridge(psi[0], jax.nn.one_hot(y, classes), penalty) for penalty in PENALTIES])
    on_val, on_test = (np.asarray(jnp.einsum("nf,pfc->pnc", one, weights)).argmax(axis=-1) for one in psi[1:])
    right = (on_val == val.y[None]).mean(axis=1) if len(val.y) else np.zeros(len(PENALTIES))
    best = len(PENALTIES) - 1 - int(right[::-1].argmax())
    return _judged(on_test[best], test.y)._replace(penalty=PENALTIES[best])


@functools.partial(jax.jit, static_argnums=2)
def logistic_path(
    psi: Float[Array, "rows features"],
    y: Int[Array, " rows"],
    classes: int,
    penalties: Float[Array, " penalties"],
) -> Float[Array, "penalties features classes"]:
    """Linear classifiers with the least summed cross-entropy and `penalty/2 |w|²`, for all penalties in one program.

    Accelerated gradients (Nesterov, 1983) with the step that the curvature allows: half the largest eigenvalue of the
    Gram matrix bounds that of the cross-entropy.
    """
    target = jax.nn.one_hot(y, classes, dtype=psi.dtype)
    steep = jnp.linalg.eigvalsh(psi.T @ psi)[-1] / 2

    def solved(penalty: Array) -> Array:
        rate, root = 1 / (steep + penalty), jnp.sqrt(penalty / (steep + penalty))
        momentum = (1 - root) / (1 + root)

        def step(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
            now, ahead = carry
            slope = psi.T @ (jax.nn.softmax(psi @ ahead) - target) + penalty * ahead
            new = ahead - rate * slope
            return (new, new + momentum * (new - now)), None

        start = jnp.zeros((psi.shape[1], classes), psi.dtype)
        return jax.lax.scan(step, (start, start), None, length=_STEPS)[0][0]

    return jax.vmap(solved)(penalties)


@jax.jit
def _unit(x: Array) -> Array:
    return x / jnp.maximum(jnp.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def _votes(x: Array, known: Array, y: Array, k: int, classes: int) -> Array:
    """How many of the nearest by cosine are of each class."""
    _, index = jax.lax.top_k(_unit(x) @ _unit(known).T, k)
    return jax.nn.one_hot(y[index], classes).sum(axis=1)


def _judged(said: np.ndarray, truth: Labels) -> FeatureScore:
    right = np.asarray(said == truth, np.float64)
    return FeatureScore(float(right.mean()), float(right.std() / math.sqrt(len(right))))


def judge_layers(
    model: Model,
    data: Data,
    *,
    layers: Sequence[str] = (),
    methods: Sequence[str] = METHODS,
    examples: int = 2000,
    k: int = NEIGHBOURS,
) -> LayerScores:
    """Accuracy of classifiers on the values of every layer of a model, or of those named.

    At most `examples` of training, and as many of validation and of test, are looked at.
    """
    if not targets.of(data.schema).one_class:
        raise CapabilityError("judge_layers needs classes", remedy="take data with a class for each example")
    parts = [_some(data.split(name), examples) for name in ("train", "val", "test")]
    if not len(parts[0]) or not len(parts[2]):
        raise DataError(
            f"{data.name} has no training or no test examples", remedy="divide it anew: split=0.8,0.1,0.1"
        )
    values = [layer_features(model, part.x) if len(part) else {} for part in parts]
    known = list(values[0])
    for name in layers:
        if name not in known:
            raise ArgumentError(
                f"judge_layers(layers={name!r}): no such layer{suggest(name, known)}",
                remedy=f"they are: {', '.join(known)}",
            )
    scores, widths = {}, {}
    labels = [np.asarray(part.y) if len(part) else np.zeros(0, int) for part in parts]
    for name in layers or known:
        own = [
            LabelledFeatures(value[name] if value else np.zeros((0, values[0][name].shape[1]), np.float32), y)
            for value, y in zip(values, labels, strict=True)
        ]
        scores[name] = judge_features(own[0], own[1], own[2], methods=methods, k=k)
        widths[name] = own[0].x.shape[1]
    return LayerScores(scores, widths)


def _some(split: Split, most: int) -> Split:
    return Subset.drawn(split, most) if most < len(split) else split


__all__ = [
    "METHODS",
    "FeatureScore",
    "LabelledFeatures",
    "LayerScores",
    "judge_features",
    "judge_layers",
    "layer_features",
]

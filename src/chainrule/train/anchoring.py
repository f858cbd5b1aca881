"""Parameters held where a run began: the penalty, the weights of its terms, and the file that keeps them.

With equal weights it is the L2 penalty on the distance from the start (Li, Grandvalet and Davoine, 2018,
arXiv:1802.01483); with the diagonal of the Fisher information of what was learned before, elastic weight consolidation
(Kirkpatrick et al., 2017, arXiv:1612.00796): parameters on which earlier answers depend are held, others are free.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from chainrule.core import random, tree
from chainrule.core.errors import ArgumentError, CapabilityError, CheckpointError
from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.models.protocol import HasLogits, Model
from chainrule.train.files import read_own, write_atomic
from chainrule.train.tuning import Anchor

if TYPE_CHECKING:
    from chainrule.train.run import Run

PENALTIES = ("l2_penalty", "anchor_penalty")
"""Terms of a loss that parameters pay by themselves, as metrics name them; losses are shown without."""
FILE = "anchor.safetensors"
_CHUNK = 64
"""Examples whose gradients are taken at once."""


class AnchorPoint(NamedTuple):
    """Where parameters are held, and how much each counts: trees of the model's floating arrays, `None` elsewhere."""

    start: Tree
    importance: Tree

    def penalty(self, strength: float, part: Any, owned: Tree) -> Scalar:
        """`strength/2 Σ w (θ - θ₀)²` over what a part owns."""
        terms = jax.tree.map(
            lambda now, before, weight: jnp.sum(weight * jnp.square(now - before)),
            owned,
            like(owned, part.where(self.start)),
            like(owned, part.where(self.importance)),
        )
        return strength / 2 * sum(jax.tree.leaves(terms), start=jnp.zeros(()))


def like(owned: Tree, whole: Tree) -> Tree:
    """The arrays of a tree where another one has some."""
    return jax.tree.map(
        lambda mine, other: None if mine is None else other, owned, whole, is_leaf=lambda leaf: leaf is None
    )


def fisher_diagonal(model: Model, data: Data, *, examples: int = 1000, seed: int = 0) -> Tree:
    """The diagonal of the Fisher information: mean squared derivatives of log-probabilities of classes.

    Classes are drawn from the model itself, one for each of the first `examples` training examples, as the definition
    has it; with the true ones it would be another matrix.
    """
    if not isinstance(model, HasLogits) or not targets.of(data.schema).one_class:
        raise CapabilityError(
            "anchor.by=fisher needs a model that gives logits of classes", remedy="use anchor.by=distance"
        )
    count = min(examples, len(data.train))
    if count < 1:
        raise ArgumentError(f"fisher_diagonal(examples={examples}): at least one example is needed")
    x = np.asarray(data.train.batch(np.arange(count)).x)
    filled = np.resize(np.arange(count), -(-count // _CHUNK) * _CHUNK).reshape(-1, _CHUNK)
    meant = (np.arange(filled.size) < count).astype(np.float32).reshape(filled.shape)
    still = eqx.nn.inference_mode(model)
    key, total = random.key(seed, "fisher"), None
    for number, (rows, counted) in enumerate(zip(filled, meant, strict=True)):
        found = _squares(still, jnp.asarray(x[rows]), jnp.asarray(counted), random.at(key, number))
        total = found if total is None else tree.add(total, found)
    return tree.scale(1 / count, total)


@eqx.filter_jit
def _squares(model: Any, x: Array, counted: Array, key: Key) -> Tree:
    moving, rest = eqx.partition(model, eqx.is_inexact_array)
    drawn = jax.random.categorical(key, model.logits(x))

    def one(example: Array, label: Array, weight: Array) -> Tree:
        def log_probability(moving: Tree) -> Scalar:
            logits = eqx.combine(moving, rest).logits(example[None])
            return jax.nn.log_softmax(logits)[0, label]

        return jax.tree.map(lambda g: weight * jnp.square(g), jax.grad(log_probability)(moving))

    return jax.tree.map(lambda g: g.sum(axis=0), jax.vmap(one)(x, drawn, counted))


def write(run: "Run", model: Model, importance: Tree | None) -> None:
    """Keep where the parameters of a run begin, and how much each counts; layers that are fresh count nothing."""
    origin = run.config["model"].get("from") or {}
    fresh = tuple(origin.get("fresh", ()))
    weights = {} if importance is None else dict(tree.named_leaves(importance))
    arrays: dict[str, np.ndarray] = {}
    for name, leaf in tree.named_leaves(eqx.filter(model, eqx.is_inexact_array)):
        start = np.asarray(leaf, np.float32)
        given = np.ones_like(start) if importance is None else np.asarray(weights.get(name, 0.0), np.float32)
        free = given.shape != start.shape or any(tree.matches(name, pattern) for pattern in fresh)
        arrays[f"start.{name}"] = start
        arrays[f"importance.{name}"] = np.zeros_like(start) if free else given
    write_atomic(run.path / FILE, safetensors.numpy.save(arrays))


def kept(run: "Run", model: Model) -> AnchorPoint | None:
    """What holds the parameters of a run, written where it is not there yet; nothing where nothing does."""
    config = run.settings
    if not config.anchor.strength:
        if config.anchor.by != Anchor().by:
            raise ArgumentError(
                f"anchor.by={config.anchor.by}: nothing is held, for anchor.strength is 0",
                remedy="give anchor.strength, such as 0.1",
            )
        return None
    if config.lora.rank:
        raise ArgumentError(
            f"anchor.strength={config.anchor.strength:g}: with adapters the weights stay where they began",
            remedy="leave one out",
        )
    if not (run.path / FILE).exists():
        if config.anchor.by == "fisher":
            raise ArgumentError(
                "anchor.by=fisher: nothing says how much each parameter counts",
                remedy="begin with a run: from=RUN, or fit(..., importance=cr.train.fisher_diagonal(model, data))",
            )
        write(run, model, None)
    try:
        stored = safetensors.numpy.load(read_own(run.path / FILE))
        named = tree.names(eqx.filter(model, eqx.is_inexact_array))
        trees = [
            _tree(model, {name: stored[f"{kind}.{name}"] for name in named}) for kind in AnchorPoint._fields
        ]
    except (safetensors.SafetensorError, KeyError) as error:
        raise CheckpointError(f"{run.id}: {FILE} cannot be read ({error})", remedy="train it again") from None
    return AnchorPoint(*trees)


def _tree(model: Model, arrays: dict[str, np.ndarray]) -> Tree:
    def found(path: tuple[jax.tree_util.KeyEntry, ...], leaf: Any) -> Any:
        return jnp.asarray(arrays[tree.path_name(path)]) if eqx.is_inexact_array(leaf) else None

    return jax.tree_util.tree_map_with_path(found, model)


__all__ = ["FILE", "PENALTIES", "AnchorPoint", "fisher_diagonal", "kept", "like", "write"]

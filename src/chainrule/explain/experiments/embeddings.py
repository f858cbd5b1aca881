"""Token embeddings learnt with and without attention.

Two transformers begin with the same weights and see the same batches; in one, nothing passes from position to position.
There the vector of a token only has to say what may follow it; with attention it is also what other positions look for.
"""

from dataclasses import replace
from typing import Any, final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core.pictures import Lines, Picture, Table
from chainrule.data import Data
from chainrule.data.text import tokenizers
from chainrule.explain.methods.training import Trained, train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.networks.pictures import tokens

_COMPARED = 200
"""The most frequent tokens are compared: the others have hardly been trained."""


@final
class EmbeddingsSettings(Settings):
    """The text and the two transformers."""

    data: str = Field("shakespeare", description="a text, by name or path")
    tokenizer: str = Field(
        "character", description="character, word, bpe, byte-bpe, or a tokenizer's .json file"
    )
    window: int = Field(32, ge=2, description="tokens that an example predicts")
    width: int = Field(32, ge=2, description="numbers that stand for a token")
    layers: int = Field(2, ge=1, le=24, description="blocks")
    heads: int = Field(2, ge=1, description="heads of a block")
    steps: int = Field(600, ge=1, description="steps of each")
    batch: int = Field(16, ge=1, description="passages per step")
    lr: float = Field(3e-3, gt=0, description="learning rate")
    seed: int = Field(0, ge=0, description="initial weights and batches")


def run(settings: EmbeddingsSettings, listener: Listener) -> Outcome:
    """Train both and lay their tables side by side."""
    data = sources.load(settings.data, window=settings.window, tokenizer=settings.tokenizer)
    trained = {}
    for name in ("with attention", "without"):
        trained[name] = _trained(settings, data, attends=name == "with attention")
        listener(f"{name}: validation loss {trained[name].val['loss'][-1]:.4g} nats per token")
    often = tokens.frequent(data, len(data.schema.tokens))[:_COMPARED]
    tables: dict[str, Any] = {name: np.asarray(one.model.embeddings()) for name, one in trained.items()}  # type: ignore[attr-defined]
    tokenizer = tokenizers.of(data.schema)
    kinds = np.array([tokens.kind(tokenizer.decode([int(i)])) for i in often])
    cosines = {name: _cosines(table[often]) for name, table in tables.items()}
    alike = {name: _same_kind(cosine, kinds) for name, cosine in cosines.items()}
    upper = np.triu_indices(len(often), 1)
    agreement = float(np.corrcoef(np.stack([cosine[upper] for cosine in cosines.values()]))[0, 1])
    losses = {name: float(one.val["loss"][-1]) for name, one in trained.items()}
    first, second = trained
    findings = [
        f"Attention lowers the loss from {losses[second]:.3g} to {losses[first]:.3g} nats per token.",
        f"The nearest other token is of the same kind (vowel, capital, mark, ...) for {alike[first]:.0%} of "
        f"{len(often)} tokens with attention and for {alike[second]:.0%} without.",
        f"The two tables agree on which tokens are close to a correlation of {agreement:.2f}.",
    ]
    shown = [_scatter(name, tables[name], data) for name in trained]
    numbers = {"loss": losses, "nearest_of_the_same_kind": alike, "agreement": agreement}
    return Outcome(findings, [*shown, _curves(trained)], _neighbours(tables, data), numbers)


def _trained(settings: EmbeddingsSettings, data: Data, *, attends: bool) -> Trained:
    model: Any = models.build(
        "gpt", data, seed=settings.seed, width=settings.width, layers=settings.layers, heads=settings.heads
    )
    if not attends:
        # What attention adds to each position is nothing, and stays so.
        silent = [jax.tree.map(lambda array: 0 * array, block.attention.outward) for block in model.blocks]
        model = eqx.tree_at(lambda m: [block.attention.outward for block in m.blocks], model, silent)
    return train(
        model,
        data,
        steps=settings.steps,
        every=max(1, settings.steps // 10),
        seed=settings.seed,
        batch=settings.batch,
        optimizer={"name": "adamw", "lr": settings.lr, "decay": 0.1, "clip": 1.0},
        schedule={"name": "cosine"},
        freeze=() if attends else ("blocks.*.attention",),
        eval_examples=256,
    )


def _cosines(table: Float[np.ndarray, "tokens features"]) -> Float[np.ndarray, "tokens tokens"]:
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    return unit @ unit.T


def _same_kind(cosine: Float[np.ndarray, "tokens tokens"], kinds: np.ndarray) -> float:
    """The share of tokens whose nearest neighbour is of their kind."""
    nearest = (cosine - 3 * np.eye(len(cosine))).argmax(axis=1)
    return float((kinds[nearest] == kinds).mean())


def _scatter(name: str, table: Float[np.ndarray, "tokens features"], data: Data) -> Picture:
    drawn = tokens.embedding_map(table, tokenizers.of(data.schema), data)
    return replace(drawn, name=f"embeddings-{name.replace(' ', '-')}", title=f"Where tokens lie: {name}")


def _curves(trained: dict[str, Trained]) -> Lines:
    series = {name: (one.steps, one.val["loss"]) for name, one in trained.items()}
    return Lines("embeddings-loss", "Validation loss", "step", "nats per token", series)


def _neighbours(tables: dict[str, Any], data: Data) -> Table:
    """The nearest tokens of frequent ones under both tables."""
    found = [tokens.neighbours(table, tokenizers.of(data.schema), data) for table in tables.values()]
    rows = [[*one, other[1]] for one, other in zip(*(table.rows for table in found), strict=True)]
    return Table("embeddings-table", "Nearest tokens", ["token", *tables], rows)


experiment = Experiment(
    "Embeddings learnt with and without attention, side by side.",
    EmbeddingsSettings,
    run,
    toy={"window": 8, "width": 8, "layers": 1, "heads": 1, "steps": 4, "batch": 4},
    reference="Mikolov et al., Efficient estimation of word representations in vector space, 2013, arXiv:1301.3781; "
    "Vaswani et al., Attention is all you need, 2017, arXiv:1706.03762",
)

__all__ = ["EmbeddingsSettings", "experiment", "run"]

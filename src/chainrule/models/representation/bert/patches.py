"""Masked modelling of images: square patches stand where tokens of a text stood.

A patch comes in as its pixels, by one linear map; hidden ones share a vector instead. What comes out are the
probabilities of every pixel's brightness, in steps, so that a guess can be unsure between black and white, can be drawn
from, and costs nats as a guess about text does; a squared error would only ever ask for the grey in between.
"""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import CanFill, Scored
from chainrule.models.representation.bert.gaps import choose
from chainrule.models.representation.bert.masked import BERTConfig, Guesses, MaskedModel, Temperature, checked
from chainrule.models.representation.bert.model import BERT
from chainrule.networks import patches
from chainrule.networks.pictures.images import filled
from chainrule.networks.transformer import encoder_layers
from chainrule.nn import Dropout, Embedding, LayerNorm, Linear, TransformerBlock, losses
from chainrule.nn.positions import Learned
from chainrule.probability.distributions.outputs import LevelsOutput

_LEVELS = 32
"""Steps of brightness that are told apart unless told otherwise: finer ones look the same and cost more."""
_SIDE, _FEWEST = 4, 16
"""Side of the largest patch, and how many of them an image has at least, unless told otherwise."""
_SHOWN = 10


@final
class PatchBERT(MaskedModel, CanFill):
    """A linear way in for patches, blocks in which each sees all others, and the levels of its pixels."""

    patches: Linear
    gap: Float[Array, " width"]
    """What stands for a hidden patch."""
    head: Linear
    positions: Learned | None
    segments: Embedding | None
    embedding_norm: LayerNorm | None
    blocks: tuple[TransformerBlock, ...]
    norm: LayerNorm | None
    dropout: Dropout
    config: BERTConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)
    context: int = eqx.field(static=True)
    patch: int = eqx.field(static=True)
    levels: int = eqx.field(static=True)

    def __init__(self, config: BERTConfig, schema: Schema, key: Key) -> None:
        for_patches, for_gap, for_head, for_positions, for_blocks = jax.random.split(key, 5)
        if not schema.levels:
            raise CapabilityError(
                "bert needs pixels with levels; these are continuous",
                remedy="give images as files, not numbers",
            )
        self.patch = _side(config, schema)
        self.levels = min(schema.levels, _LEVELS) if config.levels is None else config.levels
        self.context = patches.patch_count(schema.shape, self.patch)
        pixels = self.patch**2 * schema.shape[2]
        self.patches = Linear(pixels, config.width, initializer="lecun", key=for_patches)
        self.gap = 0.02 * jax.random.normal(for_gap, (config.width,))
        self.head = Linear(config.width, pixels * self.levels, initializer="normal", gain=0.02, key=for_head)
        self.segments = None
        # How far apart two patches are is not enough: digits stand in the middle, and rows of patches end.
        between = encoder_layers(config, self.context, for_positions, for_blocks, absolute=True)
        self.positions, self.embedding_norm, self.blocks, self.norm = between
        self.dropout = Dropout(config.dropout)
        self.config = config
        self.schema = schema

    # ------------------------------------------------------------------ learning

    def guesses(self, x: Float[Array, "batch rows columns channels"], key: Key) -> Guesses:
        """Hide some patches of each image, and guess the levels of their pixels."""
        for_gaps, for_other, for_dropping = jax.random.split(key, 3)
        tokens = self.cut(x)
        positions, hidden, replaced = choose(for_gaps, jnp.zeros(tokens.shape[:2]), self.config.hide)
        pixels = jnp.take_along_axis(tokens, positions[:, :, None], axis=1)
        others = tokens.reshape(-1, tokens.shape[2])  # a patch from anywhere in the batch
        other = others[jax.random.randint(for_other, positions.shape, 0, len(others))]
        rows = jnp.arange(len(x))[:, None]
        seen = tokens.at[rows, positions].set(jnp.where(replaced[:, :, None], other, pixels))
        gaps = jnp.zeros(tokens.shape[:2], bool).at[rows, positions].set(hidden)
        features = self.features(seen, gaps, key=for_dropping)
        logits = self.read_out(jnp.take_along_axis(features, positions[:, :, None], axis=1))
        wanted = jnp.rint(pixels * (self.levels - 1)).astype(jnp.int32)
        right = (logits.argmax(axis=-1) == wanted).astype(jnp.float32)
        squares = jnp.square(LevelsOutput(self.levels).mean(logits) - pixels)
        return Guesses(
            losses.cross_entropy(logits, wanted).mean(axis=(1, 2)),
            right.mean(axis=(1, 2)),
            {"hidden_squared_error": Scored(squares.mean(axis=(1, 2)), "black to white is 1")},
        )

    @property
    def unit(self) -> str:
        """Guesses are about pixels."""
        return "pixel"

    def features(
        self,
        tokens: Float[Array, "batch time pixels"],
        gaps: Bool[Array, "batch time"] | None = None,
        *,
        key: Key | None = None,
    ) -> Float[Array, "batch time width"]:
        """What the last block makes of each patch; nothing is seen of those that are gaps."""
        h = self.patches(tokens)
        if gaps is not None:
            h = jnp.where(gaps[:, :, None], self.gap.astype(h.dtype)[None, None, :], h)
        return self.read(h, key=key)

    def read_out(
        self, features: Float[Array, "batch time width"]
    ) -> Float[Array, "batch time pixels levels"]:
        """Logits of the levels of every pixel."""
        return self.head(features).reshape(*features.shape[:2], -1, self.levels)

    # ------------------------------------------------------------------ gaps

    @property
    def hidden_share(self) -> float:
        """The share of patches that training hides."""
        return self.config.hide

    def random_gaps(self, key: Key, n: int, share: float) -> Bool[Array, "n time"]:
        """Gaps at random: in each of `n` images the same share of the patches, at least one."""
        positions = choose(key, jnp.zeros((n, self.context)), share).positions
        return jnp.zeros((n, self.context), bool).at[jnp.arange(n)[:, None], positions].set(True)

    def gap_pixels(self, gaps: Bool[Array, "n time"]) -> Bool[Array, "n rows columns"]:
        """Which pixels lie in gaps."""
        whole = jnp.repeat(gaps[..., None].astype(jnp.float32), self.patch**2, axis=-1)
        return patches.join(whole, (*self.schema.shape[:2], 1), self.patch)[..., 0] > 0

    def sample(  # type: ignore[override]  # the options of this model, by name
        self, key: Key, n: int, *, temperature: Temperature = 1.0
    ) -> Float[Array, "n rows columns channels"]:
        """`n` images, drawn patch by patch in a random order from nothing but gaps."""
        blank = jnp.zeros((n, *self.schema.shape), self.gap.dtype)
        return self.fill(blank, jnp.ones((n, self.context), bool), key, temperature=temperature)

    def fill(
        self,
        x: Float[Array, "batch rows columns channels"],
        gaps: Bool[Array, "batch time"],
        key: Key,
        *,
        temperature: float = 1.0,
    ) -> Float[Array, "batch rows columns channels"]:
        """Images whose gaps, patches counted row by row, are filled one at a time in a random order.

        Each is drawn from what the model guesses given the others filled so far, its pixels independently. Temperature
        0 takes the likeliest.
        """
        return self.joined(_filled(self, self.cut(x), gaps, key, checked(temperature)))

    def expected(
        self, x: Float[Array, "batch rows columns channels"], gaps: Bool[Array, "batch time"]
    ) -> Float[Array, "batch rows columns channels"]:
        """Images whose gaps hold the mean of every pixel, given all that is not hidden."""
        tokens = self.cut(x)
        means = LevelsOutput(self.levels).mean(self.read_out(self.features(tokens, gaps)))
        return self.joined(jnp.where(gaps[:, :, None], means.astype(tokens.dtype), tokens))

    def cut(self, x: Float[Array, "batch rows columns channels"]) -> Float[Array, "batch time pixels"]:
        """The patches of images, row by row."""
        return patches.cut(x, self.patch)

    def joined(
        self, tokens: Float[Array, "batch time pixels"]
    ) -> Float[Array, "batch rows columns channels"]:
        """The images that patches make up."""
        return patches.join(tokens, self.schema.shape, self.patch)

    # ------------------------------------------------------------------ vectors and pictures

    def encode(self, x: Float[Array, "batch rows columns channels"]) -> Float[Array, "batch width"]:
        """A vector for each image, of the features of its patches pooled as the settings say."""
        features = self.features(self.cut(x))
        return self.pooled(features, jnp.ones(features.shape[:2], bool))

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Held-out images with half of their patches hidden, and what fills the gaps."""
        if self.schema.shape[-1] not in (1, 3):
            return []
        for_gaps, for_filling = jax.random.split(key)
        part = data.val if len(data.val) else data.train
        x = jnp.asarray(part.batch(np.arange(min(_SHOWN, len(part)))).x)
        gaps = self.random_gaps(for_gaps, len(x), 0.5)
        expected = eqx.filter_jit(lambda model, x, gaps: model.expected(x, gaps))(self, x, gaps)
        return [filled(x, np.asarray(self.gap_pixels(gaps)), expected, self.fill(x, gaps, for_filling))]


@eqx.filter_jit
def _filled(
    model: PatchBERT,
    tokens: Float[Array, "n time pixels"],
    gaps: Bool[Array, "n time"],
    key: Key,
    temperature: Float[Array, ""],
) -> Float[Array, "n time pixels"]:
    """Each row with its gaps filled one at a time, in a random order of its own; other positions are passed over."""
    n, time, _ = tokens.shape
    rows = jnp.arange(n)
    orders, draws = jax.random.split(key)
    visits = jnp.argsort(jax.random.uniform(orders, (n, time)), axis=1)

    def step(state: tuple[Array, Array], visit: tuple[Array, Key]) -> tuple[tuple[Array, Array], None]:
        tokens, gaps = state
        positions, own = visit
        features = jnp.take_along_axis(model.features(tokens, gaps), positions[:, None, None], axis=1)
        logits = model.read_out(features)[:, 0]
        noise = jax.random.gumbel(own, logits.shape, logits.dtype)
        # The largest of logits / T + noise; multiplied by T so that zero is allowed.
        drawn = (logits + temperature.astype(logits.dtype) * noise).argmax(axis=-1) / (model.levels - 1)
        kept = jnp.where(gaps[rows, positions][:, None], drawn.astype(tokens.dtype), tokens[rows, positions])
        return (tokens.at[rows, positions].set(kept), gaps.at[rows, positions].set(False)), None

    return jax.lax.scan(step, (tokens, gaps), (visits.T, jax.random.split(draws, time)))[0][0]


def _side(config: BERTConfig, schema: Schema) -> int:
    """The side of a patch, as given or as suits the images."""
    if config.patch is not None:
        patches.check_patch(schema.shape, config.patch)
        return config.patch
    height, width, _ = schema.shape
    few = [s for s in patches.patch_sides(schema.shape) if s <= _SIDE and height * width >= _FEWEST * s**2]
    return max(few, default=1)


def build(config: BERTConfig, schema: Schema, key: Key) -> BERT | PatchBERT:
    """The encoder of the kind of data: over tokens of a text, or over patches of an image."""
    if kinds.of(schema).has_tokens and targets.of(schema).given:
        raise CapabilityError(
            f"bert needs text data with target none; these have target {schema.target}",
            remedy="to learn what stands beside a text: chainrule train reader",
        )
    text = kinds.of(schema).has_tokens
    foreign = {"patch": None, "levels": None} if text else {"context": None, "segments": 0}
    for name, default in foreign.items():
        given = getattr(config, name)
        if given != default:
            raise ArgumentError(
                f"{name}={given} is a setting for {'images' if text else 'texts'}; these are {schema.kind} data",
                remedy=f"leave {name} out",
            )
    return BERT(config, schema, key) if text else PatchBERT(config, schema, key)


__all__ = ["PatchBERT", "build"]

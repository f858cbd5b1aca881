"""Separation by masks: a U-Net looks at the spectrogram of a mixture and says what share of it is whose."""

from collections.abc import Sequence
from typing import Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Complex, Inexact
from pydantic import Field

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.audio.separator.network import MaskUNet
from chainrule.models.protocol import CanSeparate, Config, HasState, Metrics
from chainrule.nn.sequential import running_statistics
from chainrule.nn.spectral import STFT, best_order, si_sdr_bounded, window

_CONTRAST = 1000.0
"""Amplitudes are seen as `log(1 + 1000 a)`: 60 dB of them count."""


@final
class SeparatorConfig(Config):
    """Settings of the separator."""

    size: int = Field(512, ge=16, le=2**16, description="samples in a window of the spectrum")
    hop: int = Field(128, ge=1, le=2**16, description="samples from one window to the next")
    width: int = Field(8, ge=1, description="features of the first level; each has twice those before it")
    depth: int = Field(4, ge=1, le=8, description="levels of the network")
    kernel: int = Field(5, ge=2, le=31, description="rows and columns of the convolutions")
    nested: bool = Field(False, description="nodes between encoder and decoder on every level (U-Net++)")
    gated: bool = Field(False, description="convolutions are multiplied by sigmoids of others")
    supervise: bool = Field(False, description="nested: the loss counts for every node of the upper level")
    normalization: Literal["batch", "group"] = Field(
        "batch", description="over the batch, or over groups of features"
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="share dropped in the first three levels of the decoder"
    )
    mask: Literal["ratio", "complex"] = Field(
        "ratio", description="shares of the magnitude, or with a rotation of the phase"
    )
    residual: bool = Field(
        False, description="complex masks: a magnitude is added, so that sources can be louder"
    )
    source: str = Field("", description="a single source to find, by its name; the others are the rest")
    order: Literal["given", "free"] = Field(
        "given", description="free: sources may come out in any order, the best counts"
    )
    objective: Literal["magnitude", "si-sdr"] = Field(
        "magnitude", description="distance of magnitudes, or the ratio of the signals themselves"
    )


@final
class Separator(CanSeparate, HasState):
    """Mixture → spectrum → magnitude → U-Net → masks; masks times the complex spectrum → inverse."""

    network: MaskUNet
    config: SeparatorConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: SeparatorConfig, schema: Schema, key: Key) -> None:
        _check(config, schema)
        channels = schema.shape[1]
        self.config = config
        self.schema = schema
        network = MaskUNet(
            channels,
            channels * self._numbers * (1 if config.source else len(schema.classes)),
            width=config.width,
            depth=config.depth,
            kernel=config.kernel,
            nested=config.nested,
            gated=config.gated,
            normalization=config.normalization,
            dropout=config.dropout,
            key=key,
        )
        self.network = network

    @property
    def source_names(self) -> tuple[str, ...]:
        """Those of the data, or the one that is looked for and the rest; numbers where they have no order."""
        if self.config.source:
            return self.config.source, "rest"
        names = self.schema.classes
        return names if self.ordered else tuple(f"source {number + 1}" for number in range(len(names)))

    @property
    def ordered(self) -> bool:
        """Unless their order is free."""
        return self.config.order == "given"

    @property
    def transform(self) -> STFT:
        """Windows of `size` samples, one every `hop`."""
        return STFT(self.config.size, hop=self.config.hop)

    @property
    def _numbers(self) -> int:
        """Numbers for a source at each point: a share, or with a rotation, and with a residual."""
        return 1 if self.config.mask == "ratio" else 3 + self.config.residual

    @property
    def _unit(self) -> float:
        """What a sine of amplitude one has in the spectrum."""
        return float(window("hann", self.config.size).sum() / 2)

    def loss_unit(self) -> str:
        """Decibels, or a share of the amplitude."""
        return "dB" if self.config.objective == "si-sdr" else "amplitude"

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The mean distance of magnitudes, or minus the ratio of the signals, of all that is to count."""
        spectrum = self._spectrum(batch.x)
        outs, network = self.network.advance(self._seen(spectrum), key)
        counted = outs if self.config.supervise else outs[-1:]
        wanted = self.wanted(batch.y)
        losses = [self._judge(self._parts(out, spectrum), wanted, batch.x.shape[1]) for out in counted]
        loss = sum(losses[1:], losses[0]) / len(losses)
        return loss, {}, eqx.tree_at(lambda model: model.network, self, network)

    def state(self) -> Sequence[Tree]:
        """The running statistics of the norms."""
        return running_statistics(self)

    def wanted(
        self, y: Float[Array, "batch all samples channels"]
    ) -> Float[Array, "batch sources samples channels"]:
        """All sources, or the one that is looked for and the sum of the others."""
        if not self.config.source:
            return y
        own = y[:, self.schema.classes.index(self.config.source)]
        return jnp.stack([own, y.sum(axis=1) - own], axis=1)

    def masks(
        self, x: Float[Array, "batch samples channels"]
    ) -> Inexact[Array, "batch sources channels bins frames"]:
        """Shares of the magnitude, or complex factors."""
        spectrum = self._spectrum(x)
        parts = self._parts(self._outputs(spectrum), spectrum)
        if self.config.mask == "ratio":
            there = jnp.abs(spectrum)[:, None]
            return jnp.abs(parts) / jnp.where(there > 0, there, 1)
        there = spectrum[:, None]
        return parts / jnp.where(jnp.abs(there) > 0, there, 1)

    def separate(
        self, x: Float[Array, "batch samples channels"]
    ) -> Float[Array, "batch sources samples channels"]:
        """The inverse of each masked spectrum."""
        spectrum = self._spectrum(x)
        parts = self._parts(self._outputs(spectrum), spectrum)
        return jnp.swapaxes(self.transform.inverse(parts, x.shape[1]), 2, 3)

    def _spectrum(
        self, x: Float[Array, "batch samples channels"]
    ) -> Complex[Array, "batch channels bins frames"]:
        single = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        return self.transform(jnp.swapaxes(single, 1, 2))

    def _seen(
        self, spectrum: Complex[Array, "batch channels bins frames"]
    ) -> Float[Array, "batch bins frames channels"]:
        """Magnitudes as the network sees them."""
        seen = jnp.log1p(_CONTRAST / self._unit * jnp.abs(spectrum))
        return jnp.moveaxis(seen, 1, 3).astype(self.network.down[0].conv.weight.dtype)

    def _outputs(self, spectrum: Array) -> Float[Array, "batch bins frames numbers"]:
        still = eqx.nn.inference_mode(self.network)
        return still.advance(self._seen(spectrum), jax.random.key(0))[0][-1]  # nothing is drawn then

    def _parts(
        self,
        out: Float[Array, "batch bins frames numbers"],
        spectrum: Complex[Array, "batch channels bins frames"],
    ) -> Complex[Array, "batch sources channels bins frames"]:
        """The spectrum of each source."""
        batch, bins, frames, _ = out.shape
        out = out.astype(spectrum.real.dtype)
        shaped = out.reshape(batch, bins, frames, self._numbers, -1, spectrum.shape[1])
        numbers = jnp.transpose(shaped, (3, 0, 4, 5, 1, 2))
        single = bool(self.config.source)
        share = jax.nn.sigmoid(numbers[0]) if single else jax.nn.softmax(numbers[0], axis=1)
        mixture = spectrum[:, None]
        if self.config.mask == "ratio":
            found = share * mixture
        else:
            # Away from zero, where no direction is better than another; at the start nothing is turned.
            turn = numbers[1] + 1 + 1j * numbers[2]
            size = jnp.sqrt(jnp.square(turn.real) + jnp.square(turn.imag) + 1e-12)
            found = share * mixture * turn / size
            if self.config.residual:
                there = jnp.abs(mixture)
                phase = mixture / jnp.where(there > 0, there, 1)
                found = found + jax.nn.relu(numbers[3]) * self._unit / _CONTRAST * phase * turn / size
        return jnp.concatenate([found, mixture - found], axis=1) if single else found

    def _judge(
        self,
        parts: Complex[Array, "batch sources channels bins frames"],
        wanted: Float[Array, "batch sources samples channels"],
        samples: int,
    ) -> Scalar:
        true = jnp.swapaxes(wanted, 2, 3)
        if self.config.objective == "si-sdr":
            signals = self.transform.inverse(parts, samples)
            return -self._best(lambda i, j: si_sdr_bounded(signals[:, i], true[:, j]).mean(axis=1), true)
        sizes = jnp.abs(parts) / self._unit
        goals = jnp.abs(self.transform(true)) / self._unit
        return -self._best(lambda i, j: -jnp.abs(sizes[:, i] - goals[:, j]).mean(axis=(1, 2, 3)), true)

    def _best(self, score: object, true: Array) -> Scalar:
        """The mean over examples and sources of scores, the higher the better, in the order that counts."""
        count = range(true.shape[1])
        if self.ordered:
            return jnp.stack([score(i, i) for i in count]).mean()  # type: ignore[operator]
        pairs = jnp.stack([jnp.stack([score(i, j) for j in count], axis=-1) for i in count], axis=-2)  # type: ignore[operator]
        return best_order(pairs)[0].mean()


def _check(config: SeparatorConfig, schema: Schema) -> None:
    STFT(config.size, hop=config.hop).squares(schema.shape[0])  # complains where there is no way back
    if config.source and config.source not in schema.classes:
        raise ArgumentError(
            f"source={config.source}: no such source{suggest(config.source, schema.classes)}",
            remedy=f"sources: {', '.join(schema.classes)}",
        )
    if config.source and config.order == "free":
        raise ArgumentError(
            "source and order=free: a source with a name has its place", remedy="leave one out"
        )
    if config.supervise and not config.nested:
        raise ArgumentError("supervise=true: a plain network has one output", remedy="use nested=true too")
    if config.residual and config.mask == "ratio":
        raise ArgumentError("residual=true: shares of a mixture have no residual", remedy="use mask=complex")


__all__ = ["Separator", "SeparatorConfig"]

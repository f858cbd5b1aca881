"""First stages of latent diffusion: models of any family that encode and decode, and which of them fit."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float, Key
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.diffusion.stages import check_unconditional
from chainrule.models.protocol import (
    CanDecode,
    CanEncode,
    CodeDraw,
    HasCodebook,
    HasPosterior,
    Model,
)


def check_first_stage(body: Model, known_as: str) -> None:
    """Raise unless a model maps examples to continuous codes and back, without being told anything else."""
    if isinstance(body, HasCodebook):
        raise CapabilityError(
            f"latent-diffusion moves through codes that are numbers; those of {known_as} are words of a codebook",
            remedy="diffuse the words: chainrule train vq-diffusion from=RUN",
        )
    if not (isinstance(body, CanEncode) and isinstance(body, CanDecode)):
        raise CapabilityError(
            f"latent-diffusion needs a first stage that encodes and decodes, which {known_as} does not",
            remedy="train one: chainrule train vae, or autoencoder; then chainrule train latent-diffusion from=RUN",
        )
    check_unconditional(body, known_as, "vae")


def code_shape(body: Model, schema: Schema) -> tuple[int, ...]:
    """The shape of the code of one example; nothing is computed."""
    assert isinstance(body, CanEncode)
    one = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    return tuple(eqx.filter_eval_shape(lambda body, x: body.encode(x), body, one).shape[1:])


def arrangement(body: Model, schema: Schema) -> tuple[int, ...]:
    """How the entries of a code are arranged: the shape of a map where a code is one, otherwise that of the code."""
    assert isinstance(body, CanEncode)
    return body.code_map or code_shape(body, schema)


def check_shape(found: tuple[int, ...], wanted: tuple[int, ...] | None) -> None:
    """Raise where the codes of a first stage are not of the shape that was asked for.

    >>> check_shape((16,), (8,))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: code_shape=(8,): the codes of the first stage have the shape (16,)
           keep the settings of the first stage (body.) as they are in its run, or train it anew with others
    """
    if wanted is not None and tuple(wanted) != found:
        raise ArgumentError(
            f"code_shape={tuple(wanted)}: the codes of the first stage have the shape {found}",
            remedy="keep the settings of the first stage (body.) as they are in its run, or train it anew with others",
        )


def drawn(body: Model, x: Array, key: Key) -> CodeDraw | None:
    """A code of each example drawn from the posterior of a first stage, where that has a density."""
    return body.draw_code(Batch(x), key) if isinstance(body, HasPosterior) else None


def has_density(body: Model, schema: Schema) -> bool:
    """Whether codes are drawn from a known density, so that a bound of theirs bounds the examples."""
    one = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    found = eqx.filter_eval_shape(drawn, body, one, jax.eval_shape(lambda: jax.random.key(0)))
    return found is not None


def codes_of(body: Model, x: Array, key: Key | None = None) -> Float[Array, "batch size"]:
    """The code of each example as one vector: with a key a draw from its posterior, where there is one."""
    assert isinstance(body, CanEncode)
    found = None if key is None else drawn(body, x, key)
    codes = body.encode(x) if found is None else found.code
    return codes.reshape(len(x), -1).astype(jnp.promote_types(codes.dtype, jnp.float32))


def examples_of(body: Model, codes: Float[Array, "batch size"], shape: tuple[int, ...]) -> Array:
    """The example of each code that comes as one vector."""
    assert isinstance(body, CanDecode)
    assert codes.shape[1] == math.prod(shape)
    return body.decode(codes.reshape(len(codes), *shape))


__all__ = [
    "arrangement",
    "check_first_stage",
    "check_shape",
    "code_shape",
    "codes_of",
    "drawn",
    "examples_of",
    "has_density",
]

"""Diffusion of tokens: chains that replace them one by one, and the way back (Austin et al., 2021).

A step keeps a token or puts another in its place, drawn from a distribution pi that is the same for all:
Q = alpha I + (1 - alpha) 1 piᵀ. Products of such steps are of the same kind, so that any two times have a kernel in
closed form: with `kept` the chance that a token was never touched, q(x_t | x_0) = kept I + (1 - kept) 1 piᵀ. Uniform
chains replace by any token, absorbing ones by a mark of their own.
"""

import abc
import math
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, ArrayLike, Float, Int, Key

_LEAST = 1e-15
"""Probabilities below this count as this, so that their logarithms have derivatives of every order."""
_Tokens = Int[Array, "*batch"]
_Probs = Float[Array, "*batch states"]


class TokenChain(eqx.Module):
    """A kernel over `words` tokens, and how it is spread over time from 0 (data) to 1 (nothing is kept)."""

    words: eqx.AbstractVar[int]
    name: ClassVar[str]

    @property
    @abc.abstractmethod
    def states(self) -> int:
        """What a place can hold: all tokens and, where there is one, a mark."""

    @abc.abstractmethod
    def rest(self) -> Float[Array, " states"]:
        """pi: what a token is replaced by."""

    @abc.abstractmethod
    def kept(self, t: Any) -> Array:
        """The chance that a token has not been touched until a time."""

    def noised(self, x: _Tokens, t: Any, key: Key) -> _Tokens:
        """Tokens as they are at a time, which is one for all or of a shape that goes with theirs."""
        keep, other = jax.random.split(key)
        drawn = jax.random.categorical(other, jnp.log(self.rest()), shape=x.shape).astype(x.dtype)
        return jnp.where(jax.random.bernoulli(keep, self.kept(t), x.shape), x, drawn)

    def posterior(self, x: _Tokens, probs: _Probs, t: ArrayLike, earlier: ArrayLike) -> _Probs:
        """The distribution of tokens at an earlier time, given those at time t and a distribution of the clean ones.

        For clean tokens that are known it is q(x_s | x_t, x_0), proportional to Q[x_s, x_t] Qbar_s[x_0, x_s]; for
        others the mean of these over their distribution, of which only what can lead to x_t counts.
        """
        here, there = (jnp.asarray(self.kept(time), probs.dtype) for time in (t, earlier))
        here, there = (jnp.broadcast_to(kept, x.shape)[..., None] for kept in (here, there))
        rest = jnp.broadcast_to(self.rest().astype(probs.dtype), probs.shape)
        same = jax.nn.one_hot(x, self.states, dtype=probs.dtype)
        other = jnp.take(self.rest().astype(probs.dtype), x)[..., None]
        reached = here * same + (1 - here) * other
        possible = jnp.where(reached > 0, probs, 0)
        total = jnp.maximum(possible.sum(axis=-1, keepdims=True), _LEAST)
        weight = possible / total / jnp.where(reached > 0, reached, 1)
        step = here / there * same + (1 - here / there) * other
        return step * (there * weight + (1 - there) * rest * weight.sum(axis=-1, keepdims=True))

    def divergence(
        self, x: _Tokens, clean: _Tokens, probs: _Probs, t: ArrayLike, earlier: ArrayLike
    ) -> Float[Array, "*batch"]:
        """KL(q(x_s | x_t, x_0) || p(x_s | x_t)) of each token, in nats; down to time 0 it is -log p(x_0 | x_t)."""
        known = jax.nn.one_hot(clean, self.states, dtype=probs.dtype)
        true, said = self.posterior(x, known, t, earlier), self.posterior(x, probs, t, earlier)
        # States that cannot be are set to one before the logarithm, whose derivatives there would not be finite.
        true, said = (jnp.where(true > 0, one, 1) for one in (true, said))
        ratio = jnp.log(jnp.maximum(true, _LEAST)) - jnp.log(jnp.maximum(said, _LEAST))
        return (true * ratio).sum(axis=-1)


@final
class UniformChain(TokenChain):
    """Tokens are replaced by any other; kept by the square of a cosine (Hoogeboom et al., 2021).

    >>> UniformChain(4).posterior(jnp.array(2), jax.nn.one_hot(0, 4), 0.5, 0.0).tolist()  # all is clean
    [1.0, 0.0, 0.0, 0.0]
    """

    words: int = eqx.field(static=True)
    name: ClassVar[str] = "uniform"

    @property
    def states(self) -> int:
        """The tokens."""
        return self.words

    def rest(self) -> Float[Array, " states"]:
        """All alike."""
        return jnp.full(self.words, 1 / self.words)

    def kept(self, t: Any) -> Array:
        """cos²(pi t / 2), exactly 0 at the end."""
        return jnp.where(jnp.asarray(t) >= 1, 0.0, jnp.square(jnp.cos(math.pi / 2 * jnp.asarray(t))))


@final
class AbsorbingChain(TokenChain):
    """Tokens are hidden, at an even pace, and stay so; the mark that hides them is the state after the last token.

    >>> hidden, clean = jnp.array(4), jax.nn.one_hot(0, 5)
    >>> AbsorbingChain(4).posterior(hidden, clean, 0.5, 0.25).round(3).tolist()  # seen before by half
    [0.5, 0.0, 0.0, 0.0, 0.5]
    """

    words: int = eqx.field(static=True)
    name: ClassVar[str] = "absorbing"

    @property
    def states(self) -> int:
        """The tokens and the mark."""
        return self.words + 1

    def rest(self) -> Float[Array, " states"]:
        """The mark."""
        return jax.nn.one_hot(self.words, self.states)

    def kept(self, t: Any) -> Array:
        """1 - t."""
        return 1 - jnp.asarray(t, jnp.float32)


CHAINS: dict[str, type[UniformChain] | type[AbsorbingChain]] = {
    chain.name: chain for chain in (UniformChain, AbsorbingChain)
}
"""Chains by their names."""

__all__ = ["CHAINS", "AbsorbingChain", "TokenChain", "UniformChain"]

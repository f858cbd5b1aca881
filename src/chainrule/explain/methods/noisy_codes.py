"""Noisy codes of a table, learned at several prices: the deep variational bottleneck where everything is known.

Every x has a code z ~ N(m(x), s(x)²) of two numbers, and a small network reads y from it. What is minimised is what
`vib` minimises, the cross-entropy of y plus the price of KL(N(m, s²) || N(0, 1)), by the table instead of examples.
What the codes found really say, I(X; Z) and I(Z; Y), follows from the table, so that they can be held against the best
codes there are.
"""

import math
from typing import NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.special import logsumexp

from chainrule.core.types import Array, Float, Key
from chainrule.information.entropies import total

Network: TypeAlias = dict[str, Array]

_SIZE = 2
_WIDTH = 32
_DRAWS = 8
"""Of every code in every step."""
_POINTS = 2**14
"""Codes that information is measured by, about."""


@final
class NoisyCodes(NamedTuple):
    """Codes learned at several prices."""

    rates: np.ndarray
    """I(X; Z) in bits."""
    relevances: np.ndarray
    """I(Z; Y) in bits."""
    bounds: np.ndarray
    """What training takes for I(X; Z), in bits: never less."""


def noisy_codes(joint: np.ndarray, betas: np.ndarray, steps: int = 1500, seed: int = 0) -> NoisyCodes:
    """Codes of x in a table p(x, y) at a price of 1 / beta for a nat, all from the same start.

    >>> found = noisy_codes(np.array([[0.45, 0.05], [0.05, 0.45]]), np.array([20.0]), steps=600)
    >>> bool(0.8 < found.rates[0] <= min(1, found.bounds[0])), bool(0.45 < found.relevances[0] < 0.532)
    (True, True)
    """
    table = joint[joint.sum(axis=1) > 0]
    source = table.sum(axis=1)
    weights, given = jnp.asarray(source, jnp.float32), jnp.asarray(table / source[:, None], jnp.float32)
    optimizer = optax.adam(optax.cosine_decay_schedule(0.02, steps))
    for_start, for_steps = jax.random.split(jax.random.key(seed))
    start = _start(for_start, table.shape)

    def loss(network: Network, beta: Array, key: Key) -> Array:
        noise = jax.random.normal(key, (_DRAWS, *network["mean"].shape))
        z = network["mean"][None] + jnp.exp(network["log_deviation"])[None] * noise
        logs = jax.nn.log_softmax(
            jnp.tanh(z @ network["inward"] + network["shift"]) @ network["outward"] + network["usual"]
        )
        missing = -(given[None] * logs).sum(axis=-1).mean(axis=0)
        return weights @ (missing + _price(network) / beta)

    def train(beta: Array) -> Network:
        def step(
            carry: tuple[Network, optax.OptState], key: Key
        ) -> tuple[tuple[Network, optax.OptState], None]:
            network, state = carry
            change, state = optimizer.update(jax.grad(loss)(network, beta, key), state)
            return (optax.apply_updates(network, change), state), None

        (network, _), _ = jax.lax.scan(
            step, (start, optimizer.init(start)), jax.random.split(for_steps, steps)
        )
        return network

    found = jax.jit(jax.vmap(train))(jnp.asarray(betas, jnp.float32))
    bounds = np.asarray(jax.vmap(_price)(found), np.float64) @ source
    said = [
        code_information(table, np.asarray(mean, np.float64), np.exp(np.asarray(log, np.float64)), seed)
        for mean, log in zip(found["mean"], found["log_deviation"], strict=True)
    ]
    rates, relevances = np.array(said).reshape(-1, 2).T
    return NoisyCodes(rates, relevances, bounds / math.log(2))


def _start(key: Key, shape: tuple[int, int]) -> Network:
    """Codes apart, with little noise: from codes that are the same training could not tell x apart."""
    inputs, outputs = shape
    one, two, three = jax.random.split(key, 3)
    return {
        "mean": jax.random.normal(one, (inputs, _SIZE)),
        "log_deviation": jnp.full((inputs, _SIZE), math.log(0.3)),
        "inward": jax.random.normal(two, (_SIZE, _WIDTH)),
        "shift": jnp.zeros((1, 1, _WIDTH)),
        "outward": jax.random.normal(three, (_WIDTH, outputs)) / math.sqrt(_WIDTH),
        "usual": jnp.zeros((1, 1, outputs)),
    }


def _price(network: Network) -> Float[Array, " inputs"]:
    """`KL(N(m, s²) || N(0, 1))` of every code, in nats."""
    mean, log = network["mean"], network["log_deviation"]
    return (0.5 * (jnp.square(mean) + jnp.exp(2 * log) - 1) - log).sum(axis=-1)


def code_information(
    joint: np.ndarray, mean: np.ndarray, deviation: np.ndarray, seed: int = 0
) -> tuple[float, float]:
    """I(X; Z) and I(Z; Y) in bits of codes z ~ N(mean[x], deviation[x]²): exact but for draws of z.

    >>> apart = np.array([[-100.0], [100.0]])
    >>> code_information(np.array([[0.45, 0.05], [0.05, 0.45]]), apart, np.ones((2, 1)))
    (1.0, 0.531...)
    """
    source = joint.sum(axis=1)
    given = joint / source[:, None]
    count = -(-_POINTS // len(source))
    noise = np.random.default_rng(seed).normal(size=(count, *mean.shape))
    of_x, of_y = 0.0, 0.0
    for x, weight in enumerate(source):
        z = mean[x] + deviation[x] * noise[:, x]
        logs = np.log(source) - (np.square((z[:, None] - mean) / deviation) / 2 + np.log(deviation)).sum(
            axis=-1
        )
        chances = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        of_x += weight * _entropies(chances).mean()
        of_y += weight * _entropies(chances @ given).mean()
    known = total(source), total(joint.sum(axis=0))
    rate, relevance = ((whole - left) / math.log(2) for whole, left in zip(known, (of_x, of_y), strict=True))
    return float(rate), float(relevance)


def _entropies(chances: np.ndarray) -> np.ndarray:
    """Of each row, in nats."""
    return -np.where(chances > 0, chances * np.log(np.maximum(chances, 1e-300)), 0.0).sum(axis=1)


__all__ = ["NoisyCodes", "code_information", "noisy_codes"]

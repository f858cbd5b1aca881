"""Whole trajectories against `torch.optim`, in double precision."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.train.config import LearningRateSchedule, Optimizer
from chainrule.train.optimizers import optimizer
from chainrule.train.schedules import momentum_cycle

STEPS, LR = 100, 0.05
_noise = np.random.default_rng(1)
X, Y = _noise.normal(size=(32, 3)), _noise.normal(size=(32, 2))
W, B = _noise.normal(size=(3, 2)), _noise.normal(size=2)

DEFAULTS = {
    "sgd": ("SGD", {}),
    "momentum": ("SGD", {"momentum": 0.9}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "adagrad": ("Adagrad", {}),
    "rmsprop": ("RMSprop", {}),
    "adam": ("Adam", {}),
    "adamw": ("AdamW", {}),
}
"""What torch calls them; momentum has no default there."""
PAIRS = {
    "sgd": ("SGD", {}),
    "momentum": ("SGD", {"momentum": 0.9}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "adagrad": ("Adagrad", {"eps": 1e-8}),
    "rmsprop": ("RMSprop", {"alpha": 0.9, "eps": 1e-8}),
    "adam": ("Adam", {"betas": (0.9, 0.999), "eps": 1e-8}),
    "adamw": ("AdamW", {"betas": (0.9, 0.999), "eps": 1e-8}),
}


def ours(settings: Optimizer, momentum: Callable | None = None) -> np.ndarray:
    """Losses and parameters of every step."""

    def loss(params: dict) -> jax.Array:
        return jnp.log(jnp.cosh(jnp.tanh(X @ params["w"] + params["b"][None, :]) - Y)).mean()

    @jax.jit
    def follow(params: dict) -> jax.Array:
        method = optimizer(settings)

        def step(carry: Any, number: jax.Array) -> tuple[Any, jax.Array]:
            params, state = carry
            extra = {} if momentum is None else {"momentum": momentum(number)}
            update, state = method.update(jax.grad(loss)(params), state, params, **extra)
            params = jax.tree.map(lambda p, u: p + LR * u, params, update)
            return (params, state), jnp.concatenate([params["w"].ravel(), params["b"]])

        return jax.lax.scan(step, (params, method.init(params)), jnp.arange(STEPS))[1]

    with jax.enable_x64(True):
        return np.asarray(follow({"w": jnp.asarray(W), "b": jnp.asarray(B)}))


# Decay is compared in AdamW only: elsewhere torch adds it to the gradient.
@pytest.mark.parametrize(("name", "decay"), [*((name, 0.0) for name in PAIRS), ("adamw", 0.1)])
def test_a_hundred_steps_agree_with_torch(name: str, decay: float, oracle: Callable) -> None:
    torch = oracle("torch")
    w, b = (torch.tensor(a, requires_grad=True) for a in (W, B))
    method, options = PAIRS[name]
    groups = [{"params": [w], "weight_decay": decay}, {"params": [b], "weight_decay": 0.0}]
    theirs = getattr(torch.optim, method)(groups, lr=LR, **options)
    path = follow_torch(torch, theirs, w, b)
    np.testing.assert_allclose(ours(Optimizer(name=name, decay=decay)), path, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", DEFAULTS)
@pytest.mark.parametrize("decay", [None, 0.1])
def test_with_parity_a_hundred_steps_of_torch_s_own_settings_agree(
    name: str, decay: float | None, oracle: Callable
) -> None:
    torch = oracle("torch")
    w, b = (torch.tensor(a, requires_grad=True) for a in (W, B))
    method, options = DEFAULTS[name]
    given = {} if decay is None else {"weight_decay": decay}
    theirs = getattr(torch.optim, method)([w, b], lr=LR, **options, **given)
    path = follow_torch(torch, theirs, w, b)
    settings = Optimizer(name=name, parity="torch", **({} if decay is None else {"decay": decay}))
    np.testing.assert_allclose(ours(settings), path, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["nesterov", "adamw"])
def test_a_momentum_that_moves_agrees_with_torch(name: str, oracle: Callable) -> None:
    torch = oracle("torch")
    w, b = (torch.tensor(a, requires_grad=True) for a in (W, B))
    method, options = DEFAULTS[name]
    theirs = getattr(torch.optim, method)([w, b], lr=LR, **options, weight_decay=0.0)
    momentum = momentum_cycle(LearningRateSchedule(name="1cycle", cycle_momentum=True), STEPS)
    assert momentum is not None

    def turn(step: int) -> None:
        for group in theirs.param_groups:
            with jax.enable_x64(True):
                m = float(momentum(step))
            group.update({"betas": (m, 0.999)} if name == "adamw" else {"momentum": m})

    path = follow_torch(torch, theirs, w, b, turn)
    np.testing.assert_allclose(ours(Optimizer(name=name, decay=0.0), momentum), path, rtol=1e-9, atol=1e-12)


def follow_torch(torch: Any, theirs: Any, w: Any, b: Any, turn: Callable = lambda step: None) -> np.ndarray:
    """Parameters of every step; `turn` sets the knobs of the optimiser before each."""
    path = []
    for step in range(STEPS):
        turn(step)
        theirs.zero_grad()
        out = torch.tanh(torch.tensor(X) @ w + b) - torch.tensor(Y)
        torch.log(torch.cosh(out)).mean().backward()
        theirs.step()
        path.append(torch.cat([w.detach().ravel(), b.detach()]).numpy().copy())
    return np.array(path)

"""Whole trajectories against `torch.optim`, in double precision."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.train.config import Optimizer
from chainrule.train.optimizers import optimizer

STEPS, LR = 100, 0.05
_noise = np.random.default_rng(1)
X, Y = _noise.normal(size=(32, 3)), _noise.normal(size=(32, 2))
W, B = _noise.normal(size=(3, 2)), _noise.normal(size=2)

PAIRS = {
    "sgd": ("SGD", {}),
    "momentum": ("SGD", {"momentum": 0.9}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "adagrad": ("Adagrad", {"eps": 1e-8}),
    "rmsprop": ("RMSprop", {"alpha": 0.9, "eps": 1e-8}),
    "adam": ("Adam", {"betas": (0.9, 0.999), "eps": 1e-8}),
    "adamw": ("AdamW", {"betas": (0.9, 0.999), "eps": 1e-8}),
}


def ours(settings: Optimizer) -> np.ndarray:
    """Losses and parameters of every step."""

    def loss(params: dict) -> jax.Array:
        return jnp.log(jnp.cosh(jnp.tanh(X @ params["w"] + params["b"][None, :]) - Y)).mean()

    @jax.jit
    def follow(params: dict) -> jax.Array:
        method = optimizer(settings)

        def step(carry: Any, _: None) -> tuple[Any, jax.Array]:
            params, state = carry
            update, state = method.update(jax.grad(loss)(params), state, params)
            params = jax.tree.map(lambda p, u: p + LR * u, params, update)
            return (params, state), jnp.concatenate([params["w"].ravel(), params["b"]])

        return jax.lax.scan(step, (params, method.init(params)), None, length=STEPS)[1]

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
    path = []
    for _ in range(STEPS):
        theirs.zero_grad()
        out = torch.tanh(torch.tensor(X) @ w + b) - torch.tensor(Y)
        torch.log(torch.cosh(out)).mean().backward()
        theirs.step()
        path.append(torch.cat([w.detach().ravel(), b.detach()]).numpy().copy())
    np.testing.assert_allclose(ours(Optimizer(name=name, decay=decay)), np.array(path), rtol=1e-9, atol=1e-12)

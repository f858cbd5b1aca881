"""Sizes that are none, and inputs that do not fit, end in a sentence about the argument."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from chainrule import nn
from chainrule.core.errors import ArgumentError
from chainrule.nn import constructions

KEY = jax.random.key(0)


def test_every_size_must_be_a_whole_number_and_numpy_s_will_do() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.nn.wrong_sizes"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.glu(jnp.ones((2, 5))), r"glu: an input of shape \(2, 5\) has no two halves"),
        (lambda: nn.swiglu(jnp.ones((2, 0))), "swiglu: .* no two halves"),
        (
            lambda: nn.BatchNorm(3).advance(jnp.ones((4, 5))),
            r"shape \(4, 5\) has 5 features, the layer takes 3",
        ),
        (lambda: nn.BatchNorm(3).advance(jnp.ones((1, 3))), "use a batch of at least 2"),
        (lambda: nn.BatchNorm(3)(jnp.ones((4, 1))), "BatchNorm: .* 1 features, the layer takes 3"),
        (lambda: nn.LayerNorm(3)(jnp.ones((4, 1))), "LayerNorm: .* 1 features"),
        (lambda: nn.RMSNorm(3)(jnp.ones((4, 1))), "RMSNorm: .* 1 features"),
        (lambda: nn.GroupNorm(4)(jnp.ones((2, 2, 2, 1))), "GroupNorm: .* 1 features"),
        (lambda: nn.Linear(3, 2, key=KEY)(jnp.ones((4, 5))), "Linear: .* has 5 features, the layer takes 3"),
        (
            lambda: constructions.GraphLayer(3, 2, key=KEY)(jnp.ones((4, 3)), jnp.ones((4, 5))),
            r"an adjacency of shape \(4, 5\)",
        ),
        (lambda: nn.Conv(2, 3, 8, 3, padding=-1, key=KEY), "padding must be a whole number of at least 0"),
    ],
)
def test_inputs_that_do_not_fit_are_named_with_their_shape(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        call()

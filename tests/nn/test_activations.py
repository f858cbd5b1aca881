"""Activation functions: closed-form values, kinks, and gains that keep the mean square steady through depth."""

import math
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from chainrule import nn
from chainrule.core.errors import ArgumentError
from chainrule.nn import Linear, activation, activations
from chainrule.nn.activations import ActivationName

GELU_MINIMUM = -0.751791524693564
X = np.unique([*np.linspace(-6, 6, 241).round(9), GELU_MINIMUM, -1e4, 1e4])
CLOSED_FORMS = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky-relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "leaky-relu-0.2": lambda x: np.where(x > 0, x, 0.2 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "tanh": np.tanh,
    "sigmoid": scipy.special.expit,
    "gelu": lambda x: x / 2 * (1 + scipy.special.erf(x / math.sqrt(2))),
    "silu": lambda x: x * scipy.special.expit(x),
    "softplus": lambda x: np.logaddexp(0, x),
    "gelu-tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "selu": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    ),
}
STEPS = {
    "sign": lambda x: np.where(x > 0, 1.0, -1.0),
    "step": lambda x: np.where(x > 0, 1.0, 0.0),
}


def test_every_activation_has_a_closed_form_here() -> None:
    assert set(activations) == {*CLOSED_FORMS, *STEPS, *(f"{name}-straight-through" for name in STEPS)}


@pytest.fixture(scope="module")
def computed() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Values and derivatives of every activation on X, compiled together."""

    def both(x: jax.Array) -> dict[str, tuple[jax.Array, jax.Array]]:
        return {name: jax.jvp(f.function, (x,), (jnp.ones_like(x),)) for name, f in functions.items()}

    functions = {name: activation(name) for name in activations if name not in STEPS}
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(both)(jnp.asarray(X)))


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_values_agree_with_the_closed_form_in_double_precision(name: str, computed: dict) -> None:
    values, _ = computed[name]
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, CLOSED_FORMS[name](X), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_derivatives_agree_with_central_differences(name: str, computed: dict) -> None:
    smooth, h, f = np.minimum(np.abs(X), np.abs(X - 6)) > 0.01, 1e-5, CLOSED_FORMS[name]
    expected = (f(X[smooth] + h) - f(X[smooth] - h)) / (2 * h)
    np.testing.assert_allclose(computed[name][1][smooth], expected, rtol=1e-6, atol=1e-9)


def test_known_values(computed: dict) -> None:
    at = {x: int(np.abs(X - x).argmin()) for x in (-1.0, GELU_MINIMUM, 0.0, 1.0)}
    values, derivatives = computed["gelu"]
    assert values[at[1.0]] == pytest.approx(0.8413447460685429)
    assert values[at[GELU_MINIMUM]] == pytest.approx(-0.169971, abs=1e-6)
    assert derivatives[at[GELU_MINIMUM]] == pytest.approx(0, abs=1e-9)
    assert computed["elu"][0][at[-1.0]] == pytest.approx(-0.6321205588285577)


@pytest.mark.parametrize(("name", "slope"), [("relu", 0.0), ("leaky-relu", 0.01), ("elu", 1.0)])
def test_the_derivative_at_a_kink_is_the_one_from_the_left(name: str, slope: float, computed: dict) -> None:
    assert computed[name][1][np.flatnonzero(X == 0)].tolist() == [slope]


@pytest.mark.parametrize(("name", "slope"), [("sign", 1.0), ("step", 0.5)])
def test_steps_refuse_to_be_trained_through_and_their_surrogates_do_not(
    name: str, slope: float, computed: dict
) -> None:
    with jax.enable_x64(True):
        np.testing.assert_array_equal(activation(name)(jnp.asarray(X)), STEPS[name](X))
    with pytest.raises(ArgumentError, match=f"{name!r} has derivative zero") as raised:
        jax.grad(lambda x: activation(name)(x))(jnp.array(1.0))
    assert f"{name}-straight-through" in raised.value.remedy
    # What does not depend on the step's input may be trained.
    assert float(jax.grad(lambda w: w * activation(name)(jnp.array(2.0)))(1.0)) == 1.0
    values, derivatives = computed[f"{name}-straight-through"]
    np.testing.assert_array_equal(values, STEPS[name](X))
    np.testing.assert_array_equal(derivatives, np.where(np.abs(X) <= 1, slope, 0.0))


def test_gated_units_multiply_one_half_by_a_function_of_the_other() -> None:
    x = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    gate = scipy.special.expit(x[:, 4:])
    np.testing.assert_allclose(nn.glu(jnp.asarray(x)), x[:, :4] * gate, rtol=1e-5)
    np.testing.assert_allclose(nn.swiglu(jnp.asarray(x)), x[:, :4] * x[:, 4:] * gate, rtol=1e-5)


@pytest.mark.parametrize("name", CLOSED_FORMS)
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_the_type_of_the_input_is_kept(name: str, dtype: jnp.dtype) -> None:
    assert jax.eval_shape(activation(name), jnp.ones((2, 3), dtype)).dtype == dtype


@pytest.mark.parametrize("name", ["gelu", "gelu-tanh", "silu"])
def test_in_half_the_digits_values_and_slopes_are_rounded_once(name: str) -> None:
    x = jnp.linspace(-6, 6, 257, dtype=jnp.bfloat16)
    function = activation(name)
    exact, slope = jax.jvp(function, (x.astype(jnp.float32),), (jnp.ones(x.shape),))
    out, pull = jax.vjp(function, x)
    np.testing.assert_array_equal(out, exact.astype(jnp.bfloat16))
    (back,) = pull(jnp.ones_like(x))
    np.testing.assert_allclose(back.astype(jnp.float32), slope, rtol=2**-8, atol=1e-6)


def test_gains_are_those_of_the_literature() -> None:
    gains = {name: activation(name).gain for name in activations}
    assert gains["identity"] == gains["sigmoid"] == 1
    assert gains["tanh"] == pytest.approx(5 / 3)
    assert gains["relu"] == pytest.approx(math.sqrt(2))
    assert gains["leaky-relu"] == pytest.approx(math.sqrt(2 / (1 + 0.01**2)))


@pytest.mark.parametrize(
    ("name", "gain", "initializer", "low", "high"),
    [
        ("relu", math.sqrt(2), "he", 0.5, 2.0),
        ("relu", 1.0, "xavier", 2**-21, 2**-19),
        ("tanh", 5 / 3, "xavier", 0.35, 0.5),
        ("tanh", 1.0, "xavier", 0.02, 0.04),
    ],
)
def test_twenty_layers_keep_or_lose_the_signal_as_the_gain_predicts(
    name: str, gain: float, initializer: str, low: float, high: float
) -> None:
    def layer(h: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        return activation(name)(Linear(512, 512, key=key, initializer=initializer, gain=gain)(h)), None

    @jax.jit
    def mean_square(key: jax.Array) -> jax.Array:
        h, _ = jax.lax.scan(layer, jax.random.normal(key, (256, 512)), jax.random.split(key, 20))
        return jnp.square(h).mean()

    assert low < float(mean_square(jax.random.key(0))) < high


def test_a_misspelt_activation_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ArgumentError, match=r"unknown activation 'rleu' \(did you mean 'relu'\?\)"):
        nn.activation("rleu")


def test_settings_know_every_activation_by_name() -> None:
    assert set(get_args(ActivationName)) == set(activations)
    assert len(get_args(ActivationName)) == len(activations)

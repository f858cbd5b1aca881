"""The pair of convolution primitives against XLA's own convolution: every mode of differentiation, every geometry."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.nn.convolution import stock
from chainrule.nn.convolution.primitives import convolution, weight_gradient
from chainrule.nn.windows import Geometry
from tests.tiers import tiers

# name: batch, space, kernel, inputs, outputs, geometry
CASES: dict[str, tuple[int, tuple[int, ...], tuple[int, ...], int, int, Geometry]] = {
    "same": (2, (7, 6), (3, 3), 2, 3, Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1)),
    "stride that floors rows away": (
        3,
        (8, 7),
        (3, 2),
        2,
        3,
        Geometry((2, 2), ((1, 1), (0, 1)), (1, 1), (1, 1), 1),
    ),
    "dilation and stride": (1, (9, 9), (3, 3), 1, 2, Geometry((2, 1), ((2, 0), (1, 3)), (1, 1), (2, 2), 1)),
    "groups": (2, (5, 7), (3, 3), 4, 6, Geometry((1, 2), ((1, 1), (1, 1)), (1, 1), (1, 2), 2)),
    "depthwise": (2, (5, 5), (3, 3), 3, 3, Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 3)),
    "pointwise": (2, (5, 5), (1, 1), 3, 4, Geometry((2, 2), ((0, 0), (0, 0)), (1, 1), (1, 1), 1)),
    "more padding than kernel": (
        2,
        (4, 5),
        (2, 1),
        2,
        2,
        Geometry((1, 1), ((3, 2), (2, 0)), (1, 1), (1, 1), 1),
    ),
    "spread inputs": (2, (4, 3), (3, 4), 2, 3, Geometry((1, 1), ((1, 2), (2, 1)), (2, 2), (1, 1), 1)),
    "spread inputs, dilated kernel, groups": (
        2,
        (4, 4),
        (3, 2),
        4,
        2,
        Geometry((1, 1), ((2, 3), (0, 1)), (2, 3), (2, 2), 2),
    ),
    "spread inputs and stride": (
        1,
        (5, 4),
        (3, 3),
        2,
        2,
        Geometry((2, 2), ((1, 1), (1, 1)), (2, 1), (1, 1), 1),
    ),
    "one dimension": (2, (9,), (4,), 3, 2, Geometry((2,), ((1, 2),), (1,), (2,), 1)),
    "three dimensions": (
        2,
        (4, 5, 3),
        (2, 3, 2),
        2,
        2,
        Geometry((1, 2, 1), ((1, 0),) * 3, (1,) * 3, (1,) * 3, 1),
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def everything(convolve: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Value, both modes, both mixtures of them, and batches on either side and on both."""

    def wave(x: Any, w: Any) -> Any:
        return jnp.sin(convolve(x, w)).sum()

    def compute(x: Any, w: Any, v: Any, u: Any) -> dict[str, Any]:
        gradient = jax.grad(wave, (0, 1))
        xs, ws = jnp.stack([x, v, -x]), jnp.stack([w, u, 2 * w])
        return {
            "value": convolve(x, w),
            "forward": jax.jvp(convolve, (x, w), (v, u))[1],
            "reverse": gradient(x, w),
            "forward over reverse": jax.jvp(gradient, (x, w), (v, u))[1],
            "reverse over reverse": jax.grad(
                lambda x, w: sum(jnp.vdot(a, b) for a, b in zip(gradient(x, w), (v, u), strict=True)), (0, 1)
            )(x, w),
            "batched inputs": jax.vmap(gradient, (0, None))(xs, w),
            "batched weights": jax.vmap(gradient, (None, -1))(x, jnp.moveaxis(ws, 0, -1)),
            "both batched": jax.vmap(gradient, (1, 0))(xs.swapaxes(0, 1), ws),
        }

    return jax.jit(compute)


@pytest.mark.parametrize(
    "name", tiers(CASES, slow=set(CASES) - {"same", "dilation and stride", "groups", "spread inputs"})
)
def test_every_derivative_agrees_with_stock(name: str) -> None:
    batch, space, kernel, inputs, outputs, geometry = CASES[name]
    draw = np.random.default_rng(0)
    x, v = jnp.asarray(draw.normal(size=(2, batch, *space, inputs)))
    w, u = jnp.asarray(draw.normal(size=(2, *kernel, inputs // geometry.groups, outputs)))
    ours = everything(lambda x, w: convolution(x, w, geometry))(x, w, v, u)
    theirs = everything(lambda x, w: stock.convolution(x, w, geometry=geometry))(x, w, v, u)
    for what in ours:
        for a, b in zip(jax.tree.leaves(ours[what]), jax.tree.leaves(theirs[what]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10, err_msg=what)


@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel", "stride"),
    [(4, 5, 3, 1), (1, 4, 3, 1), (50, 3, 3, 1), (4, 6, 3, 2), (4, 2, 1, 1)],
)
def test_single_precision_programs_agree_in_and_out_of_loops(
    inputs: int, outputs: int, kernel: int, stride: int
) -> None:
    draw = np.random.default_rng(1)
    x = jnp.asarray(
        draw.normal(size=(7, 9, 8, inputs)), jnp.float32
    )  # even width: narrow outputs come in pairs
    w = jnp.asarray(draw.normal(size=(kernel, kernel, inputs, outputs)) / kernel, jnp.float32)
    edge = kernel // 2
    geometry = Geometry((stride,) * 2, ((edge, edge),) * 2, (1, 1), (1, 1), 1)

    def gradient(x: Any, w: Any) -> Any:
        out, back = jax.vjp(lambda x, w: convolution(x, w, geometry), x, w)
        return out, back(jnp.cos(out))

    def step(carry: Any, _: None) -> Any:
        x, w = carry
        out, (dx, dw) = gradient(x, w)
        return (x + 0 * dx, w + 0 * dw), (out, (dx, dw))

    def by_stock(x: Any, w: Any) -> Any:
        out, back = jax.vjp(lambda x, w: stock.convolution(x, w, geometry=geometry), x, w)
        return out, back(jnp.cos(out))

    expected = jax.jit(by_stock)(x, w)
    looped = jax.jit(lambda x, w: jax.lax.scan(step, (x, w), None, length=2)[1])(x, w)
    for found in (jax.jit(gradient)(x, w), jax.tree.map(lambda a: a[1], looped)):
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_weight_gradients_in_blocks_count_every_example_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "chainrule.nn.convolution.selection.BLOCK_BYTES", 4 * 36 * 9 * 2 * 3
    )  # three examples
    geometry = Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1)
    draw = np.random.default_rng(2)
    for batch in (3, 6, 7):
        x, dy, w = (
            jnp.asarray(draw.normal(size=shape))
            for shape in ((batch, 6, 6, 2), (batch, 6, 6, 4), (3, 3, 2, 4))
        )

        @jax.jit
        def found(x: Any, dy: Any, w: Any) -> Any:
            return weight_gradient(x, dy, geometry, (3, 3)), convolution(x, w, geometry)

        @jax.jit
        def expected(x: Any, dy: Any, w: Any) -> Any:
            return (
                stock.weight_gradient(x, dy, geometry=geometry, kernel=(3, 3)),
                stock.convolution(x, w, geometry=geometry),
            )

        for one, other in zip(found(x, dy, w), expected(x, dy, w), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_low_precision_is_summed_in_single_precision() -> None:
    x, w = jnp.ones((1, 20, 20, 8), jnp.bfloat16), jnp.full((9, 9, 8, 2), 1 / 256, jnp.bfloat16)
    geometry = Geometry((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1)
    out, back = jax.vjp(lambda x, w: convolution(x, w, geometry), x, w)
    assert out.dtype == jnp.bfloat16
    np.testing.assert_array_equal(out, np.full(out.shape, 81 * 8 / 256, np.float32).astype(jnp.bfloat16))
    dx, dw = back(jnp.ones_like(out))
    assert dx.dtype == dw.dtype == jnp.bfloat16
    np.testing.assert_array_equal(dw, np.full(dw.shape, 144, np.float32).astype(jnp.bfloat16))


def test_empty_batches_give_empty_outputs_and_zero_gradients() -> None:
    geometry = Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1)
    x, w = jnp.zeros((0, 5, 5, 2)), jnp.ones((3, 3, 2, 4))
    out, back = jax.vjp(lambda x, w: convolution(x, w, geometry), x, w)
    dx, dw = back(out)
    assert out.shape == (0, 5, 5, 4)
    assert dx.shape == x.shape
    assert not dw.any()


def test_other_platforms_get_the_stock_convolution() -> None:
    geometry = Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1)
    x, w = jnp.ones((2, 5, 5, 2)), jnp.ones((3, 3, 2, 4))

    def gradient(x: Any, w: Any) -> Any:
        return jax.grad(lambda x, w: convolution(x, w, geometry).sum(), (0, 1))(x, w)

    text = jax.jit(gradient).trace(x, w).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("stablehlo.convolution") == 2
    assert "dot_general" not in text


@pytest.mark.parametrize(
    ("batch", "space", "kernel", "geometry"),
    [
        (8, (6, 37), (7, 7), Geometry((1, 1), ((3, 3), (3, 3)), (1, 1), (1, 1), 3)),
        (3, (9, 70), (3, 2), Geometry((2, 2), ((1, 0), (2, 1)), (1, 1), (1, 1), 3)),
        (12, (8, 40), (3, 3), Geometry((1, 1), ((2, 2), (0, 4)), (1, 1), (2, 2), 3)),
    ],
)
def test_depthwise_weight_gradients_of_several_stretches_of_a_row(
    batch: int, space: tuple[int, int], kernel: tuple[int, int], geometry: Geometry
) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(batch, *space, 3))
    cotangent = draw.normal(size=(batch, *geometry.sizes(space, kernel), 3))
    both = jax.jit(
        lambda x, dy: [
            f(x, dy, geometry=geometry, kernel=kernel) for f in (weight_gradient, stock.weight_gradient)
        ]
    )
    np.testing.assert_allclose(*both(x, cotangent), rtol=1e-10, atol=1e-10)

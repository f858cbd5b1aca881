"""Native code is used where it can be, refused where it cannot, and results are the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import nn
from chainrule.core.errors import ArgumentError
from chainrule.nn import grouped
from chainrule.nn.attention import native as attention
from chainrule.nn.convolution import native as convolution
from chainrule.nn.native import availability, ffi, interface
from chainrule.nn.native.availability import Registers
from chainrule.nn.recurrent import native as recurrent
from chainrule.nn.windows import Geometry
from tests.nn.conftest import native_reason

needs_native = pytest.mark.skipif(bool(native_reason()), reason=f"native code: {native_reason()}")
WAYS = [
    "another major version",
    *(pytest.param(way, marks=pytest.mark.slow) for way in ("fields in another order", "a missing header")),
]
PLANE = Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1)


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    """Nothing is known from before, and nothing is left behind."""
    forget()
    yield
    forget()


def forget() -> None:
    for cache in (availability._availability, interface.refusal):
        cache.cache_clear()
    jax.clear_caches()


def draw(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(shape).normal(size=shape), jnp.float32)


def used() -> list[bool]:
    """Whether each kind of program is used for a shape that would fit."""
    maps, heads = jnp.zeros((2, 8, 8, 32)), jnp.zeros((2, 2, 32, 32))
    return [
        convolution.convolves(maps, jnp.zeros((3, 3, 32, 32)), PLANE),
        convolution.weighs(maps, maps, PLANE),
        attention.fast(heads, heads, heads, None, None),
        grouped.fast(jnp.zeros((2, 64, 32)), 8),
        recurrent.runs(32, (4, 2, 128)),
    ]


def everything() -> list[Any]:
    """Values and gradients of a layer of every kind that has programs."""
    keys = jax.random.split(jax.random.key(0), 4)
    conv, norm = nn.Conv(2, 16, 32, 3, key=keys[0]), nn.GroupNorm(32, groups=8)
    lstm = nn.LSTM(16, 32, key=keys[1])
    image, series, heads = draw(2, 6, 6, 16), draw(3, 5, 16), draw(2, 2, 32, 16)

    def run(given: Any, image: Any, series: Any, heads: Any) -> Any:
        conv, norm, lstm = given
        mapped = norm(conv(image), activation="silu")
        read, _ = lstm(series)
        mixed = nn.attention.attend(heads, heads[::-1], heads, mask=nn.attention.Causal())
        return sum(jnp.sin(a).sum() for a in (mapped, read, mixed)), (mapped, read, mixed)

    compute = jax.jit(jax.value_and_grad(run, argnums=(0, 1, 2, 3), has_aux=True))
    return jax.tree.leaves(compute((conv, norm, lstm), image, series, heads))


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    """What native code gives."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(availability.SWITCH, "16")
        forget()
        return everything()


def break_interface(how: str, patch: pytest.MonkeyPatch, folder: Path) -> str:
    """Another jaxlib; the reason that is told."""
    file = folder / "xla" / "ffi" / "api" / "c_api.h"
    file.parent.mkdir(parents=True)
    patch.setattr(jax.ffi, "include_dir", lambda: str(folder))
    if how == "another major version":
        file.write_text("#define XLA_FFI_API_MAJOR 1\n#define XLA_FFI_API_MINOR 0\n")
        return "XLA's interface has version 1.0, programs are written for 0.3"
    if how == "fields in another order":
        shuffled = "struct XLA_FFI_CallFrame { size_t struct_size; void* api; void* extension_start; };"
        file.write_text(f"#define XLA_FFI_API_MAJOR 0\n#define XLA_FFI_API_MINOR 3\n{shuffled}\n")
        return "XLA_FFI_CallFrame.extension_start of XLA's interface is not where programs look for it"
    return "jaxlib has no c_api.h, so XLA's interface cannot be checked"


@needs_native
@pytest.mark.parametrize("how", WAYS)
def test_programs_are_refused_and_results_are_the_same(
    how: str, expected: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(availability.SWITCH, "16")
    assert all(used())
    reason = break_interface(how, monkeypatch, tmp_path)
    forget()
    assert availability.availability() == (None, reason)
    assert not any(used())
    for found, wanted in zip(everything(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5 * float(np.abs(wanted).max()))


@needs_native
def test_a_version_that_xla_no_longer_supports_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ffi, "VERSION", (0, 999))
    assert availability._registration.__wrapped__().startswith("XLA refuses native programs: ")


def test_the_switch_turns_everything_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(availability.SWITCH, "0")
    assert availability.availability() == (None, "switched off by CHAINRULE_NATIVE=0")
    assert not any(used())
    assert all(np.isfinite(one).all() for one in everything())


@pytest.mark.parametrize(
    ("system", "processor"), [("darwin", "arm64"), ("linux", "riscv64"), ("win32", "AMD64")]
)
def test_other_systems_have_none(system: str, processor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(availability.SWITCH, "1")
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: processor)
    assert availability.registers() is None
    assert processor in availability.availability().reason


@needs_native
@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"avx512f": True, "avx2": True, "fma": True}, Registers(16, 32)),
        ({"avx512f": False, "avx2": True, "fma": True}, Registers(8, 16)),
        ({"avx2": True, "fma": False}, None),
        ({}, None),
    ],
)
def test_the_processor_decides_unless_told_otherwise(
    features: dict[str, bool], expected: Registers | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(availability.SWITCH, raising=False)
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: features)
    monkeypatch.setattr(availability, "_registration", lambda: "")
    assert availability.registers() == expected
    assert bool(availability.availability().reason) == (expected is None)
    monkeypatch.setenv(availability.SWITCH, "8")
    assert availability.registers() == Registers(8, 16)


def test_another_value_of_the_switch_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(availability.SWITCH, "off")
    with pytest.raises(ArgumentError, match=r"CHAINRULE_NATIVE=off: it must be 0 \(no native code\)"):
        availability.registers()

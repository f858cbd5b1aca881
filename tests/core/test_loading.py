"""What does not need JAX does not load it."""

import subprocess
import sys

import pytest


def loaded_by(module: str) -> set[str]:
    program = f"import {module}, sys; print(' '.join(sys.modules))"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return set(child.stdout.split())


@pytest.mark.parametrize("module", ["errors", "registry"])
def test_errors_and_registries_load_neither_jax_nor_numpy(module: str) -> None:
    loaded = loaded_by(f"chainrule.core.{module}")
    assert f"chainrule.core.{module}" in loaded
    assert loaded.isdisjoint({"jax", "jaxtyping", "equinox", "numpy", "pydantic"})


def test_pictures_load_numpy_but_not_jax() -> None:
    loaded = loaded_by("chainrule.core.pictures")
    assert "numpy" in loaded
    assert loaded.isdisjoint({"jax", "jaxtyping", "equinox", "matplotlib"})


def test_the_other_modules_are_there_on_first_use() -> None:
    program = (
        "import sys, chainrule; core = chainrule.core; assert 'jax' not in sys.modules; "
        "print(core.tree.__name__, core.random.__name__, core.types.__name__, core.pictures.__name__); "
        "assert set(core.__all__) == set(dir(core))"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    assert child.stdout.split() == [
        f"chainrule.core.{name}" for name in ("tree", "random", "types", "pictures")
    ]


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    import chainrule.core

    with pytest.raises(AttributeError, match=r"module 'chainrule.core' has no attribute 'trees'"):
        chainrule.core.trees  # noqa: B018

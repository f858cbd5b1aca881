"""What is said of the time before many examples are drawn entry after entry."""

import time
from pathlib import Path
from typing import Any, final

import jax.numpy as jnp
import pytest

from chainrule.cli import sample_time
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import Batch, load
from chainrule.models.protocol import HasAudit, HasSampleCaption, Metrics
from chainrule.train import fit


@final
class Slow(HasSampleCaption, HasAudit):
    """Zeros, after some waiting."""

    weight: Array
    needed: int

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        del batch, key
        return jnp.square(self.weight).sum(), {}

    def audit(self, x: Array, key: Key, condition: Any = None) -> Any:
        raise NotImplementedError

    @property
    def passes(self) -> tuple[int, int]:
        return 1, self.needed

    def sample(self, key: Key, n: int) -> Array:  # type: ignore[override]
        time.sleep(0.01)
        return jnp.zeros((n, 2))

    def sample_caption(self, **options: Any) -> str:
        return f"{self.needed} passes"


def test_many_passes_for_many_examples_are_announced_with_their_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = load("moons", n=200)
    run = fit(Slow(jnp.ones(1), 784), data, run=tmp_path / "slow", steps=1, batch=8)
    quick = fit(Slow(jnp.ones(1), 2), data, run=tmp_path / "quick", steps=1, batch=8)
    capsys.readouterr()
    sample_time.announce(run, 64)
    sample_time.announce(quick, 10**6)
    assert capsys.readouterr().err == ""
    sample_time.announce(run, 10**6)  # at least a hundredth of a second for every 64
    said = capsys.readouterr().err
    assert said.startswith("note: 784 passes: about ")
    assert "min" in said or "h" in said.split("about")[1]

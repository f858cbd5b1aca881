"""Rate and distortion over the weight of the rate."""

from pathlib import Path

import numpy as np
import pytest

from chainrule import data, explain, models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.explain import probes
from chainrule.train import fit


def test_a_heavier_rate_buys_less_code_and_the_probe_says_so(tmp_path: Path) -> None:
    moons = data.load("moons", n=300)
    model = models.build("vae", moons, latent=2, width=8, warmup=0.0)
    run = fit(model, moons, run=tmp_path / "run", steps=100, batch=64, optimizer={"lr": 1e-2})
    outcome = probes.examine("rate-distortion", run, betas=(10.0, 0.1), steps=100)
    found = outcome.numbers
    assert found["betas"] == [0.1, 10.0]
    assert found["rate"][0] > found["rate"][1] + 0.2
    assert found["distortion"][0] < found["distortion"][1]
    assert outcome.table is not None
    assert np.isfinite(found["stderr"]).all()
    with pytest.raises(ArgumentError, match="none below 0"):
        explain.rd_sweep(model, moons, [-1.0])
    with pytest.raises(CapabilityError, match="no weight of its rate"):
        explain.rd_sweep(models.build("made", moons, width=4, depth=1), moons, [1.0])

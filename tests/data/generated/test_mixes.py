"""Generated mixtures: repeatable, within the limits of sound, neither source always the louder."""

import numpy as np

import chainrule as cr


def test_mixtures_are_sums_within_the_limits_and_the_same_every_time() -> None:
    data = cr.data.load("mixes", n=20, length=2048)
    assert data.describe().startswith(
        "20 sounds of 0.25 s (2,048 samples at 8,192 a second), mono, mixed of tones"
    )
    x, y = data.train.batch(np.arange(16))[:2]
    np.testing.assert_allclose(x, y.sum(axis=1), atol=1e-6)
    assert 0.3 < np.abs(x).max(axis=(1, 2)).min() <= np.abs(x).max() <= 0.91
    assert np.abs(y).max() <= 0.91
    energy = np.square(y).sum(axis=(2, 3))
    assert 0 < (energy[:, 0] > energy[:, 1]).mean() < 1
    again = cr.data.load("mixes", n=20, length=2048)
    assert again.hash == data.hash
    assert cr.data.load("mixes", n=20, length=2048, seed=1).hash != data.hash

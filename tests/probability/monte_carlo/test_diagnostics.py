"""R-hat and effective sample sizes of chains for which they are known."""

import numpy as np
import pytest
import scipy.signal

from chainrule.core.errors import ArgumentError
from chainrule.probability.monte_carlo import bulk_ess, mean_ess, rhat, tail_ess


def autoregressive(rho: float, chains: int, draws: int, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(chains, draws)) * np.sqrt(1 - rho**2)
    noise[:, 0] /= np.sqrt(1 - rho**2)
    return scipy.signal.lfilter([1.0], [1.0, -rho], noise, axis=1)


@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.5, 0.9])
def test_the_effective_sample_size_of_an_autoregression_is_the_known_one(rho: float) -> None:
    x = autoregressive(rho, 8, 20_000)
    exact = x.size * (1 - rho) / (1 + rho)
    assert mean_ess(x) == pytest.approx(exact, rel=0.08)
    assert bulk_ess(x) == pytest.approx(exact, rel=0.08)
    assert rhat(x) < 1.005


def test_tails_that_are_visited_rarely_and_for_long_have_a_smaller_size() -> None:
    x = np.random.default_rng(0).normal(size=(4, 2000))
    x[:, 500:600] = 5.0  # a long stay beyond the 95 % quantile
    assert tail_ess(x) < 0.2 * bulk_ess(np.random.default_rng(1).normal(size=(4, 2000)))


def test_chains_that_differ_in_place_spread_or_drift_are_flagged() -> None:
    x = np.random.default_rng(0).normal(size=(4, 1000))
    apart, wide, drift = x.copy(), x.copy(), x + np.linspace(-1, 1, 1000)
    apart[0] += 1
    wide[0] *= 3
    assert rhat(x) < 1.01
    assert min(rhat(apart), rhat(wide), rhat(drift)) > 1.03


def test_ranks_make_both_work_without_a_variance_and_whatever_the_unit() -> None:
    x = np.random.default_rng(0).standard_cauchy(size=(4, 1000))
    assert rhat(x) < 1.01
    assert bulk_ess(x) == pytest.approx(4000, rel=0.15)
    assert bulk_ess(np.exp(x / 100)) == pytest.approx(bulk_ess(x))
    assert rhat(np.stack([x, 3 * x + 1], axis=-1)) == pytest.approx([float(rhat(x))] * 2)


def test_what_never_changes_has_neither() -> None:
    x = np.stack([np.ones((4, 50)), np.random.default_rng(0).normal(size=(4, 50))], axis=-1)
    assert np.isnan(rhat(x)).tolist() == np.isnan(bulk_ess(x)).tolist() == [True, False]


def test_draws_without_chains_or_with_gaps_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"draws\[None\]"):
        rhat(np.zeros(100))
    with pytest.raises(ArgumentError, match="NaN or infinite"):
        bulk_ess(np.full((4, 10), np.nan))


def _drifting() -> np.ndarray:
    x = autoregressive(0.7, 4, 400, 3)
    x[0] += np.linspace(0, 1, 400)
    return x


def _wider() -> np.ndarray:
    x = autoregressive(0.3, 4, 300, 4)
    x[1] *= 2
    return x


def _heavy() -> np.ndarray:
    return np.random.default_rng(5).standard_cauchy((4, 400))


# R-hat and bulk, tail and mean effective sample sizes by ArviZ 0.23.4 (arviz.rhat, arviz.ess) for these chains.
BY_ARVIZ = {
    "slow": (lambda: autoregressive(0.9, 4, 500), [1.0383331646, 83.938593, 242.286709, 83.973937]),
    "swinging": (lambda: autoregressive(-0.4, 4, 500, 1), [1.0005994199, 4775.725002, 1834.941293, 4773.969562]),
    "odd": (lambda: autoregressive(0.5, 3, 251, 2), [1.0023617444, 292.506091, 489.237445, 292.587037]),
    "drifting": (_drifting, [1.0385852012, 107.826271, 533.965796, 106.972110]),
    "wider": (_wider, [1.0589058253, 639.340221, 256.158075, 583.955754]),
    "heavy tails": (_heavy, [0.9999093318, 1659.980315, 1529.238965, 1616.052256]),
    "ties": (lambda: np.round(autoregressive(0.8, 4, 300, 6)), [1.0226648050, 144.510532, 258.995091, 142.094580]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(BY_ARVIZ))
def test_diagnostics_are_those_of_arviz(name: str) -> None:
    make, (their_rhat, *sizes) = BY_ARVIZ[name]
    x = make()
    assert rhat(x) == pytest.approx(their_rhat, abs=1e-8)
    # Where correlations stay positive to the last pair, ArviZ leaves that one out: up to one percent.
    assert [float(f(x)) for f in (bulk_ess, tail_ess, mean_ess)] == pytest.approx(sizes, rel=0.01)

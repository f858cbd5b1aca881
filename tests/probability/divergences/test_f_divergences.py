"""The table of f-divergences: values by hand and quadrature, bounds, what a network's output needs; f of one's own."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability import divergences as d

TABLE = list(d.f_divergences)
P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
JSD = 0.09056584
OF_THE_PAIR = {
    "KL": 0.3600624,
    "reverse KL": 0.3948162,
    "Pearson chi-square": 0.7666667,
    "Neyman chi-square": 1.0133333,
    "full squared Hellinger": 0.1848262,
    "squared Hellinger": 0.1848262 / 2,
    "Jeffreys": 0.7548786,
    "2 JSD": 2 * JSD,
    "Jensen-Shannon": JSD,
    "GAN": 2 * JSD - 2 * math.log(2),
    "total variation": 0.4,
}
OF_NORMALS = {
    "KL": 0.4431472,
    "reverse KL": 1.3068528,
    "Pearson chi-square": 0.7440263,
    "full squared Hellinger": 0.2983891,
    "2 JSD": 2 * 0.1281750,
    "total variation": 0.3900657,
}
"""Between N(0, 1) and N(1, 2²)."""


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", TABLE)
def test_three_outcomes_have_the_known_value_and_the_best_critic_reaches_it(name) -> None:
    one = d.f_divergences[name]
    outputs = np.random.default_rng(0).normal(scale=2.0, size=(100, 3))

    @jax.jit
    def found() -> tuple[jax.Array, ...]:
        best = one.critic(jnp.log(P), jnp.log(Q))
        critics, conjugates = (
            one.activation(jnp.asarray(outputs)),
            one.conjugate_of_output(jnp.asarray(outputs)),
        )
        return (
            one.term(jnp.log(P), jnp.log(Q)).sum(),
            P @ best - Q @ one.conjugate(best),
            critics @ P - conjugates @ Q,
            critics.max(),
        )

    value, reached, random, largest = map(np.asarray, found())
    assert value == pytest.approx(OF_THE_PAIR[name], abs=1e-7)
    assert reached == pytest.approx(float(value), abs=1e-12)
    assert (random <= value + 1e-12).all()
    assert largest <= one.below


@pytest.mark.parametrize("name", list(OF_NORMALS))
def test_normals_have_the_known_value_by_quadrature(name) -> None:
    """The trapezium rule, which is as good as exact for smooth functions that vanish at both ends."""
    one = d.f_divergences[name]
    x = np.linspace(-25, 25, 100_001)
    logs = scipy.stats.norm.logpdf(x), scipy.stats.norm.logpdf(x, 1, 2)

    @jax.jit
    def found() -> tuple[jax.Array, jax.Array]:
        # Far out, where no mass lies, the critic of Pearson is huge and the conjugate of rounding is too.
        log_p, log_q = (jnp.maximum(jnp.asarray(log), -200.0) for log in logs)
        best = one.critic(log_p, log_q)
        return one.term(log_p, log_q), jnp.exp(log_p) * best - jnp.exp(log_q) * one.conjugate(best)

    values, bounds = (float(np.trapezoid(np.asarray(one), x)) for one in found())
    assert values == pytest.approx(OF_NORMALS[name], abs=1e-7)
    assert bounds == pytest.approx(values, abs=1e-9)


@pytest.mark.parametrize("name", TABLE)
def test_outputs_of_a_network_are_brought_into_the_domain(name) -> None:
    """f*(g(v)) is what its two halves give, and stays finite where they do not; the threshold is f'(1)."""
    one = d.f_divergences[name]
    v = np.linspace(-6, 6, 61)

    @jax.jit
    def found() -> tuple[jax.Array, ...]:
        critic = one.activation(jnp.asarray(v))
        return critic, one.conjugate(critic), one.conjugate_of_output(jnp.asarray(v))

    critic, apart, together = map(np.asarray, found())
    assert (critic < one.below + 1e-12).all()
    assert (np.diff(critic) > 0).all()
    np.testing.assert_allclose(together, apart, rtol=1e-9, atol=1e-12)
    assert float(one.slope(jnp.ones(()))) == pytest.approx(one.threshold, abs=1e-15)
    assert np.isfinite(one.conjugate_of_output(jnp.float32(30.0)))
    assert (one.remark != "") or one.at_one == 0


def test_the_game_of_gans_says_that_its_divergence_is_shifted() -> None:
    one = d.f_divergences["GAN"]
    assert one.at_one == pytest.approx(-2 * math.log(2))
    assert "2 JSD - 2 log 2" in one.remark
    assert one.domain == "t < 0"


# ---------------------------------------------------------------------- of one's own


@pytest.mark.parametrize("name", ["Neyman chi-square", "KL", "total variation", "2 JSD"])
def test_an_own_f_gets_the_conjugate_the_table_has(name) -> None:
    known = d.f_divergences[name]
    own = d.register(f"own {name}", known.f)
    assert own.below == pytest.approx(known.below)
    t = np.asarray(known.slope(jnp.array([0.1, 0.6, 2.0, 5.0])))
    np.testing.assert_allclose(own.conjugate(jnp.asarray(t)), known.conjugate(jnp.asarray(t)), atol=1e-10)
    if name != "total variation":  # whose conjugate has a corner at both slopes
        derivatives = jax.jit(
            jax.vmap(lambda t: (jax.grad(own.conjugate)(t), jax.hessian(own.conjugate)(t)))
        )(t)
        np.testing.assert_allclose(derivatives[0], [0.1, 0.6, 2.0, 5.0], rtol=1e-8)
        wanted = jax.jit(jax.vmap(jax.hessian(known.conjugate)))(t)
        np.testing.assert_allclose(derivatives[1], wanted, rtol=1e-6)
    log_p, log_q = (jnp.log(jnp.asarray(one)) for one in (P, Q))
    np.testing.assert_allclose(own.term(log_p, log_q).sum(), OF_THE_PAIR[name], atol=1e-7)
    log_p = jnp.array([0.0, -jnp.inf])
    np.testing.assert_allclose(own.term(log_p, log_p[::-1]), known.term(log_p, log_p[::-1]), atol=1e-9)


@pytest.mark.parametrize(
    ("f", "options", "message"),
    [
        ("(u - 1)^2 * (3 - u)", {}, r"not convex at u = 2\.\d+: f\(u\)"),
        ("u*log(u) + 0.5", {}, r"f\(1\) = 0\.5, so equal distributions.*\n.*subtract it: f\(u\) - 0\.5"),
        ("u*log(u)", {"conjugate": lambda t: jnp.exp(t)}, r"f\*\* = f fails at u = 1e-06: f\(u\) = -1\.38"),
        ("log(u - 0.5)", {}, r"f\(1e-06\) is nan; f has to be finite"),
        ("u*log(w)", {}, "has 2 variables"),
        ("import os", {}, "import"),
    ],
)
def test_an_own_f_that_gives_no_bounds_is_refused_with_the_point(f, options, message) -> None:
    before = list(d.f_divergences)
    with pytest.raises(ArgumentError, match=message):
        d.register("refused", f, **options)
    assert list(d.f_divergences) == before

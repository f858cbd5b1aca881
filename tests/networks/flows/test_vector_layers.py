"""Layers of vectors against numbers worked out by hand, closed forms and their own promises."""

import warnings
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.core.types import Array, Float
from chainrule.networks.flows import checking, splines
from chainrule.networks.flows.audit import audit, layers_of, volumes_by_layer
from chainrule.networks.flows.audit_pictures import audit_table
from chainrule.networks.flows.autoregressive import Autoregressive, masked_autoregressive
from chainrule.networks.flows.base import Bijection, Conditions, Events, Mapped
from chainrule.networks.flows.base_distributions import (
    BaseDistribution,
    DiagonalNormal,
    FixedBase,
    FullNormal,
    MixtureOfNormals,
    StandardNormal,
    StudentBase,
)
from chainrule.networks.flows.chain import BijectionChain, Frozen, InvertedBijection, Reshaped
from chainrule.networks.flows.conditioners import AutoregressiveConditioner
from chainrule.networks.flows.couplings import Coupling, check_roles, roles
from chainrule.networks.flows.elementwise import LeakyReLU, ScaleShift, Sigmoid
from chainrule.networks.flows.linear import LULinear, Permutation, ReversedEntries, Triangular
from chainrule.networks.flows.masked import MaskedResidualNetwork
from chainrule.networks.flows.normalization import ActNorm, FlowBatchNorm, held
from chainrule.networks.flows.planar import Planar
from chainrule.networks.flows.synthesisers import (
    AffineSynthesiser,
    CircularSplineSynthesiser,
    SplineSynthesiser,
)
from chainrule.probability import Independent, Uniform

KEY = jax.random.key(0)
ROWS = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)


def shaken(layer: eqx.Module, size: float = 0.3) -> eqx.Module:
    arrays, rest = eqx.partition(layer, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(arrays)
    draw = np.random.default_rng(1)
    moved = [leaf + size * draw.normal(size=leaf.shape).astype(leaf.dtype) for leaf in leaves]
    return eqx.combine(jax.tree.unflatten(structure, moved), rest)


# ---------------------------------------------------------------------- closed forms


def test_a_planar_layer_gives_the_numbers_worked_out_by_hand() -> None:
    with jax.enable_x64(True):
        layer = eqx.tree_at(
            lambda p: (p.w, p.u, p.b),
            Planar(2, KEY),
            (jnp.array([1.0, -2.0]), jnp.array([-3.0, 1.0]), jnp.array(0.3)),
        )
        assert float(layer.w @ layer.direction) == pytest.approx(-0.9932847, abs=1e-7)
        log_det = layer.forward(jnp.array([[0.4, 0.2]])).log_det
        assert float(log_det[0]) == pytest.approx(-2.3968024, abs=1e-7)


def test_a_spline_gives_the_numbers_worked_out_by_hand_and_its_inverse_finds_them_again() -> None:
    with jax.enable_x64(True):
        rows = ([-3.0, -1.0, 0.5, 3.0], [-3.0, -2.0, 1.5, 3.0], [1.0, 0.5, 3.0, 1.0])
        at = splines.Knots(*(jnp.broadcast_to(jnp.array(row)[:, None], (4, 3)) for row in rows))
        x = jnp.array([-2.0, 0.0, 2.0])
        y, log_slope = splines.spline(x, at)
        np.testing.assert_allclose(y, [-2.4, -0.0625, 2.6037736], atol=1e-7)
        np.testing.assert_allclose(np.exp(log_slope), [0.4, 3.0703125, 0.2509790], atol=1e-7)
        back, back_slope = splines.inverse_spline(y, at)
        np.testing.assert_allclose(back, x, atol=1e-12)
        np.testing.assert_allclose(back_slope, -log_slope, atol=1e-12)


def test_splines_are_the_identity_beyond_their_box_and_circular_ones_have_one_slope_at_both_ends() -> None:
    h = jnp.asarray(np.random.default_rng(0).normal(size=(24, 2)), jnp.float32)
    spline = SplineSynthesiser(8, 3.0)
    value, slope = spline.forward(jnp.array([3.5, -40.0]), h[:23])
    assert value.tolist() == [3.5, -40.0]
    assert slope.tolist() == [0.0, 0.0]
    near = jnp.array([-np.pi + 1e-6, np.pi - 1e-6], jnp.float32)
    same = jnp.broadcast_to(h[:, :1], (24, 2))
    value, slope = CircularSplineSynthesiser(8).forward(near, same)
    assert float(slope[0]) == pytest.approx(float(slope[1]), abs=1e-4)
    np.testing.assert_allclose(value, near, atol=1e-4)


def test_the_jacobian_of_a_masked_network_is_strictly_triangular_and_a_condition_reaches_the_first_entry() -> (
    None
):
    for width in (2, 11):
        network = shaken(MaskedResidualNetwork(4, 2, width=width, blocks=1, condition=2, key=KEY))
        assert isinstance(network, MaskedResidualNetwork)

        @eqx.filter_jit
        def derivatives(network: MaskedResidualNetwork) -> tuple[jax.Array, jax.Array]:
            def at(x: jax.Array, c: jax.Array) -> jax.Array:
                return network(x[None], c[None])[:, 0]

            return jax.jacfwd(at, argnums=(0, 1))(jnp.ones(4), jnp.ones(2))

        by_entry, by_condition = map(np.asarray, derivatives(network))
        for numbers in by_entry:
            np.testing.assert_array_equal(np.triu(numbers), 0)
        assert np.abs(np.tril(by_entry[0], -1)).max() > 0
        assert np.abs(by_condition[:, 0]).max() > 0
    # With fewer units than entries, units still see entries from first to last.
    assert MaskedResidualNetwork(9, 1, width=4, blocks=0, key=KEY).degrees.tolist() == [1, 3, 5, 7]


def test_computing_units_once_gives_what_a_pass_for_each_entry_gives() -> None:
    layer = shaken(Autoregressive(4, AffineSynthesiser(), width=10, blocks=2, order=[2, 0, 3, 1], key=KEY))
    assert isinstance(layer, Autoregressive)
    x = jnp.asarray(np.random.default_rng(3).normal(size=(5, 4)), jnp.float32)

    @eqx.filter_jit
    def by_passes(layer: Autoregressive, x: jax.Array) -> jax.Array:
        z = jnp.zeros_like(x)
        for _ in range(4):
            h = layer.parameters(z)
            ordered = layer.synthesiser.inverse(x[:, layer.order], h).value
            z = jnp.zeros_like(z).at[:, layer.order].set(ordered)
        return z

    np.testing.assert_allclose(layer.inverse(x).value, by_passes(layer, x), atol=2e-5)


def test_drawing_from_a_masked_flow_and_judging_with_its_inverse_take_as_many_passes_as_entries() -> None:
    masked = masked_autoregressive(7, width=8, key=KEY)
    assert masked.passes == (7, 1)
    assert InvertedBijection(masked).passes == (1, 7)
    assert BijectionChain([masked, masked]).passes == (14, 2)


def test_an_lu_matrix_is_the_one_it_began_as_and_a_singular_one_is_refused_with_its_smallest_pivot() -> None:
    matrix = np.random.default_rng(0).normal(size=(3, 3))
    layer = LULinear(matrix)
    np.testing.assert_allclose(layer.matrix, matrix, atol=1e-5)
    x, log_det = layer.forward(jnp.asarray(ROWS))
    np.testing.assert_allclose(x, ROWS @ matrix.T, atol=1e-5)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(matrix)[1], atol=1e-5)
    with pytest.raises(ArgumentError, match=r"singular; its smallest \|s\| is 0"):
        LULinear([[1.0, 2.0], [2.0, 4.0]])


# ---------------------------------------------------------------------- norms


def test_actnorm_gives_a_first_batch_mean_zero_and_variance_one_and_names_what_does_not_vary() -> None:
    x = jnp.asarray(3 * ROWS + 5)
    z = ActNorm((3,)).started(x, None).inverse(x).value
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(z.std(axis=0), 1, atol=1e-5)
    with pytest.warns(ChainruleWarning, match="feature 1 varies by less"):
        ActNorm((3,)).started(x.at[:, 1].set(2.0), None)
    # Channels share their numbers over the pixels of an image.
    image = jnp.asarray(ROWS.reshape(8, 2, 4, 3))
    layer = ActNorm((2, 4, 3)).started(image, None)
    np.testing.assert_allclose(layer.inverse(image).log_det, -8 * layer.log_scale.sum(), rtol=1e-5)


def test_batch_norm_trains_by_the_batch_and_judges_each_example_by_itself_from_then_on() -> None:
    x = jnp.asarray(2 * ROWS + 1)
    fresh = FlowBatchNorm((3,))
    (z, log_det), moved = fresh.trained_inverse(x, None, KEY)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(moved.running.mean, 0.1 * x.mean(axis=0), rtol=1e-5)
    settled = fresh.with_moments(x.mean(axis=0), x.var(axis=0))
    np.testing.assert_allclose(settled.inverse(x).value, z, atol=1e-5)
    np.testing.assert_allclose(settled.inverse(x).log_det, log_det, rtol=1e-5)
    few = settled.inverse(x[:5]).value
    np.testing.assert_array_equal(few, settled.inverse(x).value[:5])
    with pytest.raises(ArgumentError, match="a batch of one example") as refused:
        fresh.trained_inverse(x[:1], None, KEY)
    assert "norm=actnorm" in str(refused.value)


def test_frozen_layers_and_running_averages_are_held_and_gradients_pass_through_them() -> None:
    chain = BijectionChain([ScaleShift((3,), 0.5), Frozen(Triangular(3)), FlowBatchNorm((3,))])
    assert [type(one).__name__ for one in held(chain)] == ["Frozen", "RunningMoments"]
    slope = eqx.filter_grad(lambda flow: flow.inverse(jnp.asarray(ROWS)).value.sum())(chain)
    assert np.abs(slope.layers[0].shift).max() > 0
    assert not np.abs(slope.layers[1].layer.log_diagonal).any()


# ---------------------------------------------------------------------- roles, shapes, edges


def test_roles_take_turns_and_stacks_that_leave_an_entry_alone_are_refused() -> None:
    for split in ("halves", "alternate", "random"):
        first, second, third = roles(split, 5, 3, KEY)
        assert [a != b for a, b in zip(first, second, strict=True)] == [True] * 5
        assert 0 < sum(third) < 5
    with pytest.raises(ArgumentError, match="entry 1 is not moved by any of 2 layers"):
        check_roles([(True, False, False), (True, False, True)])
    with pytest.raises(ArgumentError, match="one entry has no others") as refused:
        Coupling([True], AffineSynthesiser(), key=KEY)
    assert "maf or spline-flow" in str(refused.value)
    with pytest.raises(ArgumentError, match='split must be "halves", "alternate" or "random"'):
        roles("thirds", 3, 2, KEY)


def test_what_does_not_fit_is_refused_by_name() -> None:
    for wrong, said in (
        (lambda: BijectionChain([]), "at least one layer"),
        (lambda: BijectionChain([Sigmoid((2,)), Sigmoid((3,))]), "layer 1 maps events of shape"),
        (lambda: Permutation([0, 0]), "is no order"),
        (lambda: LeakyReLU((2,), -1.0), "only a positive slope"),
        (lambda: AffineSynthesiser(0.0), "positive bound"),
        (lambda: SplineSynthesiser(1), "bins must be a whole number of at least 2"),
        (lambda: SplineSynthesiser(8, -1.0), "positive size"),
        (lambda: Reshaped(Sigmoid((3,)), (2, 2)), "are not vectors"),
        (lambda: Autoregressive(3, AffineSynthesiser(), order=[0, 1, 1], key=KEY), "no order of 3 entries"),
        (
            lambda: checking.mapped(Sigmoid((2,)), np.zeros((4, 3))),
            r"given, the flow maps those of shape \(2,\)",
        ),
        (lambda: checking.mapped(Sigmoid((1,)), [[0.5], [np.inf]]), r"entry \[1, 0\] is inf"),
        (lambda: checking.mapped(Sigmoid((1,)), [[0.5]], direction="up"), "direction must be"),
        (lambda: StudentBase((1,), 0.5), "no mean"),
        (lambda: DiagonalNormal((2,), 3).log_prob(jnp.zeros((1, 2))), "none was given"),
    ):
        with pytest.raises(ArgumentError, match=said):
            wrong()


# ---------------------------------------------------------------------- distributions of codes


def test_distributions_of_codes_have_the_densities_of_scipy_and_draw_from_them() -> None:
    z = ROWS[:4, :2]
    full = eqx.tree_at(lambda p: p.below, FullNormal((2,)), jnp.full((2, 2), 0.7))
    spread = np.asarray(full.factor) @ np.asarray(full.factor).T
    mixture = MixtureOfNormals((2,), 3, KEY)
    normal = scipy.stats.multivariate_normal
    distributions: list[tuple[BaseDistribution, np.ndarray]] = [
        (StandardNormal((2,)), normal(np.zeros(2)).logpdf(z)),
        (DiagonalNormal((2,)), normal(np.zeros(2)).logpdf(z)),
        (full, normal(np.zeros(2), spread).logpdf(z)),
        (StudentBase((2,), 4.0), scipy.stats.t(4.0).logpdf(z).sum(axis=1)),
        (mixture, np.log(np.mean([normal(m).pdf(z) for m in np.asarray(mixture.means)], axis=0))),
        (FixedBase(Independent(Uniform(jnp.full(2, -9.0), jnp.full(2, 9.0)))), np.full(4, -2 * np.log(18))),
    ]
    for distribution, expected in distributions:
        np.testing.assert_allclose(distribution.log_prob(jnp.asarray(z)), expected, rtol=2e-5)
        still = distribution.draw(KEY, 3, temperature=0.0)
        assert still.shape == (3, 2)
        assert np.ptp(np.asarray(still), axis=0).max() < 1e-6 or isinstance(distribution, MixtureOfNormals)
    by_condition = DiagonalNormal((2,), 1)
    by_condition = eqx.tree_at(lambda p: p.given.weight, by_condition, jnp.ones((1, 4)))
    draws = by_condition.draw(KEY, 2, jnp.array([[0.0], [9.0]]), temperature=0.0)
    assert draws.tolist() == [[0.0, 0.0], [9.0, 9.0]]


def test_parameters_of_the_base_have_their_gradient_from_the_base_alone() -> None:
    flow, distribution = ScaleShift((2,), 0.3), DiagonalNormal((2,))

    def cost(distribution: DiagonalNormal) -> jax.Array:
        z, log_det = flow.inverse(jnp.asarray(ROWS[:, :2]))
        return -(distribution.log_prob(z) + log_det).mean()

    z = np.asarray(flow.inverse(jnp.asarray(ROWS[:, :2])).value)
    np.testing.assert_allclose(eqx.filter_grad(cost)(distribution).mean, -z.mean(axis=0), atol=1e-5)


# ---------------------------------------------------------------------- audit


@final
class Broken(Bijection):
    """A scale of two that says that it changes no volume."""

    shape: tuple[int, ...] = (2,)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        del condition
        return Mapped(2 * z, jnp.zeros(len(z)))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        del condition
        return Mapped(x / 2, jnp.zeros(len(x)))


@final
class Leaking(AutoregressiveConditioner):
    """The same numbers for all entries, made of all of them."""

    def __call__(
        self, x: Float[Array, "batch entries"], condition: Conditions = None
    ) -> Float[Array, "numbers batch entries"]:
        del condition
        every = jnp.broadcast_to(0.1 * x.sum(axis=1, keepdims=True), x.shape)
        return jnp.stack([every, every])


def test_an_audit_passes_a_flow_that_is_right_and_names_the_layer_that_is_not() -> None:
    x = jnp.asarray(ROWS[:, :2])
    right = BijectionChain([ScaleShift((2,), 0.5), ReversedEntries(2)])
    found = audit(right, StandardNormal((2,)), x, KEY)
    assert found.failures == []
    assert found.mass.value == pytest.approx(1, abs=1e-3)
    assert found.whole.largest_log_scale == pytest.approx(0.5, abs=1e-4)
    wrong = audit(BijectionChain([right, Broken()]), StandardNormal((2,)), x, KEY)
    assert [one.split(":")[0] for one in wrong.failures if "layer" in one] == ["layer 3, Broken"]
    assert any("total probability 4.0" in one for one in wrong.failures), wrong.failures
    assert "double precision" in wrong.remedy
    assert len(layers_of(BijectionChain([right, Broken()]))) == 3
    names, volumes = volumes_by_layer(right, x)
    assert list(names) == ["2 ReversedEntries", "1 ScaleShift"]
    np.testing.assert_allclose(volumes.sum(axis=0), right.inverse(x).log_det, atol=1e-6)


@final
class Pointed(Bijection):
    """The identity, with a slope that is not a number."""

    shape: tuple[int, ...] = (2,)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        del condition
        return Mapped(z, jnp.zeros(len(z)))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        del condition
        return Mapped(x + jnp.sqrt(0 * jnp.abs(x)), jnp.zeros(len(x)))


@final
class Reaching(Bijection):
    """The identity, which claims some volume beyond a distance of two."""

    shape: tuple[int, ...] = (2,)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        del condition
        return Mapped(z, jnp.where(jnp.square(z).sum(axis=1) > 4, 0.1, 0.0))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        return self.forward(x, condition)


def test_an_audit_names_the_layer_that_is_off_far_out_alone() -> None:
    x = jnp.asarray(0.1 * ROWS[:, :2])
    flow = BijectionChain([ReversedEntries(2), Reaching()])
    found = audit(flow, StandardNormal((2,)), x, KEY)
    assert [part.name for part in found.far_layers] == ["layer 2, Reaching, of codes at distance 3"]
    assert not any(part.failures(found.tolerance) for part in (*found.layers, found.whole))
    assert "layer 2, Reaching, of codes at distance 3: the volumes of the two directions do not cancel" in (
        " ".join(found.failures)
    )
    assert audit_table(found).rows[-1][0] == "layer 2, Reaching, of codes at distance 3"
    assert audit(ReversedEntries(2), StandardNormal((2,)), x, KEY).far_layers == ()


def test_an_audit_names_masks_that_leak_and_slopes_that_are_not_numbers() -> None:
    """A layer that says it is autoregressive, whose entries all see each other; and values that hide their slope."""
    x = jnp.asarray(ROWS[:, :2])
    leaking = Autoregressive(2, AffineSynthesiser(), network=Leaking(), key=KEY)
    found = audit(leaking, StandardNormal((2,)), x, KEY)
    assert any("an entry depends on later ones" in one for one in found.failures), found.failures
    assert float(audit_table(found).rows[0][5]) > 0.01
    assert audit(Pointed(), StandardNormal((2,)), x, KEY).failures[0] == (
        "layer 1, Pointed: the volume is not that of the Jacobian: off by inf"
    )


def test_total_probability_of_many_dimensions_is_weighed_and_says_when_too_few_draws_count() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = audit(Triangular(5), StandardNormal((5,)), jnp.zeros((4, 5)), KEY)
    assert found.mass.method == "weighted draws"
    assert abs(found.mass.value - 1) < 5 * found.mass.standard_error
    assert found.mass.conclusive
    assert found.mass._replace(effective=3.0).is_off is False

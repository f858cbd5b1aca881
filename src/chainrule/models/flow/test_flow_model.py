"""What all flows share: exact densities that agree both ways, conditions, temperature, starts, reverse divergence."""

import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import chainrule as cr
from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError, ChainruleWarning, DivergedError
from chainrule.core.pictures import Scatter
from chainrule.data import Batch, Schema
from chainrule.data.generated.known_entropy import entropy_of
from chainrule.explain.probes.audit import audited
from chainrule.models.flow import fit_density, pictures, plane, reverse_divergence
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.settings import FlowConfig, base_distribution
from chainrule.networks.flows import normalization
from chainrule.networks.flows.audit import layers_of
from chainrule.networks.flows.audit_pictures import audit_table
from chainrule.networks.flows.base_distributions import StandardNormal
from chainrule.networks.flows.chain import BijectionChain
from chainrule.networks.flows.elementwise import ScaleShift, Sigmoid
from chainrule.networks.flows.linear import Triangular
from chainrule.networks.flows.normalization import ActNorm, FlowBatchNorm
from chainrule.report.densities import with_entropy
from chainrule.report.gallery import learning_curves
from chainrule.train.scores import exact_likelihood
from chainrule.train.scoring import Evaluation

KEY = jax.random.key(0)
TABLE = Schema("table", (3,))
SMALL = {"layers": 2, "width": 8, "blocks": 1}
ROWS = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)


def build(name: str, schema: Schema = TABLE, **settings: object) -> FlowModel:
    model = models.build(name, schema, **settings)
    assert isinstance(model, FlowModel)
    return model


def trained(model: FlowModel, batch: Batch, steps: int = 20) -> FlowModel:
    """A few large steps, so that nothing is at its start any more."""

    @eqx.filter_jit
    def step(model: FlowModel, key: jax.Array) -> FlowModel:
        slope = eqx.filter_grad(lambda m: m.loss_and_state(batch, key)[0])(model)
        return eqx.apply_updates(model, jax.tree.map(lambda g: -0.02 * g, slope))

    for k in jax.random.split(KEY, steps):
        model = step(model, k)
    return model


def test_draws_carry_the_density_that_their_codes_and_their_values_give() -> None:
    model = trained(build("maf", **SMALL), Batch(jnp.asarray(ROWS)), 5)
    drawn = eqx.filter_jit(lambda m: m.sample_and_log_prob(KEY, 16))(model)
    judge, encode, decode = (eqx.filter_jit(f) for f in (model.log_prob, model.encode, model.decode))
    np.testing.assert_allclose(judge(drawn.x), drawn.log_prob, atol=2e-4)
    np.testing.assert_allclose(encode(drawn.x), drawn.z, atol=2e-4)
    np.testing.assert_allclose(decode(drawn.z), drawn.x, atol=2e-4)
    np.testing.assert_array_equal(model.sample(KEY, 16), np.asarray(drawn.x))
    assert "6 passes of networks" in model.sample_caption()
    assert "not the distribution of the model" in model.sample_caption(temperature=0.7)


def test_codes_as_a_flow_gives_them_lead_back_on_one_scale_as_on_several() -> None:
    model = FlowModel(ScaleShift((3,), 0.5, 1.0), StandardNormal((3,)), None, FlowConfig(), TABLE)
    x = jnp.asarray(ROWS[:2])
    codes = model.codes(x)
    assert [code.shape for code in codes] == [x.shape]
    np.testing.assert_allclose(model.decode(codes), x, atol=1e-6)
    with pytest.raises(ArgumentError, match=r"decode: events of shape \(2, 3\) were given"):
        model.decode([codes[0], codes[0]])


def test_shapes_and_values_are_checked_at_the_edge_and_codes_of_another_size_name_the_vae() -> None:
    model = build("realnvp", layers=2, width=8)
    with pytest.raises(ArgumentError, match=r"log_prob: events of shape \(2,\) were given"):
        model.log_prob(jnp.zeros((4, 2)))
    with pytest.raises(ArgumentError, match=r"entry \[0, 1\] is nan"):
        model.encode(jnp.asarray([[0.0, np.nan, 0.0]]))
    with pytest.raises(ArgumentError, match="codes as large as they are") as refused:
        FlowModel(ScaleShift((2,)), StandardNormal((2,)), None, FlowConfig(), TABLE)
    assert "train a vae" in str(refused.value)
    with pytest.raises(CapabilityError, match="knows no conditions"):
        model.sample(KEY, 2, condition=0)


def test_a_conditional_flow_tells_classes_apart_in_every_base_and_layer() -> None:
    schema = Schema("points", (2,), "class", classes=("low", "high"))
    y = np.arange(64) % 2
    x = (np.random.default_rng(1).normal(size=(64, 2)) + 4.0 * y[:, None]).astype(np.float32)
    batch = Batch(jnp.asarray(x), jnp.asarray(y))
    for name, more in (("maf", SMALL), ("realnvp", {"layers": 2, "width": 8, "base": "diagonal"})):
        model = trained(build(name, schema, conditional=True, condition_width=8, **more), batch, 60)
        low, high = (np.asarray(model.sample(KEY, 256, condition=c)).mean() for c in ("low", "high"))
        assert high - low > 2, (name, low, high)
        own = model.log_prob(batch.x, condition=y)
        assert float((own - model.log_prob(batch.x, condition=1 - y)).mean()) > 1
        np.testing.assert_allclose(model.log_prob_given(batch), own, rtol=1e-4)
    with pytest.raises(ArgumentError, match="no targets to be told"):
        build("maf", conditional=True)


def test_the_report_audits_a_conditional_flow_under_the_conditions_of_its_examples() -> None:
    x = np.random.default_rng(1).normal(size=(96, 3))
    data = cr.data.from_arrays(x, np.arange(96) % 2)
    seen = data.train.batch(range(32))
    batch = Batch(jnp.asarray(seen.x), jnp.asarray(seen.y))
    model = trained(build("maf", data.schema, conditional=True, **SMALL), batch)
    held = data.held_out()[0].batch(range(len(data.held_out()[0])))
    shown = pictures.all_of(model, data, KEY)[-1]
    key = jax.random.split(KEY, 3)[1]
    x = jnp.asarray(held.x)
    assert shown == audit_table(model.audit(x, key, held.y))
    assert shown != audit_table(model.audit(x, key))


def test_in_double_precision_an_audit_tells_rounding_from_a_map_that_is_wrong() -> None:
    model = FlowModel(ScaleShift((3,), 3.3), StandardNormal((3,)), None, FlowConfig(), TABLE)
    x = 1e3 * jnp.asarray(ROWS)
    single, double = (audited(model, x, KEY, None, double=double) for double in (False, True))
    assert (single.tolerance, double.tolerance) == (1e-4, 1e-9)
    assert 1e-9 < single.whole.inverse_error < 1e-4
    assert double.failures == []


def test_linear_conditioners_reach_the_likelihood_of_the_best_gaussian() -> None:
    """One affine layer without hidden units that bend: the fit of a Gaussian by maximum likelihood."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 3)) @ np.array([[1.0, 0.5, 0.2], [0.0, 0.7, -0.4], [0.0, 0.0, 1.5]])
    covariance = np.cov(x.T, bias=True)
    best = 1.5 * (1 + math.log(2 * math.pi)) + 0.5 * np.linalg.slogdet(covariance)[1]
    with jax.enable_x64(True):
        rows = jnp.asarray(x - x.mean(axis=0))

        # A triangular map is an autoregressive layer whose conditioner is linear; its shifts are those of x_<i.
        def cost(layer: Triangular) -> jax.Array:
            z, log_det = layer.inverse(rows)
            return -(StandardNormal((3,)).log_prob(z) + log_det).mean()

        @eqx.filter_jit
        def step(layer: Triangular) -> Triangular:
            return eqx.apply_updates(layer, jax.tree.map(lambda g: -0.2 * g, eqx.filter_grad(cost)(layer)))

        layer = Triangular(3)
        for _ in range(400):
            layer = step(layer)
        assert float(cost(layer)) == pytest.approx(best, abs=1e-4)


def test_the_same_density_behind_a_standardising_or_logit_layer_gives_the_same_numbers() -> None:
    x = jnp.asarray(np.random.default_rng(0).uniform(0.05, 0.95, size=(8, 3)), jnp.float32)
    codes = StandardNormal((3,))
    plain = ScaleShift((3,), math.log(0.2), 0.5)
    split = BijectionChain([ScaleShift((3,), math.log(2.0), 1.0), ScaleShift((3,), math.log(0.1), 0.4)])
    squares = np.square((np.asarray(x) - 0.5) / 0.2).sum(axis=1)
    expected = -0.5 * squares - 3 * math.log(0.2 * math.sqrt(2 * math.pi))
    for one in (plain, split):
        z, log_det = one.inverse(x)
        np.testing.assert_allclose(codes.log_prob(z) + log_det, expected, rtol=1e-4)
    # A uniform density, as the sigmoid of logistic codes: log-density 0 everywhere inside.
    base = base_distribution(FlowConfig(base="logistic"), TABLE, KEY)
    z, log_det = Sigmoid((3,)).inverse(x)
    np.testing.assert_allclose(base.log_prob(z) + log_det, 0, atol=1e-5)


def test_training_begins_with_moments_of_the_data() -> None:
    data = cr.data.load("moons", n=200)
    norm = cr.models.build("maf", data, **SMALL).bijection.layers.layers[-1]
    assert isinstance(norm, ActNorm)
    first = data.train.batch(np.arange(len(data.train))).x
    np.testing.assert_allclose(norm.shift[-1], first.mean(axis=0), atol=1e-3)


def test_a_flow_of_few_rows_begins_as_the_gaussian_that_fits_them() -> None:
    mixed = np.random.default_rng(0).normal(size=(80, 4)) @ np.tril(np.ones((4, 4))) + 3
    data = cr.data.from_arrays(mixed.astype(np.float32), kind="table")
    model = cr.models.build("realnvp", data, layers=2, width=8)
    assert isinstance(model, FlowModel)
    assert model.config.whiten
    rows = jnp.asarray(data.train.batch(np.arange(len(data.train))).x)
    fitted = multivariate_normal(rows.mean(axis=0), np.cov(rows.T, bias=True))
    assert float(model.log_prob(rows).mean()) == pytest.approx(fitted.logpdf(rows).mean(), abs=0.1)
    before = model.bijection.layers[-1].layer.matrix
    after = trained(model, Batch(rows), steps=1).bijection.layers[-1].layer.matrix
    np.testing.assert_array_equal(after, before)


@pytest.mark.slow
def test_a_resumed_run_keeps_its_norms_and_is_shown_in_the_plane(tmp_path: Path) -> None:
    data = cr.data.load("moons", n=200)
    settings = {"batch": 32, "log_every": 5, "eval_every": 5, "save_every": 5}
    run = cr.fit(cr.models.build("maf", data, **SMALL), data, run=tmp_path / "a", steps=5, **settings)
    further = cr.fit(run.model, data, run=tmp_path / "a", steps=10, **settings)
    before, after = (one.model.bijection.layers.layers[-1].shift for one in (run, further))
    assert 0 < np.abs(after - before).max() < 0.05
    pictures = run.model.pictures(data, KEY)
    assert {"panel-data", "density", "warped-grid", "code-quantiles", "layer-volumes", "audit"} <= {
        one.name for one in pictures
    }


def test_planes_are_drawn_in_the_units_and_by_the_names_of_the_data(tmp_path: Path) -> None:
    rows = np.array([170.0, 70.0]) + np.random.default_rng(0).normal(size=(100, 2)) * [8.0, 12.0]
    np.savetxt(tmp_path / "people.csv", rows, "%.6f", ",", header="height,weight", comments="")
    data = cr.data.load(tmp_path / "people.csv", target="none")
    x = jnp.asarray(data.train.batch(np.arange(len(data.train))).x, jnp.float32)
    model = FlowModel(ScaleShift((2,)), StandardNormal((2,)), None, FlowConfig(), data.schema)
    found = {one.name: one for one in plane.pictures(model, data, x, KEY)}
    for name in ("panel-data", "panel-draws", "density"):
        picture = found[name]
        assert isinstance(picture, Scatter)
        assert (picture.x_label, picture.y_label) == ("height", "weight")
        middle = np.concatenate(list(picture.groups.values())).mean(axis=0)
        np.testing.assert_allclose(middle, [170, 70], atol=5)
    density = found["density"]
    assert isinstance(density, Scatter)
    assert density.extent[0] < 160
    assert density.extent[1] > 180


def test_batch_norm_is_state_that_training_moves_and_judging_leaves() -> None:
    model = build("realnvp", Schema("table", (2,)), layers=2, width=8, norm="batch")
    batch = Batch(jnp.asarray(3 * ROWS[:, :2] + 1))
    _, _, moved = eqx.filter_jit(model.loss_and_state)(batch, KEY)
    (norms,) = (one for one in moved.bijection.layers.layers if isinstance(one, FlowBatchNorm))
    assert len(moved.state()) == 1
    assert norms.running.mean.shape == (2, 2)
    assert np.abs(norms.running.mean[-1] - 0.3 * batch.x.mean(axis=0) / 3).max() < 0.1
    judge = eqx.filter_jit(lambda m, x: m.log_prob(x))
    np.testing.assert_allclose(judge(moved, batch.x[:4]), judge(moved, batch.x)[:4], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings"), [("realnvp", {"layers": 2, "width": 8}), ("maf", SMALL | {"condition_width": 4})]
)
def test_moments_of_batch_norms_are_those_of_all_training_examples(
    name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layer after layer, however many examples are mapped at a time."""
    data = cr.data.load("moons", n=200)
    model = build(name, data.schema, norm="batch", conditional=True, **settings)
    monkeypatch.setattr(normalization, "_AT_ONCE", 64)
    found = model.with_moments_of(data.train)
    x = jnp.asarray(data.train.batch(np.arange(len(data.train))).x)
    y = jnp.asarray(data.train.batch(np.arange(len(data.train))).y)
    given = found._encoded(y, len(x))
    for layer in reversed(layers_of(found.bijection)):
        if isinstance(layer, FlowBatchNorm):
            np.testing.assert_allclose(layer.running.mean, x.mean(axis=0), atol=1e-5)
            np.testing.assert_allclose(layer.running.variance, x.var(axis=0), rtol=1e-3)
            assert layer.new_weight == 0.1
        x = layer.inverse(x, given).value
    assert jax.tree.structure(found) == jax.tree.structure(model)


def test_a_run_with_batch_norms_reports_numbers_by_the_moments_of_the_whole_training_set(
    tmp_path: Path,
) -> None:
    data = cr.data.load("moons", n=200)
    model = cr.models.build("realnvp", data, layers=2, width=8, norm="batch")
    pace = {"batch": 16, "log_every": 10, "eval_every": 10, "save_every": 7, "keep": 9}
    run = cr.fit(model, data, run=tmp_path / "a", steps=20, ema=0.9, **pace)
    for step in run.checkpoints:
        saved = run.model_at(step)
        settled = saved.with_moments_of(data.train)
        for one, other in zip(saved.state(), settled.state(), strict=True):
            np.testing.assert_allclose(one.mean, other.mean, atol=1e-5)
            np.testing.assert_allclose(one.variance, other.variance, rtol=1e-4)
    x = jnp.asarray(data.test.batch(np.arange(len(data.test))).x)
    expected = data.nats(eqx.filter_jit(run.model.with_moments_of(data.train).log_prob)(x)).mean()
    judged = Evaluation(run.model, data, data.test, len(data.test), KEY)
    scores, entropy = exact_likelihood.score.measure(judged), entropy_of(data.source)
    assert scores["nll"].value == pytest.approx(expected, rel=1e-5)
    assert scores["kl_from_data"].value == pytest.approx(expected - entropy, rel=1e-5)
    (curve,) = (one for one in learning_curves(run) if one.name == "curve-loss")
    beside = with_entropy(curve, run)
    assert beside.y_label == "nats per example"
    assert list(beside.series) == ["training", "validation", f"entropy {entropy:.3f}"]
    assert set(beside.series[f"entropy {entropy:.3f}"][1].tolist()) == {entropy}
    kept = jax.tree.map(jnp.asarray, data.val.batch(np.arange(len(data.val))))
    evaluated = run.metrics["loss"][run.metrics["step"] == run.step][-1]
    assert evaluated == pytest.approx(float(eqx.filter_jit(run.model.loss)(kept, KEY)[0]), rel=1e-4)


def test_a_batch_of_one_example_is_refused_where_norms_need_more(tmp_path: Path) -> None:
    data = cr.data.load("moons", n=50)
    model = cr.models.build("realnvp", data, layers=2, width=8, norm="batch")
    for given in ({"batch": 1}, {"batch": 4, "accumulate": 4}):
        with pytest.raises(ArgumentError, match=r"batch=\d.*2 examples or more"):
            cr.fit(model, data, run=tmp_path / "a", steps=2, **given)
    assert not (tmp_path / "a").exists()


# ---------------------------------------------------------------------- densities without data


def test_the_path_gradient_is_zero_where_flow_and_target_agree_and_the_plain_one_is_not() -> None:
    def target(x: jax.Array) -> jax.Array:
        return math.log(7.3) + StandardNormal((1,)).log_prob(x)

    z = jax.random.normal(KEY, (64, 1))
    found = {}
    for kind in ("path", "total"):

        @eqx.filter_jit
        def both(layer: ScaleShift, kind: str = kind) -> tuple[jax.Array, ScaleShift]:
            return eqx.filter_value_and_grad(
                lambda one: reverse_divergence(one, StandardNormal((1,)), target, z, gradient=kind)
            )(layer)

        value, slope = both(ScaleShift((1,)))
        assert float(value) == pytest.approx(-1.9878743, abs=1e-6)
        found[kind] = max(abs(float(slope.log_scale[0])), abs(float(slope.shift[0])))
    assert found["path"] < 1e-6
    assert found["total"] > 1e-3
    fit = fit_density(target, ScaleShift((1,)), key=KEY, steps=10, draws=500)
    assert fit.log_partition == pytest.approx(1.9878743, abs=1e-5)
    assert fit.effective_share == pytest.approx(1.0, abs=1e-4)
    assert float(fit.expectation(lambda x: x[:, 0] ** 2)) == pytest.approx(1.0, abs=0.2)


def test_reverse_divergence_seeks_one_of_two_modes_and_other_starts_disagree() -> None:
    def target(x: jax.Array) -> jax.Array:
        each = [-0.5 * jnp.square((x[:, 0] - at) / 0.5) for at in (-3.0, 3.0)]
        return jnp.logaddexp(*each) + math.log(0.5 / (0.5 * math.sqrt(2 * math.pi)))

    with pytest.warns(ChainruleWarning, match="nats apart: this divergence seeks modes"):
        found = fit_density(
            target, ScaleShift((1,)), key=jax.random.key(3), steps=600, lr=0.03, draws=500, starts=3
        )
    layer = found.bijection
    assert isinstance(layer, ScaleShift)
    assert abs(float(layer.shift[0])) == pytest.approx(3, abs=0.05)
    assert float(jnp.exp(layer.log_scale[0])) == pytest.approx(0.5, abs=0.05)
    assert float(found.losses[-60:].mean()) == pytest.approx(math.log(2), abs=0.02)


def test_maximum_likelihood_covers_both_of_two_modes() -> None:
    """The same target by its draws: the best of one affine layer has its mean and its deviation."""
    at, shares = np.polynomial.hermite_e.hermegauss(8)
    x = jnp.asarray(np.concatenate([0.5 * at - 3, 0.5 * at + 3])[:, None], jnp.float32)
    shares = jnp.asarray(np.tile(shares / shares.sum() / 2, 2), jnp.float32)

    @eqx.filter_jit
    def both(layer: ScaleShift) -> tuple[jax.Array, ScaleShift]:
        def cost(layer: ScaleShift) -> jax.Array:
            z, log_det = layer.inverse(x)
            return -shares @ (StandardNormal((1,)).log_prob(z) + log_det)

        return eqx.filter_value_and_grad(cost)(layer)

    least, slope = both(ScaleShift((1,), math.log(3.0413813)))
    np.testing.assert_allclose([slope.shift[0], slope.log_scale[0]], 0, atol=1e-5)
    for log_scale in (math.log(2.9), math.log(3.2)):
        assert float(both(ScaleShift((1,), log_scale))[0]) > float(least)


def test_a_target_that_is_not_a_number_stops_the_fit_with_the_point() -> None:
    def target(x: jax.Array) -> jax.Array:
        return jnp.where(x[:, 0] > 2.0, jnp.nan, -jnp.square(x[:, 0]))

    with pytest.raises(DivergedError, match=r"the target is nan at \[2\."):
        fit_density(
            target, ScaleShift((1,)), key=KEY, steps=40, batch=8
        )  # no such draw is in the first batch


def test_a_target_that_is_no_density_of_each_draw_is_refused() -> None:
    layer = ScaleShift((2,))
    with pytest.raises(ArgumentError, match=r"gives shape \(8, 2\) for 8 draws of shape \(2,\)\n.*sum over"):
        fit_density(lambda x: -jnp.square(x), layer, key=KEY, batch=8)
    with pytest.raises(ArgumentError, match=r"gives shape \(\) for 8 draws"):
        fit_density(lambda x: -jnp.square(x).sum(), layer, key=KEY, batch=8)


def test_a_whole_model_in_place_of_its_bijection_is_refused_in_words() -> None:
    model = FlowModel(ScaleShift((2,)), StandardNormal((2,)), None, FlowConfig(), Schema("points", (2,)))

    def target(x: jax.Array) -> jax.Array:
        return -jnp.square(x).sum(axis=1)

    z = jnp.zeros((4, 2))
    for wrong, where in (
        (lambda: fit_density(target, model, key=KEY), "fit_density"),
        (lambda: reverse_divergence(model, model.base, target, z), "reverse_divergence"),
    ):
        with pytest.raises(
            ArgumentError, match=rf"{where}\(bijection\): a FlowModel is no bijection"
        ) as refused:
            wrong()
        assert "model.bijection and model.base" in str(refused.value)

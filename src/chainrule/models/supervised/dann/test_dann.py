"""The domain-adversarial network: each part gets the gradient it should, the ramp, few labels, and distances."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Schema
from chainrule.data.batches import Domains
from chainrule.kernels.alignment import coral_alignment
from chainrule.models.protocol import parts_of
from chainrule.models.supervised.dann import pictures
from chainrule.models.supervised.dann.model import DANN, mmd
from chainrule.train.config import LearningRateSchedule
from chainrule.train.schedules import schedule

SCHEMA = Schema("points", (2,), target="class", classes=("a", "b"))
KEY = jax.random.key(0)


def build(**settings: Any) -> DANN:
    model = models.build("dann", SCHEMA, **{"layers": (6, 5), "discriminator": (4,), **settings})
    assert isinstance(model, DANN)
    return model


def batch(n: int = 8, known: int = 0) -> Batch:
    noise = np.random.default_rng(0)
    x, other = (noise.normal(size=(n, 2)).astype(np.float32) for _ in range(2))
    y = jnp.asarray(np.arange(n) % 2, jnp.int32)
    given = jnp.where(jnp.arange(n) < known, y, -1)
    return Batch(jnp.asarray(x), Domains(y, jnp.asarray(other), given))


def losses_apart(model: DANN, examples: Batch) -> tuple[Any, Any]:
    """The losses of classes and of domains as functions of the network and of the discriminator, nothing reversed."""

    def of_classes(network: Any) -> jax.Array:
        out = network.logits(network.hidden(examples.x))
        return -jnp.take_along_axis(jax.nn.log_softmax(out), examples.y.y[:, None], axis=1).mean()

    def of_domains(network: Any, layers: Any) -> jax.Array:
        means = []
        for x, sign in ((examples.x, -1.0), (examples.y.x, 1.0)):
            h = network.hidden(x)[network.position]
            for layer in layers[:-1]:
                h = jax.nn.relu(layer(h))
            means.append(jax.nn.softplus(-sign * layers[-1](h)[:, 0]).mean())
        return means[0] + means[1]

    return of_classes, of_domains


@pytest.mark.parametrize("progress", [0.0, 0.3, 1.0])
def test_features_climb_what_the_discriminator_descends(progress: float) -> None:
    model, examples = build(strength=0.7), batch()
    of_classes, of_domains = losses_apart(model, examples)
    grads = eqx.filter_grad(lambda model: model.loss_at(examples, KEY, progress)[0])(model)
    lam = 0.7 * (2 / (1 + np.exp(-10 * progress)) - 1)
    on_classes = eqx.filter_grad(of_classes)(model.network)
    on_domains = eqx.filter_grad(of_domains)(model.network, model.discriminator)
    for name, found in tree.named_leaves(grads.network):
        expected = dict(tree.named_leaves(on_classes))[name] - lam * dict(tree.named_leaves(on_domains))[name]
        np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=name)
    own = eqx.filter_grad(lambda layers: of_domains(model.network, layers))(model.discriminator)
    for (name, found), (_, expected) in zip(
        tree.named_leaves(grads.discriminator), tree.named_leaves(own), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=name)


def test_gradients_are_those_of_torch(oracle: Any) -> None:
    torch = oracle("torch")
    model, examples, lam = build(ramp=False, strength=0.7), batch(), 0.7

    def parameter(array: Any) -> Any:
        return torch.tensor(np.array(array), requires_grad=True)

    layers = {
        name: [(parameter(layer.weight), parameter(layer.bias)) for layer in part]
        for name, part in (
            ("dense", model.network.dense),
            ("classifier", model.network.classifier),
            ("domain", model.discriminator),
        )
    }
    x, other = (torch.tensor(np.array(a)) for a in (examples.x, examples.y.x))

    class Reversal(torch.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, h: Any) -> Any:
            return h

        @staticmethod
        def backward(ctx: Any, slope: Any) -> Any:
            return -lam * slope

    h = torch.cat([x, other])
    for weight, bias in layers["dense"]:
        h = torch.relu(h @ weight + bias)
    ((weight, bias),) = layers["classifier"]
    classes = torch.nn.functional.cross_entropy(
        h[:8] @ weight + bias, torch.tensor(np.array(examples.y.y)).long()
    )
    seen = Reversal.apply(h)
    first, last = layers["domain"]
    logits = (torch.relu(seen @ first[0] + first[1]) @ last[0] + last[1])[:, 0]
    bce = torch.nn.functional.binary_cross_entropy_with_logits
    (classes + bce(logits[:8], torch.zeros(8)) + bce(logits[8:], torch.ones(8))).backward()
    grads = eqx.filter_grad(lambda model: model.loss(examples, KEY)[0])(model)
    ours = [*grads.network.dense, *grads.network.classifier, *grads.discriminator]
    theirs = [*layers["dense"], *layers["classifier"], *layers["domain"]]
    for mine, (weight, bias) in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.weight, weight.grad.numpy(), atol=1e-5)
        np.testing.assert_allclose(mine.bias, bias.grad.numpy(), atol=1e-5)


def test_the_weight_rises_and_the_rate_falls_as_published() -> None:
    shares = np.array([0, 0.1, 0.25, 0.5, 1.0])
    weights = [float(build().strength(share)) for share in shares]
    np.testing.assert_allclose(weights, [0, 0.462117, 0.848284, 0.986614, 0.999909], atol=1e-6)
    rate = schedule(LearningRateSchedule(name="inverse"), 1000)
    rates = [0.01 * float(rate(round(1000 * share))) for share in shares]
    np.testing.assert_allclose(rates, [0.01, 0.005946, 0.003908, 0.002608, 0.001656], atol=1e-6)


def test_targets_of_the_other_domain_count_only_where_they_are_given() -> None:
    model = build(align="none")
    none, some = batch(), batch(known=3)
    p = np.log(np.asarray(model.predict(jnp.concatenate([none.x, none.y.x]))))
    y = np.asarray(none.y.y)
    own = -p[np.arange(8), y]
    assert float(model.loss(none, KEY)[0]) == pytest.approx(own.mean(), rel=1e-5)
    few = -p[8 + np.arange(3), y[:3]]
    assert float(model.loss(some, KEY)[0]) == pytest.approx((own.sum() + few.sum()) / 11, rel=1e-5)


def test_probabilities_are_shown_to_the_discriminator_and_not_changed_by_it() -> None:
    model, examples = build(conditional=True, ramp=False), batch()
    assert model.discriminator[0].weight.shape[0] == 10
    grads = eqx.filter_grad(lambda model: model.loss(examples, KEY)[0])(model)
    of_classes, _ = losses_apart(model, examples)
    expected = eqx.filter_grad(of_classes)(model.network)
    np.testing.assert_allclose(grads.network.classifier[-1].weight, expected.classifier[-1].weight, atol=1e-6)


def test_parts_in_turn_move_in_the_directions_of_one_reversed_minimisation() -> None:
    whole, examples = build(ramp=False, strength=0.5), batch()
    apart = build(ramp=False, strength=0.5, updates="alternating")
    reversed_ = eqx.filter_grad(lambda model: model.loss(examples, KEY)[0])(whole)
    telling, hiding = parts_of(apart)
    for part, where in ((telling, "discriminator"), (hiding, "network")):
        grads = eqx.filter_grad(lambda model, part=part: part.loss(model, examples, KEY)[0])(apart)
        for (name, found), (_, expected) in zip(
            tree.named_leaves(getattr(grads, where)),
            tree.named_leaves(getattr(reversed_, where)),
            strict=True,
        ):
            np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=name)
    with pytest.raises(ArgumentError, match="no other domain to play against"):
        telling.loss(apart, Batch(examples.x, examples.y.y), KEY)


def test_the_kernel_distance_is_the_mean_over_widths_of_unbiased_estimates() -> None:
    noise = np.random.default_rng(1)
    x, y = noise.normal(size=(7, 3)), noise.normal(0.5, size=(6, 3))
    both = np.concatenate([x, y])
    scale = np.sqrt(2 * both.var(axis=0).sum())

    def k(a: np.ndarray, b: np.ndarray, s: float) -> np.ndarray:
        return np.exp(-np.square(a[:, None] - b[None]).sum(axis=-1) / (2 * s**2))

    found = []
    for factor in (0.25, 0.5, 1.0, 2.0, 4.0):
        s = factor * scale
        within = [(k(a, a, s).sum() - len(a)) / (len(a) * (len(a) - 1)) for a in (x, y)]
        found.append(sum(within) - 2 * k(x, y, s).mean())
    assert float(mmd(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))) == pytest.approx(
        np.mean(found), abs=1e-5
    )


@pytest.mark.parametrize("align", ["mmd", "coral"])
def test_distances_are_added_with_the_weight_of_the_moment(align: str) -> None:
    model, examples = build(align=align, strength=2.0), batch()
    loss, metrics = model.loss_at(examples, KEY, 0.1)
    expected = metrics["label_loss"] + 2 * 0.462117 * metrics["distance"]
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    last = build(align=align, aligned=1).loss_at(examples, KEY, 1.0)[1]["distance"]
    hidden = model.network.hidden(jnp.concatenate([examples.x, examples.y.x]))[-1]
    distance = mmd if align == "mmd" else coral_alignment
    assert float(last) == pytest.approx(float(distance(hidden[:8], hidden[8:])), rel=1e-5)


def test_the_window_of_the_film_is_never_trained() -> None:
    model = build()
    (part,) = parts_of(model)
    moved = dict(tree.named_leaves(jax.tree.map(np.asarray, part.moved_by_rule(model))))
    assert [name for name, still in moved.items() if still] == ["window"]


def test_classes_that_are_lost_while_domains_are_aligned_raise_an_alarm() -> None:
    def history(late: float) -> dict[str, np.ndarray]:
        accuracy = np.concatenate([np.full(20, 0.98), np.full(20, late)])
        return {"split": np.full(40, "train"), "step": np.arange(40), "accuracy": accuracy}

    assert pictures.alarms(history(0.97)) == []
    (alarm,) = pictures.alarms(history(0.5))
    assert alarm.name == "classes lost"
    assert "smaller strength" in alarm.text

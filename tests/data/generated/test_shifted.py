"""Domains that move by a known amount: closed forms against samples, digits that stay the digits they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import load
from chainrule.data.generated.shifted_digits import textures
from chainrule.data.generated.shifted_points import ShiftedGaussians, rotated
from chainrule.data.loading.sources import names
from tests.data import corpus

KNOWN = ShiftedGaussians(separation=2.0, shift=0.7)


def test_rotated_moons_are_the_moons_turned_about_their_centre() -> None:
    plain, turned = load("moons", n=200, noise=0.1), load("rotated-moons", n=200, noise=0.1, angle=35.0)
    still = load("rotated-moons", n=200, noise=0.1, angle=0.0)
    np.testing.assert_allclose(still.train.x, plain.train.x, atol=1e-6)
    np.testing.assert_array_equal(turned.train.y, plain.train.y)
    whole, moved = (
        np.concatenate([data.split(name).x for name in ("train", "val", "test")]) for data in (plain, turned)
    )
    np.testing.assert_allclose(rotated(whole, 35.0), moved, atol=1e-5)
    assert not np.allclose(whole, moved, atol=0.1)


def test_shifted_gaussians_have_the_errors_and_densities_of_their_closed_forms() -> None:
    target = load("shifted-gaussians", n=200_000, shift=0.7)
    x, y = np.asarray(target.train.x, np.float64), np.asarray(target.train.y)
    error = np.mean((x[:, 0] > 0) != y)
    assert abs(error - KNOWN.target_error) < 4 * np.sqrt(error / len(x))
    best = np.mean((x[:, 0] > 0.7) != y)
    assert abs(best - KNOWN.best_target_error) < 4 * np.sqrt(best / len(x))
    # E_source[ratio] = 1: the log-ratio is that of normalised densities.
    source = np.asarray(load("shifted-gaussians", n=200_000, shift=0.0).train.x, np.float64)
    ratio = np.exp(KNOWN.log_ratio(source))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(len(ratio))


def test_total_variation_of_a_class_is_the_integral() -> None:
    overlap, _ = integrate.quad(
        lambda t: min(stats.norm.pdf(t), stats.norm.pdf(t - 0.7)), -9, 9, points=[0.35]
    )
    assert abs(KNOWN.class_tv - (1 - overlap)) < 1e-7


def test_digits_of_all_domains_are_divided_alike_and_stay_what_they_are() -> None:
    plain = load("digits")
    for name in ("textured-digits", "noisy-digits", "blurred-digits", "rescaled-digits"):
        changed = load(name)
        np.testing.assert_array_equal(changed.test.y, plain.test.y)
        assert changed.schema.classes == plain.schema.classes
        assert changed.hash == load(name).hash
    coloured = load("textured-digits", texture=0.0)
    for channel in range(3):
        np.testing.assert_allclose(coloured.test.x[..., channel], plain.test.x[..., 0], atol=1 / 255)
    np.testing.assert_allclose(load("rescaled-digits", factor=1.0).test.x, plain.test.x, atol=1e-6)


@pytest.mark.parametrize("name", ["noisy-digits", "blurred-digits"])
def test_each_strength_changes_more_than_the_one_before(name: str) -> None:
    plain = load("digits").train.x
    apart = [float(np.square(load(name, strength=s).train.x - plain).mean()) for s in range(1, 6)]
    assert apart == sorted(apart)
    assert apart[0] > 0


def test_blending_is_the_absolute_difference() -> None:
    data = load("textured-digits", texture=0.5, size=16, seed=3)
    plain = load("textured-digits", texture=0.0, size=16, seed=3)
    colours = 0.5 * textures(np.random.default_rng(3), 1797, 16)
    whole, bare = (np.concatenate([d.split(s).x for s in ("train", "val", "test")]) for d in (data, plain))
    # Both are divided alike; the textures are those of the rows before they were divided.
    apart = np.abs(np.abs(bare[0] - colours) - whole[0]).max(axis=(1, 2, 3))
    assert apart.min() < 1 / 255 + 1e-6
    assert (apart < 0.02).sum() == 1


def test_mnist_is_put_on_textures_where_it_is_on_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAINRULE_DATA", str(tmp_path))
    monkeypatch.setattr("chainrule.data.loading.sources._SYSTEM", tmp_path / "none")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DataError, match="mnist is not on this machine"):
        load("textured-mnist")
    corpus.mnist_like(tmp_path / "mnist")
    plain, bare, hard = (
        load("mnist"),
        load("textured-mnist", texture=0.0),
        load("textured-mnist", texture=1.0),
    )
    assert hard.schema.classes == plain.schema.classes
    for name in ("train", "val", "test"):
        np.testing.assert_array_equal(hard.split(name).y, plain.split(name).y)
        np.testing.assert_array_equal(bare.split(name).x, np.repeat(plain.split(name).x, 3, axis=-1))
    assert np.abs(np.asarray(hard.train.x) - np.asarray(bare.train.x)).mean() > 0.1
    assert load(**hard.source).hash == hard.hash
    known = next(one for one in names() if one.name == "textured-mnist")
    assert (known.where, known.options) == (str(tmp_path / "mnist"), {"texture": 0.5})


@pytest.mark.parametrize(
    ("name", "options"), [("noisy-digits", {"strength": 6}), ("rescaled-digits", {"factor": 0})]
)
def test_strengths_that_do_not_exist_are_refused(name: str, options: Any) -> None:
    with pytest.raises(ArgumentError, match="must be"):
        load(name, **options)

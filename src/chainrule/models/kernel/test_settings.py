"""Settings that nothing would read are refused, and what the error says to do works."""

from typing import Any

import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError


@pytest.mark.parametrize(
    ("name", "settings", "unread"),
    [
        ("kernel-ridge", {"kernel": "linear", "ridge": 0.1}, {"scale": 2.0}),
        ("svm", {"probability": False}, {"degree": 5}),
        ("svm", {"probability": False}, {"epsilon": 0.5}),
        ("kernel-pca", {"latent": 2}, {"decoding_steps": 5}),
        ("nngp", {"points": 20}, {"window": 5}),
        ("ntk", {"points": 20}, {"gather": "pool"}),
    ],
)
def test_a_setting_that_nothing_would_read_is_refused(
    name: str, settings: dict[str, Any], unread: dict[str, Any]
) -> None:
    data = cr.data.load("moons")
    (only,) = unread
    with pytest.raises(ArgumentError, match=f"^{only}=") as refused:
        cr.models.build(name, data, **settings, **unread)
    assert refused.value.remedy == f"leave {only} out"
    cr.models.build(name, data, **settings)


@pytest.mark.parametrize("approximate", ["rff", "nystrom"])
def test_points_with_features_are_refused_and_the_remedy_works(approximate: str) -> None:
    data = cr.data.load("moons")
    with pytest.raises(ArgumentError, match=r"^points=5 approximate=") as refused:
        cr.models.build("kernel-ridge", data, scale=1.0, points=5, approximate=approximate)
    count = int(str(refused.value.remedy).split("features=")[1].split()[0])
    cr.models.build("kernel-ridge", data, scale=1.0, features=count, approximate=approximate)


def test_a_kernel_without_a_scale_is_given_none() -> None:
    for name, settings in (("kernel-ridge", {}), ("svm", {}), ("kernel-pca", {"latent": 2})):
        model: Any = cr.models.build(name, cr.data.load("moons"), kernel="linear", **settings)
        assert model.config.scale == "auto"

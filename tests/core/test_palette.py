"""The palette can be told apart by everybody and read on both papers."""

import itertools

import numpy as np
import pytest

from chainrule.core.palette import DARK, LIGHT

# Machado, Oliveira and Fernandes, A physiologically-based model for simulation of color vision deficiency, 2009:
# complete loss of one kind of cone, on linear RGB.
SIGHT = {
    "all cones": np.eye(3),
    "no long": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no middle": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no short": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def linear(value: str) -> np.ndarray:
    channels = np.array([int(value[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    """Björn Ottosson, A perceptual color space for image processing, 2020."""
    to_cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    to_lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return to_lab @ np.cbrt(to_cones @ np.clip(rgb, 0, 1))


def contrast(a: str, b: str) -> float:
    """The ratio of WCAG 2."""
    low, high = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_series_are_told_apart_with_any_kind_of_sight(palette: dict[str, str], sight: str) -> None:
    seen = {role: oklab(np.asarray(SIGHT[sight]) @ linear(palette[role])) for role in "1234567"}
    for a, b in itertools.combinations(seen, 2):
        assert np.linalg.norm(seen[a] - seen[b]) > 0.08, (palette[a], palette[b])


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_series_stand_out_from_the_paper(palette: dict[str, str]) -> None:
    assert contrast(palette["ink"], palette["paper"]) > 12
    assert contrast(palette["soft"], palette["paper"]) > 4.5
    for role in "1234567":
        assert contrast(palette[role], palette["paper"]) > 2.95, role


def test_every_role_has_both_values_and_a_light_value_of_its_own() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert len(set(LIGHT.values())) == len(LIGHT)

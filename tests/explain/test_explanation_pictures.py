"""Pictures of explanations add up, say how they were made, and show what the numbers say."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain.methods import explanation_overlays as overlays
from chainrule.explain.methods import explanation_pictures as pictures
from chainrule.explain.methods.shapley.explanation import Explanation

DRAW = np.random.default_rng(0)


def explained(rows: int = 6, features: int = 5, miss: float = 0.0, **more: object) -> Explanation:
    values = DRAW.normal(size=(rows, features))
    base = np.full(rows, 0.5)
    x = DRAW.normal(size=(rows, features))
    names = tuple(f"f{i}" for i in range(features))
    outputs = base + values.sum(axis=1) + miss
    return Explanation(
        values, base, outputs, x, names, "exact", kind="interventional, 3 rows", output="logit of cat", **more
    )


def test_the_rest_makes_every_picture_add_up() -> None:
    found = explained(features=9)
    steps = pictures.waterfall(found[0], shown=3)
    assert steps.names[-1] == "rest (6)"
    assert len(steps.names) == 4
    np.testing.assert_allclose(steps.start + steps.steps.sum(), found.outputs[0])
    assert np.abs(steps.steps[:3]).min() >= np.abs(found.values[0]).min()
    force = pictures.waterfall(found[0], shown=3, joined=True)
    np.testing.assert_allclose(force.steps, steps.steps)
    swarm = pictures.beeswarm(found, shown=3)
    np.testing.assert_allclose(swarm.values.sum(axis=0), found.sum())
    heat = pictures.heat_map(found, shown=3)
    np.testing.assert_allclose(np.sort(heat.values.sum(axis=0)), np.sort(found.sum()))
    paths = pictures.decision_paths(found, shown=3)
    np.testing.assert_allclose([paths.series[f"row {i}"][1][-1] for i in range(6)], found.outputs)
    np.testing.assert_allclose([paths.series[f"row {i}"][1][0] for i in range(6)], found.base)
    bars = pictures.bar(found, shown=3)
    np.testing.assert_allclose(bars.series["mean"].sum(), np.abs(found.values).mean(axis=0).sum())


def test_one_feature_too_many_is_named_instead_of_hidden() -> None:
    assert pictures.waterfall(explained(features=4)[0], shown=3).names[-1] != "rest (1)"


def test_paths_follow_the_order_that_is_asked_for() -> None:
    found = explained()
    paths = pictures.decision_paths(found, order=["f3", "f0"])
    assert list(paths.names) == ["base value", "f3", "f0", "rest (3)"]
    first = paths.series["row 0"][1]
    np.testing.assert_allclose(np.diff(first)[:2], found.values[0, [3, 0]])
    with pytest.raises(ArgumentError, match="order=f9"):
        pictures.decision_paths(found, order=["f9"])


def test_of_many_rows_the_lowest_the_middle_and_the_highest_are_named() -> None:
    found = explained(rows=30)
    paths = pictures.decision_paths(found)
    assert len(paths.series) == 3
    assert paths.threads is not None
    assert paths.threads[1].shape == (30, 6)
    lowest = next(iter(paths.series))
    assert lowest == f"row {found.outputs.argmin()}"


def test_footnotes_say_how_and_are_red_where_values_do_not_add_up() -> None:
    fine, wrong = pictures.footnote(explained()), pictures.footnote(explained(miss=0.1))
    assert not fine.alarm
    assert "exact; absent: interventional, 3 rows; residual" in fine.text
    assert wrong.alarm
    assert "do not add up" in wrong.text


def test_dependence_is_coloured_by_the_strongest_interaction() -> None:
    x = DRAW.normal(size=(300, 4))
    values = np.zeros((300, 4))
    values[:, 1] = x[:, 1] * x[:, 3]
    names = ("a", "b", "c", "d")
    found = Explanation(values, np.zeros(300), values.sum(axis=1), x, names, "exact")
    drawn = pictures.dependence(found)
    assert drawn.x_label == "b"
    assert drawn.shades is not None
    assert drawn.shades[1] == "d"
    with pytest.raises(ArgumentError, match="feature=z"):
        pictures.dependence(found, "z")


def test_groups_of_marks_have_no_value_but_a_number_as_words() -> None:
    x = np.array([[1.0, 0, 1, 0], [2.0, 1, 0, 0]])
    found = Explanation(
        np.ones((2, 2)),
        np.zeros(2),
        np.full(2, 2.0),
        x,
        ("age", "city"),
        "exact",
        membership=np.array([0, 1, 1, 1]),
    )
    values = pictures.feature_values(found)
    assert values[:, 0].tolist() == [1.0, 2.0]
    assert np.isnan(values[:, 1]).all()
    assert pictures.feature_values(found, words=True)[:, 1].tolist() == [1.0, 0.0]


def test_overlays_share_one_scale_and_colour_by_sign() -> None:
    owners = np.repeat(np.array([[0, 1], [2, -1]])[..., None], 1, axis=2)
    x = np.zeros((1, 2, 2, 1))
    both = [
        Explanation(
            np.array([values]),
            np.zeros(1),
            np.array([sum(values)]),
            x,
            ("a", "b", "c"),
            "exact",
            membership=owners,
        )
        for values in ([2.0, -1.0, 0.0], [1.0, 0.0, 0.0])
    ]
    maps = overlays.pixel_values(both[0])
    assert maps[0].tolist() == [[2.0, -1.0], [0.0, 0.0]]
    sheet = overlays.image_overlay(both, np.zeros((1, 2, 2, 1)))
    assert sheet.columns == 3
    first, second = (sheet.images[i][::48, ::48] for i in (1, 2))  # enlarged from 2 to 96 pixels
    assert sheet.images.shape == (3, 96, 96, 3)
    np.testing.assert_allclose(first[0, 0], overlays.RAISES)
    half = 0.5 * 0.55 + 0.5 * overlays.RAISES
    np.testing.assert_allclose(second[0, 0], half)
    np.testing.assert_allclose(first[0, 1], 0.5 * 0.55 + 0.5 * overlays.LOWERS)
    np.testing.assert_allclose(first[1, 0], 0.55)


def test_texts_are_coloured_but_for_what_is_predicted() -> None:
    values = np.array([1.0, -1.0])
    found = Explanation(values, np.array(0.0), np.array(0.0), np.zeros(3), ("1", "2"), "exact")
    drawn = overlays.text_highlight(found, ["a", "b", "c"])
    assert drawn.signed
    assert drawn.values[:2].tolist() == [1.0, -1.0]
    assert np.isnan(drawn.values[2])


def test_pictures_of_one_input_refuse_several() -> None:
    with pytest.raises(ArgumentError, match="choose one"):
        pictures.waterfall(explained())

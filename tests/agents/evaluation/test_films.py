"""Films and slides of recordings."""

import io
import itertools
from xml.etree import ElementTree

import jax
import numpy as np
import pytest
from PIL import Image

from chainrule.agents import envs
from chainrule.agents.evaluation.baselines import RandomPolicy
from chainrule.agents.evaluation.films import film, slides
from chainrule.agents.evaluation.recording import Recording, record
from chainrule.core.errors import ArgumentError
from chainrule.report import draw_gif
from tests.agents.evaluation.countdown import Countdown, Remembering


@pytest.fixture(scope="module")
def recording() -> Recording:
    found = record(Remembering(), Countdown(9), jax.random.split(jax.random.key(3), 12))
    return next(one for one in found if len(one) == 8)


def test_a_film_shows_every_state_from_the_first_to_the_last(recording: Recording) -> None:
    found = film(recording)
    assert found.frames.shape[:2] == (9, 1)
    for moment, frame in enumerate(found.frames[:, 0]):
        # The bar of the environment grows by ten pixels a step; the panel below is wider.
        drawn = recording.drawing(moment).to_pixels() / 255
        left = (frame.shape[1] - 120) // 2
        np.testing.assert_allclose(frame[:20, left : left + 120], drawn, atol=1e-6)


def test_below_a_state_stands_what_had_come_by_then(recording: Recording) -> None:
    panels = film(recording).frames[:, 0, 20:]
    different = [np.abs(a - b).max() > 0.1 for a, b in itertools.pairwise(panels)]
    assert all(different)


def test_a_long_recording_is_thinned_out_evenly(recording: Recording) -> None:
    assert film(recording, frames=5).frames.shape[0] == 5
    chosen, every = film(recording, frames=5).frames, film(recording).frames
    np.testing.assert_array_equal(chosen, every[::2])


def test_a_film_becomes_a_gif(recording: Recording) -> None:
    with Image.open(io.BytesIO(draw_gif(film(recording)))) as moving:
        assert getattr(moving, "n_frames", 1) == 9


def test_slides_say_what_was_done_and_thought(recording: Recording) -> None:
    found = slides(recording)
    assert len(found.drawings) == len(found.notes) == 9
    assert [note.splitlines()[0] for note in found.notes] == [
        *(f"Step {t}" for t in range(8)),
        "After the last step",
    ]
    assert found.notes[2].splitlines()[1:] == [
        "return so far 3, reward to come 3",
        "value 6",
        "action 2",
        "probabilities of actions 0.00 0.00 1.00",
    ]
    assert found.notes[-1].endswith("return 36")
    sizes = {ElementTree.fromstring(drawing).attrib["viewBox"] for drawing in found.drawings}
    assert len(sizes) == 1


@pytest.mark.parametrize("name", ["pendulum", "frozen-lake"])
def test_continuous_actions_and_policies_without_values_are_shown_too(name: str) -> None:
    env = envs.make(name)
    (one,) = record(RandomPolicy(env.action_space), env, jax.random.split(jax.random.key(0), 1), limit=5)
    frames = film(one).frames
    assert len(frames) == len(one) + 1
    assert np.isfinite(frames).all()
    assert "value" not in slides(one).notes[0].split("actions")[0]


def test_a_film_without_frames_is_refused(recording: Recording) -> None:
    with pytest.raises(ArgumentError, match="frames"):
        film(recording, frames=0)

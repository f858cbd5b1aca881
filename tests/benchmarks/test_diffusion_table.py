"""The table of diffusion models at toy size: every target, weight, schedule and sampler learns to draw the moons.

Data of unit variance, a network of some thousand numbers, seconds of training: samples are then nearer to the
data than `LIMIT`, and one combination that is not is a fault of its weight, its levels or its sampler.
"""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.diffusion_table import __main__ as command
from benchmarks.diffusion_table import measuring, recording
from benchmarks.diffusion_table.combinations import Combination, combinations, walks
from benchmarks.diffusion_table.measuring import Problem, SinkhornDivergence, row
from benchmarks.diffusion_table.page import page
from chainrule.models.diffusion.samplers import samplers

LIMIT = 0.6
"""Of a network that was trained for seconds. A walk without noise multiplies its error of eps by sigma: with target=eps
that comes to 0.4 at most, all others stay below 0.12. What was wrong was 1 to 8."""
TOY = Problem(
    "moons",
    SinkhornDivergence,
    "Sinkhorn divergence",
    LIMIT,
    "generous",
    n=200,
    steps=1500,
    network={"width": 64, "depth": 2},
    training={"ema": 0.99, "log_every": 1500},
)
ONCE_BAD = "diffusion target=eps weight=velocity noise=cosine"
"""Whose noisiest level once counted 400 million times as much as the cleanest."""


def chosen() -> dict[Combination, tuple[str, ...]]:
    """Thirty combinations in which every two of target, weight, schedule and sampler meet, and the other models.

    A third of the samplers draws from each of the thirty, all draw from the others.
    """
    everything = combinations()
    plain = {one: tuple(dict(one.settings).values()) for one in everything if one.model == "diffusion"}
    targets, weights, noises = (list(dict.fromkeys(values)) for values in zip(*plain.values(), strict=True))
    thirds = {
        (targets[(i + j) % len(targets)], weight, noise): (i + 2 * j) % 3
        for i, weight in enumerate(weights)
        for j, noise in enumerate(noises)
    }
    found = {one: thirds[values] for one, values in plain.items() if values in thirds}
    names = list(walks())
    return {
        one: tuple(names[found[one] :: 3]) if one in found else tuple(names)
        for one in everything
        if one in found or one not in plain
    }


NAMES = ("target", "weight", "noise")


@pytest.fixture
def draw_by(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Some samplers instead of all."""
    everything = walks()

    def only(*names: str) -> None:
        some = {name: everything[name] for name in names}
        monkeypatch.setattr(measuring, "walks", lambda: some)

    return only


def beyond(found: dict[str, Any]) -> dict[str, float | None]:
    """Samplers whose samples are not within the limit."""
    return {
        name: value for name, value in found["distances"].items() if not (value is not None and value < LIMIT)
    }


def test_every_two_choices_meet() -> None:
    plain = [dict(one.settings) for one in combinations() if one.model == "diffusion"]
    drawn = [
        {**dict(one.settings), "sampler": name}
        for one, names in chosen().items()
        if one.model == "diffusion"
        for name in names
    ]
    for one, other in itertools.combinations(NAMES, 2):
        wanted = {(settings[one], settings[other]) for settings in plain}
        assert {(s[one], s[other]) for s in drawn} == wanted
    for one in NAMES:
        wanted = set(itertools.product({settings[one] for settings in plain}, samplers))
        assert {(s[one], s["sampler"]) for s in drawn} == wanted


def test_samples_of_a_combination_that_once_failed_are_near_the_data(draw_by: Callable[..., None]) -> None:
    draw_by("ddim", "ddpm")  # one without and one with noise
    (combination,) = (one for one in combinations() if str(one) == ONCE_BAD)
    found = row(combination, TOY)
    assert list(found["distances"]) == ["ddim", "ddpm"]
    assert not beyond(found)


@pytest.mark.slow  # trains thirty-five models
@pytest.mark.parametrize(("combination", "names"), chosen().items(), ids=map(str, chosen()))
def test_samples_are_near_the_data_whatever_was_trained_and_whichever_sampler_draws(
    combination: Combination, names: tuple[str, ...], draw_by: Callable[..., None]
) -> None:
    draw_by(*names)
    found = row(combination, TOY)
    assert set(found["distances"]) == set(names)
    assert not beyond(found)


def record(**rows: Any) -> dict[str, Any]:
    """A record of made-up rows of one sampler, by target."""
    made = [
        {
            "model": "diffusion",
            "target": target,
            "weight": "simple",
            "noise": "cosine",
            "distances": {"ddim": value},
        }
        for target, value in rows.items()
    ]
    common = {"data": "moons", "steps": 5, "n": 7, "distance": "distance", "limit": 0.5}
    return {**common, "limit_is": "half", "of_real": 0.01, "rows": made}


def test_the_page_marks_what_is_beyond_the_limit() -> None:
    text = page([record(eps=0.125, v=None)])
    assert "1 of 2 walks are within the limit" in text
    assert "| `eps` | `simple` | 0.12; 0.12 ddim |" in text
    assert "| `v` | `simple` | **not finite**; **not finite** ddim |" in text
    assert "| `ddim` | **inf** |" not in text


def test_a_combination_that_is_refused_says_why() -> None:
    refused = {"model": "diffusion", "target": "v", "weight": "simple", "noise": "linear", "refused": "no"}
    made = record(eps=0.1)
    text = page([{**made, "rows": [*made["rows"], refused]}])
    assert "Refused: diffusion target=v weight=simple noise=linear: no" in text


class TestCommand:
    @pytest.fixture
    def path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(recording, "RESULTS", tmp_path)
        return recording.file("moons")

    def test_rows_that_are_there_are_not_made_again(
        self, path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        problem = measuring.PROBLEMS["moons"]
        made = record(eps=0.1)
        made |= {"steps": problem.steps, "n": problem.n, "distance": problem.name, "limit": problem.limit}
        path.write_text(json.dumps(made))
        words = ["target=eps", "weight=simple", "noise=cosine"]
        assert command.main(["--only", *words]) == 0
        assert "0 of 1 combinations to do" in capsys.readouterr().out
        assert command.main(["--page", str(path.with_name("page.md"))]) == 0
        assert "| `eps` |" in path.with_name("page.md").read_text()

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--jobs", "0"], "at least one process"),
            (["--only", "target=w"], "no combination has all of these words"),
            (["--page", "page.md"], "there are no results yet"),
        ],
    )
    def test_what_cannot_be_done_is_said(
        self, path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit):
            command.main(arguments)
        assert said in capsys.readouterr().err

    def test_results_that_were_measured_otherwise_are_not_mixed(
        self, path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path.write_text(json.dumps(record(eps=0.1)))
        with pytest.raises(SystemExit):
            command.main([])
        assert "was measured otherwise" in capsys.readouterr().err

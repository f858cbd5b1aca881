"""The page on predictions: every command of it runs, and its Python says what the page says."""

import doctest
import math
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from .conftest import Command

PAGE = Path(__file__).parents[2] / "docs" / "predict.md"


def commands() -> list[str]:
    """The lines of all blocks of shell commands."""
    blocks = PAGE.read_text().split("```sh\n")[1:]
    return [line for block in blocks for line in block.split("```")[0].splitlines()]


def flats(path: str, rows: int, *, seed: int, target: bool = True) -> None:
    noise = np.random.default_rng(seed)
    lines = ["size,colour,price" if target else "colour,size"]
    for _ in range(rows):
        size, colour = noise.normal(50, 10), noise.choice(["red", "white", "blue"])
        price = 3 * size + 20 * (colour == "red") + noise.normal(0, 5)
        lines.append(f"{size:.2f},{colour},{price:.2f}" if target else f"{colour},{size:.2f}")
    Path(path).write_text("\n".join(lines) + "\n")


@pytest.fixture
def files(cli: Command) -> None:
    """What a reader of the page has at hand."""
    flats("flats.csv", 600, seed=0)
    flats("sold.csv", 50, seed=1)
    flats("new.csv", 2, seed=2, target=False)
    with Path("new.csv").open("a") as file:
        file.write("green,50\nred,40\n")
    noise = np.random.default_rng(3)
    for folder, count in (("photos/bright", 20), ("photos/dark", 20), ("inbox", 3)):
        Path(folder).mkdir(parents=True)
        for index in range(count):
            level = 200 if folder == "photos/bright" else 40
            pixels = np.clip(noise.normal(level, 20, (12, 12)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(f"{folder}/{index}.png")
    pairs = [("great", "good"), ("fine", "good"), ("awful", "bad"), ("dull", "bad")]
    lines = [
        f"a{'n' * (word == 'awful')} {word} film {i}\t{label}" for i in range(30) for word, label in pairs
    ]
    Path("reviews.tsv").write_text("\n".join(lines) + "\n")
    Path("new_reviews.txt").write_text("a great film\nan awful film\n")
    values = [f"{i},{20 + 5 * math.sin(i / 2) + noise.normal():.3f}" for i in range(400)]
    Path("sales.csv").write_text("\n".join(["month,sales", *values]) + "\n")


@pytest.mark.slow  # four trainings
@pytest.mark.usefixtures("files", "unreported")
def test_every_command_of_the_page_runs_and_python_says_the_same(cli: Command) -> None:
    assert len(commands()) == 10
    shown = ""
    for line in commands():
        _, *words = shlex.split(line)
        result = cli(*words)
        assert result.code == 0, f"{line}: {result.err}"
        shown += result.out
    for expected in (
        "name  prediction  low",
        "1 of 4 inputs cannot be used and have empty rows: answers/problems.csv",
    ):
        assert expected in PAGE.read_text()
        assert expected in shown
    finder = doctest.DocTestParser().get_doctest(PAGE.read_text(), {}, PAGE.name, str(PAGE), 0)
    failed, tried = doctest.DocTestRunner().run(finder)
    assert (failed, tried > 5) == (0, True)

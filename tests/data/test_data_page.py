"""The page on own data shows what the command prints."""

import random
from pathlib import Path

import pytest

from chainrule.data import check, load
from tests.data import corpus


@pytest.fixture(name="sales")
def _sales(tmp_path: Path) -> Path:
    """A table as a spreadsheet of a German shop writes it."""
    draw = random.Random(0)
    lines = ["id;price;discount;sold;colour;returned"]
    for i in range(120):
        small = f"{draw.randint(5, 99)},{draw.randint(10, 99)} €"
        large = f"{draw.randint(1, 2)}.{draw.randint(100, 999)},{draw.randint(10, 99)} €"
        share = "" if i % 17 == 5 else f"{draw.choice(['0', '5', '12,5', '20'])} %"
        day, colour = f"{1 + i % 28:02d}.{1 + i % 12:02d}.2024", draw.choice(["red", "blue", "green"])
        lines.append(
            f"{i + 1};{draw.choice([small, large])};{share};{day};{colour};{'yes' if i % 4 == 1 else 'no'}"
        )
    return corpus.write(tmp_path / "sales.csv", "\n".join(lines).encode())


def test_the_example_is_what_is_read(sales: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    report = check(sales)
    for line in [*report.lines()[:3], *report.lines()[-3:]]:
        assert f"\n{line}\n" in page
    for name, read_as, missing, shown in report.columns:
        assert f"\n{name:<10}{read_as:<28}{missing:<9}{shown}\n" in page


def test_its_remedies_work(sales: Path) -> None:
    data = load(sales, missing="median", drop="id")
    assert not data.skipped
    assert not data.notes
    assert len(data.train) == 96

"""The pictures in model cards exist and can be drawn again."""

import re
from pathlib import Path

import pytest

from chainrule import models
from chainrule.explain import probes
from docs import pictures

ROOT = Path(pictures.__file__).parents[1]


def shown(name: str) -> list[Path]:
    """The pictures a card refers to, as a reader of the repository finds them."""
    (card,) = ROOT.glob(f"src/chainrule/models/*/{name.replace('-', '_')}/card.md")
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", card.read_text(encoding="utf-8"))
    return [(card.parent / link).resolve() for link in links]


@pytest.mark.parametrize("name", models.names())
def test_every_picture_a_card_refers_to_exists(name: str) -> None:
    assert all(path.is_file() for path in shown(name)), f"missing: run python -m docs.pictures {name}"


def test_the_script_draws_what_the_cards_show_and_nothing_else() -> None:
    drawn = {path.resolve() for path in pictures.IMAGES.iterdir()}
    assert drawn == {
        path for name in models.names() for path in shown(name) if path.parent == pictures.IMAGES
    }
    for name, card in pictures.CARDS.items():
        models.configure(name, **card.model)
        for probe, settings, _ in card.pictures:
            probes.configure(probe, **settings)

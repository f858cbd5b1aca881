"""The pictures in the model cards: `python -m docs.pictures` trains the models and draws them again.

Every picture is a probe of a small run, so it shows what `chainrule probe` shows. Runs are made in a temporary folder.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chainrule as cr
from chainrule.explain import probes
from chainrule.report import draw

IMAGES = Path(__file__).parent / "images" / "cards"


@dataclass(frozen=True)
class Card:
    """How the pictures of one card are made."""

    data: str
    model: Mapping[str, Any]
    training: Mapping[str, Any]
    pictures: Sequence[tuple[str, Mapping[str, Any], int]]
    """Probe, its settings, and which of its pictures."""


CARDS = {
    "mlp": Card(
        "digits",
        {"width": 64},
        {"steps": 400},
        [("folding", {}, 1), ("folding", {}, -1), ("dreams", {}, 0)],
    ),
    "cnn": Card(
        "digits",
        {"width": 8, "stages": 2},
        {"epochs": 6},
        [("features", {"channels": 4, "best": 3}, -1)],
    ),
    "resnet": Card(
        "digits",
        {"depth": 8, "width": 8},
        {"save_every": 15, "keep": 100},
        [("landscape", {}, 0), ("landscape", {"directions": "path"}, 0), ("dreams", {}, 0)],
    ),
}


def main(names: Sequence[str]) -> None:
    """Draw the pictures of the named cards, or of all."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in names or CARDS:
        card = CARDS[name]
        data = cr.data.load(card.data)
        with tempfile.TemporaryDirectory() as folder:
            run = cr.fit(
                cr.models.build(name, data, **card.model), data, run=Path(folder) / name, **card.training
            )
            made = Counter(probe for probe, _, _ in card.pictures)
            seen: Counter[str] = Counter()
            for probe, settings, which in card.pictures:
                picture = probes.examine(probe, run, **settings).pictures[which]
                seen[probe] += 1
                path = IMAGES / f"{name}-{probe}{seen[probe] if made[probe] > 1 else ''}.svg"
                draw(picture, path)
                print(path.name, "   ", picture.title)


if __name__ == "__main__":
    main(sys.argv[1:])

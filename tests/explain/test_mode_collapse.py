"""Every adversarial game on known modes."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain import experiments
from chainrule.explain.experiments.mode_collapse import GAMES, ModeCollapseSettings, chosen_games, run
from chainrule.explain.protocol import silent


def test_a_short_game_counts_what_it_has() -> None:
    settings = ModeCollapseSettings(steps=3, noise=(0.1,), games=("minimax",), width=8, batch=16, seeds=2)
    found = run(settings, silent)
    assert found.table is not None
    assert [row[0] for row in found.table.rows] == ["minimax"]
    numbers = found.numbers["minimax, 0.1"]
    assert len(numbers["covered"]) == 2
    assert numbers["modes"] == 8
    assert 0 <= numbers["high_quality"] <= 1
    assert [picture.name for picture in found.pictures] == ["high-quality", "samples-0"]


def test_a_game_that_is_not_there_is_refused() -> None:
    with pytest.raises(ArgumentError, match="no game is called 'chess'"):
        experiments.run("mode-collapse", games=("chess",))


def test_games_are_asked_for_by_name_in_a_list_and_a_whole_name_means_no_other() -> None:
    for name in GAMES:
        assert chosen_games(name.split(",")) == [name]
    assert chosen_games(["f-gan"]) == ["f-GAN of 2 JSD", "f-GAN of Hellinger"]
    assert chosen_games([]) == list(GAMES)


def test_every_game_of_the_table_can_be_built() -> None:
    assert {name for name, _ in GAMES.values()} == {"gan", "f-gan", "wgan-gp", "wgan"}


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_well")
def test_the_recommended_games_find_all_modes_in_four_of_five_seeds() -> None:
    settings = ModeCollapseSettings(noise=(0.1,), seeds=5, games=("relativistic with", "penalty"))
    for name, found in run(settings, silent).numbers.items():
        assert np.sum(np.array(found["covered"]) == 8) >= 4, name

"""Drawings of searches: the most visited moves of every level, with the numbers that the search has of them."""

import re

import numpy as np

from chainrule.agents import games
from chainrule.agents.tree_search.reference import search
from chainrule.explain.methods.search_drawings import search_tree


def test_a_tree_shows_the_most_visited_moves_with_their_numbers() -> None:
    game = games.make("tic-tac-toe")
    state = game.init()
    for move in ("b2", "a1", "b1"):
        state = game.play(state, move)
    found = search(game, state, lambda _: (np.ones(9), 0.0), simulations=60, temperature=0.0)
    page = search_tree(found.tree, game.move_name, 1.0, "a tree", widest=(2, 1)).to_svg()
    words = re.findall(r">([^<>]+)</text>", page)
    assert words[-2:] == ["position", f"N 60   V {found.tree.value:+.2f}"]
    best = int(found.visits.argmax())
    assert game.move_name(best) == "b3"  # nothing else stops two in a row
    q, prior = found.q[best], found.tree.prior[best]
    bonus = prior * np.sqrt(61) / (1 + found.visits[best])
    at = words.index(f"b3   N {found.visits[best]}")
    assert f"Q {q:+.2f}   U {bonus:.2f}" in words[at : at + 5]
    assert sum(word.startswith("P ") for word in words) == 4  # two moves, one answer to each

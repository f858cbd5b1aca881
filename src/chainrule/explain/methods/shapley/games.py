"""Games of coalitions: what every set of players is worth, from a table, a function of masks, or a model.

A game says what each coalition earns, v(S); dividing v(all) - v(nobody) among the players is what Shapley values do.
Where features of a model are the players, many inputs are explained at once: such a game has a batch axis, one game for
each input over the same players. What was evaluated is kept by its packed mask, so that no method pays twice.

Reference: Shapley, A value for n-person games, 1953.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, DataError

Masks: TypeAlias = Bool[np.ndarray, "coalitions players"]
Worths: TypeAlias = Float[np.ndarray, "*batch coalitions"]

LIMIT = 16
"""Players up to which all coalitions are evaluated without being asked twice."""
FORCED_LIMIT = 22
"""Players up to which they are with `force=True`."""
_BLOCK = 1 << 16
"""Coalitions that a function of masks is given at once."""
_KEPT = 1 << 25
"""Numbers that a game keeps besides its table."""
_SHOWN = 12


@final
class CoalitionGame:
    """What every coalition is worth.

    `v` is a mapping from coalitions to numbers, an array of 2^M numbers in which bit i of an index says whether player
    i takes part, or a function of boolean masks (coalitions, players) that gives (coalitions,) or (batch, coalitions).
    `players` are names or how many there are; a function needs it. A mapping may leave the empty coalition out.

    >>> game = CoalitionGame({"ann": 1.0, "bob": 2.0, ("ann", "bob"): 4.0})
    >>> game.players, game.base.item(), game.total.item(), game.worth(np.array([[True, False]]))
    (('ann', 'bob'), 0.0, 4.0, array([1.]))
    """

    def __init__(self, v: Any, players: int | Sequence[str] | None = None) -> None:
        self.players, self._v = _read(v, players)
        self.evaluations = 0
        """Coalitions that were evaluated so far."""
        self._known: dict[bytes, np.ndarray] = {}
        self._table: np.ndarray | None = None

    @property
    def ends(self) -> Masks:
        """Nobody and everybody, as masks; methods evaluate them together with their first coalitions."""
        return np.stack([np.zeros(len(self.players), np.bool_), np.ones(len(self.players), np.bool_)])

    @property
    def base(self) -> Float[np.ndarray, "*batch"]:
        """What nobody is worth; values divide what is above it."""
        return np.asarray(self.worth(self.ends)[..., 0])

    @property
    def total(self) -> Float[np.ndarray, "*batch"]:
        """What all together are worth."""
        return np.asarray(self.worth(self.ends)[..., 1])

    @property
    def gain(self) -> Float[np.ndarray, "*batch"]:
        """What there is to divide: v(all) - v(nobody)."""
        return np.asarray(self.total - self.base)

    @property
    def is_single(self) -> bool:
        """Whether there is no batch axis."""
        return not self.base.ndim

    def worth(self, masks: Masks) -> Worths:
        """What coalitions are worth; only new ones are evaluated."""
        _check_masks(masks, self.players)
        if self._table is not None:
            return np.asarray(self._table[..., codes(masks)])
        keys = _packed(masks)
        new: dict[bytes, int] = {}
        for position, key in enumerate(keys):
            if key not in self._known:
                new.setdefault(key, position)
        fresh = self._evaluated(masks[list(new.values())]) if new else None
        if fresh is not None and len(new) == len(keys):
            found = fresh
        else:
            columns = dict(zip(new, np.moveaxis(fresh, -1, 0), strict=True)) if fresh is not None else {}
            found = np.stack([columns[key] if key in columns else self._known[key] for key in keys], axis=-1)
        if fresh is not None:
            room = _KEPT // max(fresh[..., 0].size, 1) - len(self._known)
            kept = zip(new, np.moveaxis(fresh, -1, 0), strict=True)
            self._known.update(itertools.islice(kept, max(room, 0)))
        return np.asarray(found)

    def table(self, force: bool = False) -> Worths:
        """What all 2^M coalitions are worth, in the order of their numbers; refused for many players."""
        if self._table is None:
            check_count(
                "CoalitionGame.table", len(self.players), force, "sample: shapley(game, method='kernel')"
            )
            count = 1 << len(self.players)
            blocks = [
                self._evaluated(masks_of(np.arange(start, min(start + _BLOCK, count)), len(self.players)))
                for start in range(0, count, _BLOCK)
            ]
            self._table = np.concatenate(blocks, axis=-1)
            self._known.clear()
        return self._table

    def _evaluated(self, masks: Masks) -> Worths:
        worths = np.asarray(self._v(masks), np.float64)
        if worths.shape[-1:] != masks.shape[:1] or worths.ndim > 2:
            raise ArgumentError(
                f"CoalitionGame: v gives an array of shape {worths.shape} for {len(masks)} coalitions",
                remedy="v must give (coalitions,), or (batch, coalitions) for a batch of games",
            )
        self.evaluations += len(masks)
        bad = np.argwhere(~np.isfinite(worths))
        if bad.size:
            *row, column = bad[0]
            where = f" in row {row[0]}" if row else ""
            raise DataError(
                f"CoalitionGame: v is {worths[tuple(bad[0])]} for {coalition_name(masks[column], self.players)}{where}",
                remedy="every coalition needs a finite worth; a model must be finite for mixtures of x and background",
            )
        return worths


def masks_of(numbers: Int[np.ndarray, " coalitions"], count: int) -> Masks:
    """Coalitions by number: player i takes part where bit i is set.

    >>> masks_of(np.array([0, 1, 6]), 3).astype(int).tolist()
    [[0, 0, 0], [1, 0, 0], [0, 1, 1]]
    """
    return np.asarray((numbers[:, None] >> np.arange(count)[None]) & 1, np.bool_)


def codes(masks: Masks) -> Int[np.ndarray, " coalitions"]:
    """The numbers of coalitions of few players."""
    return np.asarray(masks @ (1 << np.arange(masks.shape[1], dtype=np.int64)))


def sizes_of_all(count: int) -> UInt8[np.ndarray, " coalitions"]:
    """How many players each of the 2^count coalitions has, in the order of their numbers.

    >>> sizes_of_all(2).tolist()
    [0, 1, 1, 2]
    """
    return np.bitwise_count(np.arange(1 << count, dtype=np.uint32))


def coalition_name(mask: Bool[np.ndarray, " players"], players: Sequence[str]) -> str:
    """A coalition in words.

    >>> coalition_name(np.array([True, False, True]), ("a", "b", "c"))
    'the coalition {a, c}'
    """
    chosen = [name for name, inside in zip(players, mask, strict=True) if inside]
    more = f", ... {len(chosen) - _SHOWN} more" if len(chosen) > _SHOWN else ""
    return f"the coalition {{{', '.join(chosen[:_SHOWN])}{more}}}"


def check_count(where: str, count: int, force: bool, instead: str, *, can_force: bool = True) -> None:
    """Raise where all coalitions of so many players would be too many; `instead` is what to do then."""
    limit = FORCED_LIMIT if force else LIMIT
    if count > limit:
        offered = can_force and not force and count <= FORCED_LIMIT
        forced = f", or accept {1 << count:,} evaluations: force=True" if offered else ""
        raise ArgumentError(
            f"{where}: {count} players have {1 << count:,} coalitions, the limit is {limit} players",
            remedy=f"{instead}{forced}",
        )


def _packed(masks: Masks) -> list[bytes]:
    packed = np.packbits(masks, axis=1)
    return [row.tobytes() for row in packed]


def _check_masks(masks: np.ndarray, players: Sequence[str]) -> None:
    if masks.ndim != 2 or masks.shape[1] != len(players) or masks.dtype != np.bool_:
        raise ArgumentError(
            f"CoalitionGame: masks have shape {masks.shape} and type {masks.dtype}",
            remedy=f"give booleans of shape (coalitions, {len(players)}): there are {len(players)} players",
        )


def _read(v: Any, players: int | Sequence[str] | None) -> tuple[tuple[str, ...], Callable[[Masks], Any]]:
    if isinstance(v, Mapping):
        return _from_mapping(v, players)
    if callable(v):
        if players is None:
            raise ArgumentError(
                "CoalitionGame(players=None): a function of masks does not say how many players there are",
                remedy="give their names or their number: CoalitionGame(v, players=3)",
            )
        return _names(players), v
    table = np.asarray(v, np.float64)
    count = max(table.size.bit_length() - 1, 0)
    if table.ndim != 1 or table.size != 1 << count or not count:
        raise ArgumentError(
            f"CoalitionGame: a table of shape {table.shape} is not one number for each of 2^M coalitions",
            remedy="give 2, 4, 8, ... numbers: entry i is what the players are worth whose bits are set in i",
        )
    names = _names(count if players is None else players)
    if len(names) != count:
        raise ArgumentError(
            f"CoalitionGame: the table of {table.size} numbers is of {count} players, {len(names)} were given",
            remedy=f"give {count} names, or {1 << len(names)} numbers",
        )
    return names, lambda masks: table[codes(masks)]


def _names(players: int | Sequence[str]) -> tuple[str, ...]:
    if isinstance(players, str):
        raise ArgumentError(
            f"CoalitionGame(players={players!r}): players are names or a number",
            remedy="give a list of names",
        )
    if not isinstance(players, Sequence):
        return tuple(str(i + 1) for i in range(whole("CoalitionGame", "players", players)))
    names = tuple(str(name) for name in players)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        raise ArgumentError(
            f"CoalitionGame: {f'two players are called {twice[0]!r}' if twice else 'there are no players'}",
            remedy="give every player a name of its own",
        )
    return names


def _from_mapping(
    v: Mapping[Any, Any], players: int | Sequence[str] | None
) -> tuple[tuple[str, ...], Callable[[Masks], Any]]:
    coalitions = {frozenset(_members(key)): float(worth) for key, worth in v.items()}
    if len(coalitions) < len(v):
        raise ArgumentError(
            "CoalitionGame: two entries are of the same coalition", remedy="name every coalition once"
        )
    seen = dict.fromkeys(name for key in v for name in _members(key))
    names = _names(list(seen) if players is None else players)
    unknown = [name for name in seen if name not in names]
    if unknown:
        raise ArgumentError(
            f"CoalitionGame: {unknown[0]!r} is in a coalition but not among the {len(names)} players",
            remedy="leave players out, or name all of them",
        )
    check_count(
        "CoalitionGame",
        len(names),
        False,
        "give a function of masks, CoalitionGame(v, players=NAMES), and sample: shapley(game, method='kernel')",
        can_force=False,
    )
    coalitions.setdefault(frozenset(), 0.0)
    table = np.empty(1 << len(names))
    for number, mask in enumerate(masks_of(np.arange(1 << len(names)), len(names))):
        members = frozenset(name for name, inside in zip(names, mask, strict=True) if inside)
        if members not in coalitions:
            raise ArgumentError(
                f"CoalitionGame: {coalition_name(mask, names)} has no entry",
                remedy="a mapping needs every coalition; only the empty one may be left out",
            )
        table[number] = coalitions[members]
    return names, lambda masks: table[codes(masks)]


def _members(key: Any) -> tuple[str, ...]:
    """The names of a coalition; a single name stands for itself."""
    return tuple(str(one) for one in key) if isinstance(key, (tuple, list, set, frozenset)) else (str(key),)


__all__ = [
    "FORCED_LIMIT",
    "LIMIT",
    "CoalitionGame",
    "Masks",
    "Worths",
    "check_count",
    "coalition_name",
    "codes",
    "masks_of",
    "sizes_of_all",
]

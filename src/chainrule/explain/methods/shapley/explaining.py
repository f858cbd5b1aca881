"""Shapley values of a game or of a function, by the method that suits it.

`shapley` and `explain` are what people call. Arguments are checked here, once; what is absent becomes a masker, the
function and its inputs become a game, and one of the methods divides it: the closed form where tracing proves the
function affine, all coalitions for at most 12 players; for more orders of each background row, or Kernel SHAP.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.explain.methods.affine_parts import is_affine
from chainrule.explain.methods.functions import (
    Function,
    HostFunction,
    adapted,
    choose_output,
    count_outputs,
    evaluate,
)
from chainrule.explain.methods.input_groups import groups_of
from chainrule.explain.methods.run_outputs import output_function
from chainrule.explain.methods.shapley.checked_inputs import (
    check_finite_rows,
    check_marks,
    frame_columns,
    numbered,
    numbers,
    warn_outside,
)
from chainrule.explain.methods.shapley.closed_forms import additive_values, linear_values
from chainrule.explain.methods.shapley.exact import exact_values
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.explain.methods.shapley.game_values import GameValues
from chainrule.explain.methods.shapley.games import CoalitionGame, check_count
from chainrule.explain.methods.shapley.kernel import kernel_values
from chainrule.explain.methods.shapley.masked_functions import MaskedFunction
from chainrule.explain.methods.shapley.maskers.gaussian import GaussianConditional, gaussian
from chainrule.explain.methods.shapley.maskers.masker import Groups, GroupsByName, Masker
from chainrule.explain.methods.shapley.maskers.neighbours import neighbours
from chainrule.explain.methods.shapley.maskers.replacing import Replacing, baseline, interventional
from chainrule.explain.methods.shapley.permutations import EXACT_LIMIT, permutation_values
from chainrule.explain.methods.shapley.row_orders import (
    LEAST_ROWS,
    has_row_orders,
    least_budget,
    row_order_values,
)
from chainrule.train import Run

METHODS = ("auto", "exact", "permutation", "rows", "kernel", "linear", "additive")
ABSENT: Mapping[str, Callable[..., Masker]] = {
    "interventional": interventional,
    "gaussian": gaussian,
    "neighbours": neighbours,
}
"""What absent features are, by name; "baseline" is one row."""
FEW = 12
"""Players up to which all coalitions are evaluated unless another method is asked for."""


class ExplanationPlan(NamedTuple):
    """What is about to be computed."""

    method: str
    coalitions: int
    """At most so many are evaluated."""
    evaluations: int
    """Of the function, at most."""

    def __str__(self) -> str:
        return f"{self.method}: at most {self.coalitions:,} coalitions, {self.evaluations:,} evaluations"


def shapley(
    game_or_function: Any,
    x: Any = None,
    background: Any = None,
    method: str = "auto",
    *,
    absent: str | Masker = "interventional",
    output: int | str | None = None,
    output_names: Sequence[str] = (),
    names: Sequence[str] | None = None,
    groups: GroupsByName = None,
    budget: int | None = None,
    tol: float = 0.01,
    seed: int = 0,
    force: bool = False,
    memory: str | int | None = None,
    listener: Callable[[str], None] | None = None,
) -> Explanation:
    """Shapley values of a `CoalitionGame` (or what makes one: a mapping, a table), or of a function at inputs `x`.

    A function takes a batch and gives (batch, outputs), a run takes raw examples; `x` is one input or a batch.
    `background` are rows like `x`, or one reference; data frames give features their names. `absent` says what stands
    for features that are missing: "interventional" (background rows), "gaussian" or "neighbours" (given the features
    that are present), or a masker.
    `groups` makes players of columns, by number or by name.

    `method` is "exact", "permutation", "rows" (orders of each background row), "kernel", "linear", "additive" or
    "auto". Sampling methods stop at `budget` coalitions, or when no standard error is above `tol` times the range of
    the values.

    >>> shapley(lambda x: x[:, 0] * x[:, 1] * x[:, 2], [2.0, 3.0, 4.0], [0.0, 0.0, 0.0]).values
    array([8., 8., 8.])
    """
    check_choice("shapley", "method", method, METHODS)
    whole("shapley", "seed", seed, least=0)
    if not tol >= 0:
        raise ArgumentError(
            f"shapley(tol={tol}): it is a share of the range of the values", remedy="choose 0.01"
        )
    options = _Options(method, budget, tol, seed, force)
    if x is None:
        return _of_game(game_or_function, names, background, options, listener)
    asked = _asked(game_or_function, x, background, absent, (output, output_names), names, groups)
    found = _explained(asked, options, memory, listener)
    return found[0] if asked.single else found


def explain(
    f: Function, x: Any, background: Any, *, listener: Callable[[str], None] | None = print, **options: Any
) -> Explanation:
    """`shapley` of a function, which says by which method and at what cost before it starts.

    >>> found = explain(lambda x: 3 * x[:, 0] - x[:, 1], [1.0, 2.0], [[0.0, 0.0], [2.0, 2.0]])
    linear, closed form: 3 evaluations
    >>> found.values
    array([ 0., -1.])
    """
    return shapley(f, x, background, listener=listener, **options)


def feature_game(
    f: Function,
    x: Any,
    background: Any = None,
    *,
    absent: str | Masker = "interventional",
    output: int | str | None = None,
    output_names: Sequence[str] = (),
    names: Sequence[str] | None = None,
    groups: GroupsByName = None,
    memory: str | int | None = None,
) -> CoalitionGame:
    """The game whose players are the features of inputs: for interactions, Owen values and the axioms.

    >>> game = feature_game(lambda x: x[:, 0] * x[:, 1], [2.0, 3.0], [0.0, 0.0], names=["a", "b"])
    >>> game.players, game.table().tolist()
    (('a', 'b'), [0.0, 0.0, 0.0, 6.0])
    """
    asked = _asked(f, x, background, absent, (output, output_names), names, groups)
    worth = MaskedFunction(asked.f, asked.x, asked.masker, asked.output, memory)
    return CoalitionGame((lambda masks: worth(masks)[0]) if asked.single else worth, asked.masker.names)


class _Asked(NamedTuple):
    """A question, checked."""

    f: Function
    x: np.ndarray
    """With a batch axis."""
    single: bool
    """Whether it came without one."""
    masker: Masker
    rows: np.ndarray | None
    output: int
    title: str


def _asked(
    f: Any,
    x: Any,
    background: Any,
    absent: str | Masker,
    output: tuple[int | str | None, Sequence[str]],
    names: Sequence[str] | None,
    groups: GroupsByName,
) -> _Asked:
    chosen, output_names = output
    columns = frame_columns(x, background)
    reading = f.data.reading if isinstance(f, Run) else None
    if isinstance(f, Run):
        own = groups_of(f.data)
        f = output_function(f, f.data)
        output_names = output_names or f.names
        if names is None and groups is None and not isinstance(absent, Masker):
            groups = {name: own.columns(index).tolist() for index, name in enumerate(own.names)}
    columns = columns if names is None else tuple(names)
    inputs = numbers("x", x)
    masker, rows = _masker(absent, background, inputs, names, numbered(groups, columns), columns)
    single = inputs.ndim == _axes(masker)
    batch = inputs[None] if single else inputs
    _check_shape(batch, masker)
    check_finite_rows("x", batch)
    if reading is not None:
        check_marks("x", batch, reading)
    if rows is not None:
        check_finite_rows("background", rows)
        if reading is not None and absent == "interventional" and len(rows) > 1:
            check_marks("background", rows, reading)
        warn_outside(batch, rows, masker)
    adapted_f = adapted("shapley", f, batch)
    position, title = choose_output(
        "shapley", chosen, count_outputs("shapley", adapted_f, batch), output_names
    )
    return _Asked(adapted_f, batch, single, masker, rows, position, title)


class _Options(NamedTuple):
    method: str
    budget: int | None
    tol: float
    seed: int
    force: bool

    def chosen(self, players: int, masker: Masker | None = None) -> str:
        """The method by name, for a game or for features of a function."""
        if self.method != "auto":
            return self.method
        if players <= FEW:
            return "exact"
        many = masker is not None and has_row_orders(masker) and masker.samples >= LEAST_ROWS
        return "rows" if many and (self.budget is None or self.budget >= least_budget(players)) else "kernel"

    def plan(self, players: int, each: int, masker: Masker | None = None) -> ExplanationPlan:
        """What it costs when a coalition takes so many evaluations."""
        method = self.chosen(players, masker)
        if method == "exact":
            check_count(
                "shapley", players, self.force, "sample them: method='kernel' or method='permutation'"
            )
        budget = 2 * players + 2048 if self.budget is None else self.budget
        every = 1 << players if method == "exact" or players <= EXACT_LIMIT else budget + 2
        if method == "rows":
            return ExplanationPlan(method, budget + 2, (budget + 2) * each)
        coalitions = players + 2 if method == "additive" else min(every, 1 << min(players, 62))
        return ExplanationPlan(method, coalitions, coalitions * each)

    def divided(self, game: CoalitionGame, worth: MaskedFunction | None = None) -> GameValues:
        """The values of a game, or of the game of a function's features."""
        method = self.chosen(len(game.players), worth and worth.masker)
        if method == "exact":
            return exact_values(game, self.force)
        if method == "additive":
            return additive_values(game)
        if method == "kernel":
            return kernel_values(game, budget=self.budget, tol=self.tol, seed=self.seed)
        if method == "permutation":
            return permutation_values(game, budget=self.budget, tol=self.tol, seed=self.seed)
        if method == "rows":
            if worth is None:
                raise ArgumentError(
                    "shapley(method='rows'): a game has no background rows", remedy="use method='permutation'"
                )
            return row_order_values(worth, budget=self.budget, tol=self.tol, seed=self.seed)
        raise ArgumentError(
            f"shapley(method={method!r}): the function could not be shown to be affine",
            remedy="use method='auto', or 'additive' for a sum of functions of one feature each",
        )


def _of_game(
    given: Any,
    names: Sequence[str] | None,
    background: Any,
    options: _Options,
    listener: Callable[[str], None] | None,
) -> Explanation:
    if background is not None:
        raise ArgumentError("shapley(x=None): a background was given, but no input", remedy="give x as well")
    if not isinstance(given, CoalitionGame) and callable(given) and names is None:
        raise ArgumentError(
            "shapley(x=None): a function needs inputs to be explained at",
            remedy="give x and background, or a game: shapley(CoalitionGame(v, players=3))",
        )
    game = given if isinstance(given, CoalitionGame) else CoalitionGame(given, names)
    _say(listener, options.plan(len(game.players), 1))
    before = game.evaluations
    found = options.divided(game)
    present = np.ones(found.values.shape)
    return Explanation(
        *(found.values, game.base, game.total, present, game.players, found.method),
        errors=found.errors,
        output="worth",
        kind="game",
        evaluations=game.evaluations - before,
    )


def _explained(
    asked: _Asked, options: _Options, memory: str | int | None, listener: Callable[[str], None] | None
) -> Explanation:
    f, x, masker, rows, output = asked.f, asked.x, asked.masker, asked.rows, asked.output
    affine = options.method in ("auto", "linear") and not isinstance(f, HostFunction) and is_affine(f, x)
    outputs = evaluate(f, x, output)
    owners = np.asarray(masker.owners)

    def made(found: GameValues, base: np.ndarray, kind: str, evaluations: int) -> Explanation:
        return Explanation(
            *(found.values, base, outputs, x, masker.names, found.method),
            errors=found.errors,
            output=asked.title,
            kind=kind,
            background=masker.fingerprint,
            evaluations=evaluations,
            membership=owners,
        )

    if affine and isinstance(masker, Replacing) and rows is not None:
        mean = rows.astype(np.float64).mean(axis=0)
        _say(listener, f"linear, closed form: {len(x) + 2} evaluations")
        base = np.full(len(x), evaluate(f, mean[None].astype(x.dtype), output)[0])
        kind = f"interventional, {len(rows)} background rows" if len(rows) > 1 else masker.kind
        found = linear_values(f, x, mean, owners, len(masker.names), output)
        return made(found, base, kind, len(x) + 2)
    if affine and isinstance(masker, GaussianConditional):
        masker = masker.at_mean()  # what is expected of an affine function is its value at what is expected
    if affine:
        options = options._replace(method="auto")
    worth = MaskedFunction(f, x, masker, output, memory)
    _say(listener, options.plan(len(masker.names), worth.cost(1), masker))
    game = CoalitionGame(worth, masker.names)
    found = options.divided(game, worth)
    return made(found, game.base, masker.kind, worth.evaluations + len(x))


def _say(listener: Callable[[str], None] | None, what: object) -> None:
    if listener is not None:
        listener(str(what))


def _axes(masker: Masker) -> int:
    """Axes of one input."""
    for_each = isinstance(masker, Replacing) and masker.for_each
    return masker.owners.ndim - for_each


def _masker(
    absent: str | Masker,
    background: Any,
    x: np.ndarray,
    names: Sequence[str] | None,
    groups: Groups,
    columns: Sequence[str] | None,
) -> tuple[Masker, np.ndarray | None]:
    """What stands for absent features, and the background rows it was made from."""
    if isinstance(absent, Masker):
        given = {"background": background, "names": names, "groups": groups}
        for word, value in given.items():
            if value is not None:
                raise ArgumentError(
                    f"shapley({word}=..., absent=...): a masker says itself what stands for absent features, and "
                    "which features there are",
                    remedy=f"give {word} to the masker, or name what absent features are: {', '.join(ABSENT)}",
                )
        return absent, None
    names = columns
    check_choice("shapley", "absent", absent, [*ABSENT, "baseline"])
    if background is None:
        raise ArgumentError(
            "shapley(background=None): nothing stands for absent features",
            remedy="give rows of training data, or one reference such as zeros, or a masker: absent=...",
        )
    rows = numbers("background", background)
    if rows.ndim < x.ndim or x.ndim == rows.ndim == 1:
        rows = rows[None]
    if absent == "baseline" and len(rows) > 1:
        raise ArgumentError(
            f"shapley(absent='baseline'): the background has {len(rows)} rows, a baseline is one",
            remedy="give one row, for example background.mean(axis=0)",
        )
    mine, theirs = x.shape[x.ndim - rows.ndim + 1 :], rows.shape[1:]
    if mine != theirs or x.ndim > rows.ndim:
        raise ArgumentError(
            f"shapley: inputs have shape {mine}, background rows {theirs}",
            remedy="give background rows with the same columns in the same order as x",
        )
    rows = rows.astype(np.result_type(rows, x))
    if len(rows) == 1 and absent in ("interventional", "baseline"):
        return baseline(rows[0], names, groups), rows
    return ABSENT[absent](rows, names, groups), rows


def _check_shape(x: np.ndarray, masker: Masker) -> None:
    """Raise where a masker was made for inputs of another shape."""
    shape = masker.owners.shape[masker.owners.ndim - _axes(masker) :]
    if x.shape[1:] != shape:
        raise ArgumentError(
            f"shapley: inputs have shape {x.shape[1:]}, the masker was made for {shape}",
            remedy="make the masker of inputs like x",
        )


__all__ = ["ABSENT", "FEW", "METHODS", "ExplanationPlan", "explain", "feature_game", "shapley"]

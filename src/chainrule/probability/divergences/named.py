"""f-divergences by what a person writes on a command line: a short name, a name of the table, or a formula."""

import jax

from chainrule.core.errors import ArgumentError, suggest
from chainrule.probability.divergences.f_divergences import FDivergence, f_divergences
from chainrule.probability.divergences.own import register

SHORT_NAMES = {
    "kl": "KL",
    "reverse-kl": "reverse KL",
    "pearson": "Pearson chi-square",
    "neyman": "Neyman chi-square",
    "hellinger": "full squared Hellinger",
    "jeffreys": "Jeffreys",
    "2-jsd": "2 JSD",
    "gan": "GAN",
    "total-variation": "total variation",
}
"""Short names of rows of the table of f-divergences."""


def named(name: str) -> FDivergence:
    """The f-divergence of a setting: a row of the table, one that was registered, or one by its formula.

    A formula is read, never run, and checked: it has to be convex, with f(1) = 0. It becomes a row of the table
    `f_divergences` whose name is the formula.

    >>> named("2-jsd").name, named("reverse KL").name, named("(u-1)^2/(u+1)").threshold
    ('2 JSD', 'reverse KL', 0.0)
    """
    row = SHORT_NAMES.get(name, name)
    if row in f_divergences:
        return f_divergences[row]
    if "u" not in name or not any(sign in name for sign in "()+-*/^"):
        raise ArgumentError(
            f"divergence={name}: no such f-divergence{suggest(name, [*SHORT_NAMES, *f_divergences])}",
            remedy=f"use one of {', '.join(SHORT_NAMES)}, or a formula of the ratio u: divergence='(u-1)^2/(u+1)'\n"
            "one that was registered has to be registered in every program that opens the run; a formula need not",
        )
    with jax.ensure_compile_time_eval():  # models are also outlined while a program is traced
        return register(name, name)


__all__ = ["SHORT_NAMES", "named"]

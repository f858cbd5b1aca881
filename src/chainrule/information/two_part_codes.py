"""What a latent variable costs in a code, for tables, and what comes back of it: two parts, bits back, best choices."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import rel_entr, xlogy

from chainrule.core.errors import ArgumentError
from chainrule.information import tables
from chainrule.information.units import scale, takes_base


@final
@dataclass(frozen=True)
class CodeReport:
    """Mean lengths of codes of x, all in one unit."""

    entropy: float
    """H(x): no code is shorter; of data that follow another distribution, the cross-entropy."""
    divergence: float
    """Mean KL(q(z|x) || p(z|x)), what an inexact posterior wastes."""
    bits_back: float
    """z by the prior, x given z, less what choosing z by q takes off: minus the bound."""
    two_part: float
    """z by the prior and x given z, for a z drawn from q, nothing coming back."""
    best_codeword: float
    """The same for the z that makes it shortest."""
    unit: str

    def __str__(self) -> str:
        rows = {
            "entropy H(x)": self.entropy,
            "bits back (entropy + divergence)": self.bits_back,
            "best codeword": self.best_codeword,
            "two parts, nothing back": self.two_part,
        }
        return "\n".join(f"{name:<34}{value:.6f} {self.unit}" for name, value in rows.items())


@takes_base
def code_report(
    prior: Any, likelihood: Any, posterior: Any = None, *, data: Any = None, unit: str = "bits"
) -> CodeReport:
    """Lengths of the codes of x by way of a latent z: `prior[z]`, `likelihood[z, x]`, and q as `posterior[x, z]`.

    Without a posterior the exact one is used, and bits back cost no more than the entropy. `data[x]` is what
    data follow, if not the distribution of the model.

    >>> print(code_report([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]))
    entropy H(x)                      1.000000 bits
    bits back (entropy + divergence)  1.000000 bits
    best codeword                     1.152003 bits
    two parts, nothing back           1.468996 bits
    """
    p_z = tables.table("code_report", "prior", prior, 1)
    p_xz = tables.rows("code_report", "likelihood", likelihood)
    if len(p_xz) != len(p_z):
        raise ArgumentError(f"code_report(likelihood): {len(p_xz)} rows for {len(p_z)} values of z")
    joint = (p_z[:, None] * p_xz).T
    p_x = joint.sum(axis=1)
    if not (p_x > 0).all():
        raise ArgumentError(f"code_report(likelihood): no z gives x={int(np.argmin(p_x))} any probability")
    exact = joint / p_x[:, None]
    q = exact if posterior is None else tables.rows("code_report", "posterior", posterior)
    if q.shape != exact.shape:
        raise ArgumentError(
            f"code_report(posterior): shape {q.shape}; needs a row for each of {exact.shape[0]} x, with the "
            f"probabilities of {exact.shape[1]} z"
        )
    distribution = p_x if data is None else tables.table("code_report", "data", data, 1)
    factor = scale(unit, "code_report")
    with np.errstate(divide="ignore"):
        cost = -np.log(joint)
    two_part = distribution @ np.where(q > 0, q * np.where(q > 0, cost, 0.0), 0.0).sum(axis=1)
    noise = -distribution @ xlogy(q, q).sum(axis=1)
    return CodeReport(
        entropy=factor * float(-distribution @ np.log(p_x)),
        divergence=factor * float(distribution @ rel_entr(q, exact).sum(axis=1)),
        bits_back=factor * float(two_part - noise),
        two_part=factor * float(two_part),
        best_codeword=factor * float(distribution @ cost.min(axis=1)),
        unit=unit,
    )


__all__ = ["CodeReport", "code_report"]

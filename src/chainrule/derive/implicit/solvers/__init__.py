"""Solvers for roots, fixed points and minima; any function of the user's does as well."""

from chainrule.derive.implicit.solvers.lbfgs import LBFGS
from chainrule.derive.implicit.solvers.least_squares import GaussNewton, LevenbergMarquardt
from chainrule.derive.implicit.solvers.nesterov import Nesterov
from chainrule.derive.implicit.solvers.newton import Newton
from chainrule.derive.implicit.solvers.picard import Anderson, Picard
from chainrule.derive.implicit.solvers.solver import Solver, SolverOutcome, SolverTask

__all__ = [
    "LBFGS",
    "Anderson",
    "GaussNewton",
    "LevenbergMarquardt",
    "Nesterov",
    "Newton",
    "Picard",
    "Solver",
    "SolverOutcome",
    "SolverTask",
]

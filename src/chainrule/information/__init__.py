"""Information: what samples alone tell about the laws behind them."""

from chainrule.information.critics import Critic
from chainrule.information.divergences import DivergenceEstimate, divergence_estimate

__all__ = ["Critic", "DivergenceEstimate", "divergence_estimate"]

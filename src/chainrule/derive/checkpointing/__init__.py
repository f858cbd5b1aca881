"""Checkpointing: store fewer values for the reverse pass and recompute the rest."""

from chainrule.derive.checkpointing.planning import FrontierPoint, Plan, plan
from chainrule.derive.checkpointing.policies import checkpoint
from chainrule.derive.checkpointing.steps import Chain, Repeat

__all__ = ["Chain", "FrontierPoint", "Plan", "Repeat", "checkpoint", "plan"]

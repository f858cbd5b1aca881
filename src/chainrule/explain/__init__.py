"""Explanation: experiments that show mechanisms at work, and probes that examine trained runs."""

from chainrule.explain import experiments, probes
from chainrule.explain.methods.attacks import fgsm, pgd
from chainrule.explain.methods.saliency import grad_cam
from chainrule.explain.protocol import Experiment, Outcome, Probe, Settings

__all__ = ["Experiment", "Outcome", "Probe", "Settings", "experiments", "fgsm", "grad_cam", "pgd", "probes"]

"""Explanation: experiments that show mechanisms at work, probes that examine trained runs, and activations by name."""

from chainrule.explain import experiments, probes
from chainrule.explain.methods.ablation import ablate_heads, ablate_neurons
from chainrule.explain.methods.activations import activation_names, hooked, run_with_cache, run_with_hooks
from chainrule.explain.methods.attacks import fgsm, pgd
from chainrule.explain.methods.attribution import logit_attribution, source_attribution
from chainrule.explain.methods.head_habits import induction_scores
from chainrule.explain.methods.patching import patch_activations
from chainrule.explain.methods.rate_distortion import RateDistortion, rd_sweep
from chainrule.explain.methods.saliency import grad_cam
from chainrule.explain.protocol import Experiment, Outcome, Probe, Settings

__all__ = [
    "Experiment",
    "Outcome",
    "Probe",
    "RateDistortion",
    "Settings",
    "ablate_heads",
    "ablate_neurons",
    "activation_names",
    "experiments",
    "fgsm",
    "grad_cam",
    "hooked",
    "induction_scores",
    "logit_attribution",
    "patch_activations",
    "pgd",
    "probes",
    "rd_sweep",
    "run_with_cache",
    "run_with_hooks",
    "source_attribution",
]

"""Explanation: experiments that show mechanisms at work, probes that examine trained runs, and activations by name."""

from chainrule.explain import experiments, probes
from chainrule.explain.methods.ablation import ablate_heads, ablate_neurons
from chainrule.explain.methods.activations import activation_names, hooked, run_with_cache, run_with_hooks
from chainrule.explain.methods.attacks import auto_pgd, fgsm, pgd, smallest_eps, square_attack
from chainrule.explain.methods.attribution import logit_attribution, source_attribution
from chainrule.explain.methods.bounds import (
    interval_bounds,
    interval_certified,
    lipschitz_bound,
    lipschitz_radius,
)
from chainrule.explain.methods.counterfactuals import columns_of, counterfactuals
from chainrule.explain.methods.functions import host_function
from chainrule.explain.methods.global_importance.dependence import accumulated_effects, partial_dependence
from chainrule.explain.methods.global_importance.permutation_importance import permutation_importance
from chainrule.explain.methods.global_importance.sage import sage
from chainrule.explain.methods.gradients.deep_lift import deep_lift
from chainrule.explain.methods.gradients.expected_gradients import expected_gradients
from chainrule.explain.methods.gradients.grad_cam import class_activation_map, grad_cam
from chainrule.explain.methods.gradients.gradient_times_input import gradient_times_input
from chainrule.explain.methods.gradients.integrated_gradients import integrated_gradients
from chainrule.explain.methods.gradients.saliency import saliency
from chainrule.explain.methods.gradients.smooth_grad import smooth_grad
from chainrule.explain.methods.head_habits import induction_scores
from chainrule.explain.methods.influence.gradient_trace import gradient_trace
from chainrule.explain.methods.influence.influence_functions import influence
from chainrule.explain.methods.influence.neighbour_shapley import neighbour_shapley
from chainrule.explain.methods.patching import patch_activations
from chainrule.explain.methods.quality.agreement import agreement
from chainrule.explain.methods.quality.deletion import deletion_curves
from chainrule.explain.methods.quality.stability import stability
from chainrule.explain.methods.rate_distortion import RateDistortion, rd_sweep
from chainrule.explain.methods.robustness import robustness, transfer_attack
from chainrule.explain.methods.rules.extraction import extract_rules
from chainrule.explain.methods.shapley.axioms import check_axioms
from chainrule.explain.methods.shapley.explaining import explain, feature_game, shapley
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.explain.methods.shapley.games import CoalitionGame
from chainrule.explain.methods.shapley.interactions import interactions
from chainrule.explain.methods.shapley.owen import owen_values
from chainrule.explain.methods.smoothing import certified_radius, certify, smoothed_classes
from chainrule.explain.methods.superpixels import superpixels
from chainrule.explain.methods.surrogates.lime import lime
from chainrule.explain.protocol import Experiment, Outcome, Probe, Settings

__all__ = [
    "CoalitionGame",
    "Experiment",
    "Explanation",
    "Outcome",
    "Probe",
    "RateDistortion",
    "Settings",
    "ablate_heads",
    "ablate_neurons",
    "accumulated_effects",
    "activation_names",
    "agreement",
    "auto_pgd",
    "certified_radius",
    "certify",
    "check_axioms",
    "class_activation_map",
    "columns_of",
    "counterfactuals",
    "deep_lift",
    "deletion_curves",
    "expected_gradients",
    "experiments",
    "explain",
    "extract_rules",
    "feature_game",
    "fgsm",
    "grad_cam",
    "gradient_times_input",
    "gradient_trace",
    "hooked",
    "host_function",
    "induction_scores",
    "influence",
    "integrated_gradients",
    "interactions",
    "interval_bounds",
    "interval_certified",
    "lime",
    "lipschitz_bound",
    "lipschitz_radius",
    "logit_attribution",
    "neighbour_shapley",
    "owen_values",
    "partial_dependence",
    "patch_activations",
    "permutation_importance",
    "pgd",
    "probes",
    "rd_sweep",
    "robustness",
    "run_with_cache",
    "run_with_hooks",
    "sage",
    "saliency",
    "shapley",
    "smallest_eps",
    "smooth_grad",
    "smoothed_classes",
    "source_attribution",
    "square_attack",
    "stability",
    "superpixels",
    "transfer_attack",
]

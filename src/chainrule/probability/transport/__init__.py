"""Optimal transport between sets of points."""

from chainrule.probability.transport.barycenters import (
    FixedBarycenter,
    FreeBarycenter,
    fixed_barycenter,
    free_barycenter,
)
from chainrule.probability.transport.colors import ColorTransfer, transfer_colors
from chainrule.probability.transport.costs import cost_matrix
from chainrule.probability.transport.couplings import CoupledRows, batch_pairs, draw_pairs
from chainrule.probability.transport.divergence import sinkhorn_divergence, usual_eps
from chainrule.probability.transport.duality import (
    Bounds,
    bounds,
    c_transform,
    lipschitz_constant,
    rounded,
    slack,
)
from chainrule.probability.transport.entropic.points import point_costs
from chainrule.probability.transport.entropic.result import EntropicTransport
from chainrule.probability.transport.exact import ExactTransport, exact, wasserstein
from chainrule.probability.transport.maps import (
    Cloud,
    Matches,
    barycentric_map,
    displacement,
    top_matches,
    transfer_labels,
)
from chainrule.probability.transport.marginals import Entries
from chainrule.probability.transport.matrix_scaling import ScaledMatrix, scale_matrix
from chainrule.probability.transport.monge import MongeMap, monge
from chainrule.probability.transport.normals import (
    EntropicNormals,
    NormalTransport,
    entropic_normals,
    normal_transport,
)
from chainrule.probability.transport.one_dimensional import monotone_coupling, wasserstein_1d
from chainrule.probability.transport.permutations import (
    SoftPermutation,
    hard_permutation,
    soft_permutation,
)
from chainrule.probability.transport.point_flow import PointFlow, point_flow
from chainrule.probability.transport.projections import Projections, alternating_projections
from chainrule.probability.transport.rates import ContractionRate, contraction_rate, local_rate
from chainrule.probability.transport.rubinstein import LipschitzWitness, kantorovich_rubinstein
from chainrule.probability.transport.sinkhorn import sinkhorn
from chainrule.probability.transport.sliced import Slices, max_sliced, sliced, slices
from chainrule.probability.transport.unbalanced import unbalanced

__all__ = [
    "Bounds",
    "Cloud",
    "ColorTransfer",
    "ContractionRate",
    "CoupledRows",
    "Entries",
    "EntropicNormals",
    "EntropicTransport",
    "ExactTransport",
    "FixedBarycenter",
    "FreeBarycenter",
    "LipschitzWitness",
    "Matches",
    "MongeMap",
    "NormalTransport",
    "PointFlow",
    "Projections",
    "ScaledMatrix",
    "Slices",
    "SoftPermutation",
    "alternating_projections",
    "barycentric_map",
    "batch_pairs",
    "bounds",
    "c_transform",
    "contraction_rate",
    "cost_matrix",
    "displacement",
    "draw_pairs",
    "entropic_normals",
    "exact",
    "fixed_barycenter",
    "free_barycenter",
    "hard_permutation",
    "kantorovich_rubinstein",
    "lipschitz_constant",
    "local_rate",
    "max_sliced",
    "monge",
    "monotone_coupling",
    "normal_transport",
    "point_costs",
    "point_flow",
    "rounded",
    "scale_matrix",
    "sinkhorn",
    "sinkhorn_divergence",
    "slack",
    "sliced",
    "slices",
    "soft_permutation",
    "top_matches",
    "transfer_colors",
    "transfer_labels",
    "unbalanced",
    "usual_eps",
    "wasserstein",
    "wasserstein_1d",
]

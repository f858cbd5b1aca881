"""The likelihood by the probability flow beside the variational bound, example by example."""

import math
from dataclasses import replace
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Scatter, Table
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasFlowLikelihood, Model
from chainrule.train import Run

_MOST = 4096


@final
class FlowSettings(Settings):
    """The examples and the solver."""

    n: int = Field(32, ge=2, description="held-out examples")
    probes: int = Field(
        0, ge=0, description="random directions for the divergence; 0: exact up to 64 dimensions, 8 above"
    )
    tolerance: float = Field(1e-4, gt=0, description="of the adaptive solver")
    seed: int = Field(0, ge=0, description="noise")


def examine(run: Run, data: Data, settings: FlowSettings) -> Outcome:
    """The flow solved from held-out examples up to the noise and back."""
    model = run.model
    assert isinstance(model, HasFlowLikelihood)
    part, said = data.held_out()
    x = jnp.asarray(part.batch(np.arange(min(settings.n, len(part)))).x, jnp.float32)
    key = random.key(settings.seed, "probe")
    found = model.flow_likelihood(x, key, probes=settings.probes, tolerance=settings.tolerance)
    elbo = eqx.filter_jit(lambda model: model.elbo(x, jax.random.split(key, 3)[2]))(model)
    # Of the original data: what the data set says of the units of the model.
    levels = data.schema.levels
    scale = data.schema.dimensions * math.log(2) if levels else 1.0
    unit = "bits per dimension" if levels else "nats"
    flow, bound = (data.nats(value) / scale for value in (found.log_prob, elbo))
    numbers = {
        "flow": float(flow.mean()),
        "flow_error": float(flow.std() / math.sqrt(len(flow))),
        "bound": float(bound.mean()),
        "bound_error": float(bound.std() / math.sqrt(len(bound))),
        "evaluations": found.evaluations,
        "round_trip": float(np.asarray(found.round_trip).mean()),
        "error_of_random_directions": float(np.asarray(found.stderr).mean()) / scale,
        "prior_mismatch": float(np.asarray(found.prior_mismatch).mean()) / scale,
    }
    outcome = _outcome(numbers, flow, bound, unit, discrete=bool(levels))
    return replace(outcome, findings=[*outcome.findings, *said])


def _outcome(
    numbers: dict[str, float | int], flow: np.ndarray, bound: np.ndarray, unit: str, *, discrete: bool
) -> Outcome:
    what = "bound by the flow, over levels" if discrete else "density by the flow"
    rows: list[list[str | float | int]] = [[name.replace("_", " "), value] for name, value in numbers.items()]
    return Outcome(
        [
            f"Held-out examples cost {numbers['flow']:.3f} ± {numbers['flow_error']:.2g} {unit} ({what}) and "
            f"{numbers['bound']:.3f} ± {numbers['bound_error']:.2g} by the variational bound, whatever the class.",
            f"The flow took {numbers['evaluations']} evaluations; brought back, an example is "
            f"{numbers['round_trip']:.2g} away from itself. Data at the noisiest level differ from the distribution "
            f"samplers start from by {numbers['prior_mismatch']:.2g} {unit}.",
        ],
        [
            Scatter(
                "flow-likelihood",
                "Cost of each held-out example",
                f"variational bound, {unit}",
                f"{what}, {unit}",
                {"held-out examples": np.stack([bound, flow], axis=1)},
                diagonal=True,
                caption="Below the line the flow gives the example a higher probability than the bound.",
            )
        ],
        Table("flow-likelihood", "Likelihood by the flow", ["", "value"], rows),
        numbers,
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasFlowLikelihood) and schema.dimensions <= _MOST


probe = Probe(
    "The likelihood by the probability flow beside the variational bound.",
    f"a diffusion model of at most {_MOST:,} dimensions",
    _applies,
    examine,
    FlowSettings,
    toy={"n": 2, "probes": 1, "tolerance": 0.1},
)

__all__ = ["FlowSettings", "examine", "probe"]

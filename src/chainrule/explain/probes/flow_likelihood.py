"""The likelihood of a diffusion model by its probability flow, beside its variational bound, example by example."""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Scatter, Table
from chainrule.core.types import Array, Float, Key
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.base import Outcome, Probe, Settings
from chainrule.models.diffusion import bounds, units
from chainrule.models.diffusion.generative import Generative
from chainrule.models.diffusion.likelihood import Likelihood, flow_log_prob
from chainrule.models.diffusion.process import noised
from chainrule.models.protocol import Model
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


def look(run: Run, data: Data, settings: FlowSettings) -> Outcome:
    """The flow solved from held-out examples up to the noise and back."""
    model = run.model
    assert isinstance(model, Generative)
    part = data.test if len(data.test) else data.val
    x = jnp.asarray(part.batch(np.arange(min(settings.n, len(part)))).x, jnp.float32)
    for_clean, for_signs, for_bound = jax.random.split(random.key(settings.seed, "probe"), 3)
    nats, found = _nats(model, x, for_clean, for_signs, settings)
    bound = -np.asarray(eqx.filter_jit(lambda model: model.elbo(x, for_bound))(model), np.float64)
    flow = -np.asarray(units.log_density(model.schema, nats), np.float64)
    # Of the original data: what the data set says of the units of the model.
    scale = data.schema.dimensions * math.log(2) if model.schema.levels else 1.0
    unit = "bits per dimension" if model.schema.levels else "nats"
    flow, bound = (
        data.bits_per_dim(-v) * data.schema.dimensions * math.log(2) / scale for v in (flow, bound)
    )
    noisy = model.schedule.process.level(jnp.asarray(float(model.lams()[1]), jnp.float32))
    mismatch = np.asarray(bounds.prior_term(model.inside(x), noisy, model.schedule.process)).mean()
    numbers = {
        "flow": float(flow.mean()),
        "flow_error": float(flow.std() / math.sqrt(len(flow))),
        "bound": float(bound.mean()),
        "bound_error": float(bound.std() / math.sqrt(len(bound))),
        "evaluations": found.evaluations,
        "round_trip": float(np.asarray(found.round_trip).mean()),
        "error_of_random_directions": float(np.asarray(found.stderr).mean()) / scale,
        "prior_mismatch": float(mismatch) / scale,
    }
    return _outcome(numbers, flow, bound, unit, discrete=bool(model.schema.levels))


def _nats(
    model: Generative, x: Array, for_clean: Key, for_signs: Key, settings: FlowSettings
) -> tuple[Float[Array, " batch"], Likelihood]:
    """Cost of each example as the network sees it.

    Continuous data are taken as they are at the cleanest level. Data with levels are noised to it, and what is gained
    and lost by that is counted: log p(x) >= E[log p(z) + log p(x|z) - log q(z|x)], z at the cleanest level.
    """
    high, low = (float(lam) for lam in model.lams())
    x0, process = model.inside(x), model.schedule.process
    clean = process.level(jnp.asarray(high, x0.dtype))
    z = noised(x0, jax.random.normal(for_clean, x0.shape, x0.dtype), clean) if model.schema.levels else x0
    found = flow_log_prob(
        model.denoiser,
        z,
        process,
        (high, low),
        probes=settings.probes,
        key=for_signs,
        tolerance=settings.tolerance,
    )
    if not model.schema.levels:
        return -found.log_prob, found
    entropy = x0[0].size * 0.5 * (1 + math.log(2 * math.pi) + 2 * jnp.log(clean.s))
    # The same noise as above: `reconstruction` draws it from the same key.
    return -found.log_prob + model.reconstruction(x0, jnp.asarray(high), for_clean) - entropy, found


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
            f"{numbers['round_trip']:.2g} away from itself. Data at the noisiest level differ from the law samplers "
            f"start from by {numbers['prior_mismatch']:.2g} {unit}.",
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
    return isinstance(model, Generative) and schema.dimensions <= _MOST


probe = Probe(
    "The likelihood by the probability flow beside the variational bound.",
    f"a diffusion model of at most {_MOST:,} dimensions",
    _applies,
    look,
    FlowSettings,
)

__all__ = ["FlowSettings", "look", "probe"]

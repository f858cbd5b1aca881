"""The audit of a flow: whether its layers are invertible, their volumes right, and its probabilities sum to one."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random, tree
from chainrule.core.types import Array, Key
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import HasAudit, Model
from chainrule.networks import units
from chainrule.networks.flows.audit_pictures import audit_table
from chainrule.networks.flows.findings import Audit
from chainrule.train import Run
from chainrule.train.naming import handle


@final
class AuditSettings(Settings):
    """Where the flow is looked at."""

    n: Count = Field(256, description="held-out examples")
    seed: int = Field(
        0, ge=0, description="of noise that fills the gaps between levels, and of codes far out"
    )
    double: bool = Field(
        False,
        description="in double precision: what is still off then is no rounding, but a map that is wrong",
    )


def examine(run: Run, data: Data, settings: AuditSettings) -> Outcome:
    """There and back at held-out examples and at codes far out, layer by layer."""
    model: Any = eqx.nn.inference_mode(run.model)  # can be audited, see `_applies`
    split, said = data.held_out()
    key = random.key(settings.seed, "audit")
    batch = split.batch(np.arange(min(settings.n, len(split))))
    x = units.dequantized(data.schema, jnp.asarray(batch.x, jnp.float32), random.at(key, 0))
    given = model.conditional and batch.y is not None
    found = audited(model, x, random.at(key, 1), batch.y if given else None, double=settings.double)
    worst = max(found.whole.inverse_error, found.far.inverse_error)
    verdict = ["Nothing is off by more than the tolerance."]
    if found.failures:
        more = "" if settings.double else f": chainrule probe {handle(run.path)} audit double=true"
        remedy = f"{found.remedy[0].upper()}{found.remedy[1:]}{more}."
        verdict = [f"{len(found.failures)} of its checks failed: {'; '.join(found.failures)}.", remedy]
    return Outcome(
        [
            f"Data are found again from their codes to {worst:.2g}, a tolerance of {found.tolerance:g} allowed.",
            *verdict,
            f"{found.mass.words[0].upper()}{found.mass.words[1:]}.",
            *(
                [
                    "Each example is told its own condition; the total is that given the condition of the first."
                ]
                if given
                else []
            ),
            *said,
        ],
        [],
        audit_table(found),
        {
            "failures": found.failures,
            "tolerance": found.tolerance,
            "mass": found.mass._asdict(),
            "layers": [_numbers(part) for part in found.parts],
        },
    )


def audited(model: HasAudit, x: Array, key: Key, condition: Any, *, double: bool) -> Audit:
    """The audit of a model, in double precision on demand."""
    if not double:
        return model.audit(x, key, condition)
    with jax.enable_x64(True):
        wide, x = tree.cast((model, x), jnp.float64)
        return wide.audit(x, key, condition)


def _numbers(part: Any) -> dict[str, Any]:
    """Those of one layer, with nothing where they were not computed."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in part._asdict().items()
    }


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, HasAudit)


probe = Probe(
    "Audit of a flow: there and back, volumes against Jacobians, total probability.",
    "a normalizing flow",
    _applies,
    examine,
    AuditSettings,
    toy={"n": 8},
)

__all__ = ["AuditSettings", "audited", "examine", "probe"]

"""What a model has to be given to be trained or judged."""

from chainrule.core.errors import CapabilityError
from chainrule.data.schema import Schema
from chainrule.models.protocol.encoding import HasJointSpace
from chainrule.models.protocol.model import Model
from chainrule.models.protocol.prediction import CanPredict
from chainrule.models.protocol.sampling import CanSample
from chainrule.models.protocol.separation import CanSeparate
from chainrule.models.protocol.text import CanTranslate


def needs_targets(model: Model) -> bool:
    """Whether a model predicts targets, is conditioned on them or compares with them, and is not judged without."""
    if isinstance(model, CanPredict | CanSeparate | CanTranslate | HasJointSpace):
        return True
    return isinstance(model, CanSample) and model.conditional


def require_binary(name: str, schema: Schema, otherwise: str) -> None:
    """Raise unless the data are zeros and ones; `otherwise` is what to train on them as they are.

    >>> require_binary("nade", Schema("image", (8, 8, 1), levels=17), "chainrule train made")
    Traceback (most recent call last):
    chainrule.core.errors.CapabilityError: nade models zeros and ones; these image data have 17 levels
           make them binary: data.binarize=threshold, or data.binarize=stochastic
           or keep them as they are, with a model that fits: chainrule train made
    """
    if schema.levels != 2:
        what = f"{schema.levels} levels" if schema.levels else "numbers that are read as continuous"
        already = "" if schema.levels else "if they are zeros and ones already: data.levels=2\n"
        raise CapabilityError(
            f"{name} models zeros and ones; these {schema.kind} data have {what}",
            remedy=f"{already}make them binary: data.binarize=threshold, or data.binarize=stochastic\n"
            f"or keep them as they are, with a model that fits: {otherwise}",
        )


__all__ = ["needs_targets", "require_binary"]

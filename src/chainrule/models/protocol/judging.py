"""What a model has to be given to be judged."""

from chainrule.models.protocol.encoding import HasJointSpace
from chainrule.models.protocol.model import Model
from chainrule.models.protocol.prediction import CanPredict
from chainrule.models.protocol.sampling import CanSample
from chainrule.models.protocol.text import CanTranslate


def needs_targets(model: Model) -> bool:
    """Whether a model predicts targets, is conditioned on them or compares with them, and is not judged without."""
    if isinstance(model, CanPredict | CanTranslate | HasJointSpace):
        return True
    return isinstance(model, CanSample) and model.conditional


__all__ = ["needs_targets"]

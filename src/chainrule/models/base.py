"""The stable address of the model protocol: `chainrule.models.base.CanSample` and all the rest of `models.protocol`."""

from chainrule.models.protocol import *  # noqa: F403  # one list of names, kept by the protocol
from chainrule.models.protocol import __all__ as __all__

"""No target."""

from typing import ClassVar, final

from chainrule.data.schema import Schema
from chainrule.data.target import Target


@final
class NoTarget(Target):
    """Examples alone."""

    given: ClassVar[bool] = False

    def describe(self, schema: Schema) -> str:
        """Nothing."""
        del schema
        return ""


target = NoTarget()

__all__ = ["NoTarget", "target"]

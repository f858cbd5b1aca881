"""A network of infinite width after training by gradient descent, by its tangent kernel.

What the mean of all trained networks predicts, whatever their initial weights, in closed form.
"""

from typing import ClassVar, final

from chainrule.models.kernel.wide import WideConfig


@final
class NTKConfig(WideConfig):
    """Settings of the infinite network that gradient descent has trained."""

    tangent: ClassVar[bool] = True


__all__ = ["NTKConfig"]

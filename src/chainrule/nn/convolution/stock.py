"""XLA's own convolution and its gradient with respect to the weight."""

import jax

from chainrule.core.types import Array
from chainrule.nn.windows import Geometry


def convolution(x: Array, weight: Array, *, geometry: Geometry) -> Array:
    """`lax.conv_general_dilated`, channels last."""
    space = "DHW"[-len(geometry.stride) :]
    return jax.lax.conv_general_dilated(
        x,
        weight,
        geometry.stride,
        geometry.padding,
        lhs_dilation=geometry.input_dilation,
        rhs_dilation=geometry.dilation,
        dimension_numbers=(f"N{space}C", f"{space}IO", f"N{space}C"),
        feature_group_count=geometry.groups,
    )


def weight_gradient(x: Array, cotangent: Array, *, geometry: Geometry, kernel: tuple[int, ...]) -> Array:
    """The transpose of the above in the weight."""
    shape = (*kernel, x.shape[-1] // geometry.groups, cotangent.shape[-1])
    weight = jax.ShapeDtypeStruct(shape, cotangent.dtype)
    return jax.linear_transpose(lambda w: convolution(x, w, geometry=geometry), weight)(cotangent)[0]


__all__ = ["convolution", "weight_gradient"]

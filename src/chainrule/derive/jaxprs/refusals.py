"""How JAX refuses a function: errors that say something about the function, not about a mistake of ours."""

import jax

MISSING_RULE = (TypeError, ValueError, NotImplementedError)
"""A primitive or a custom function has no rule for a mode."""

NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
"""The function wants to know in Python what it computes."""

__all__ = ["MISSING_RULE", "NEEDS_VALUES"]

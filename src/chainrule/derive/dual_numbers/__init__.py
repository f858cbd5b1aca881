"""Forward mode by dual numbers: the numbers, NumPy's functions of them, and derivatives of functions of them."""

from chainrule.derive.dual_numbers import array_functions, elementary

__all__ = ["array_functions", "elementary"]

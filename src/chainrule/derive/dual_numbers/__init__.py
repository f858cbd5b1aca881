"""Forward mode by dual numbers: the numbers, and derivatives of functions of them."""

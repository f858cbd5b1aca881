"""Numbers are written for people, and can be read back."""

import math

from hypothesis import given
from hypothesis import strategies as st

from chainrule.core.formatting import measured, number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_number_is_the_number(value: float) -> None:
    written = number(value, 6).replace("−", "-").replace(",", "")
    superscripts = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    mantissa, _, exponent = written.partition("×10")
    read = float(f"{mantissa}e{exponent.translate(superscripts)}") if exponent else float(mantissa)
    assert math.isclose(read, value, rel_tol=1e-5, abs_tol=1e-320)


def test_values_and_errors_share_their_last_digit() -> None:
    assert measured(0.972222, 0.008671) == "0.9722 ± 0.0087"
    assert measured(-1234.5, 67.0) == "−1,234 ± 67"
    assert measured(0.5, float("nan")) == "0.5"
    assert measured(0.5, 0.0) == "0.5"

"""Labels keep apart, any text can be shown, ticks of one axis are written alike."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chainrule.core.quoting import plain
from chainrule.report import ticks
from chainrule.report.labels import spread


@given(st.lists(st.floats(-50, 150), min_size=1, max_size=12))
def test_labels_keep_their_order_their_distance_and_the_frame(wanted: list[float]) -> None:
    positions = spread(np.array(wanted), gap=10, low=0, high=200)
    order = np.argsort(wanted, kind="stable")
    assert np.all(np.diff(positions[order]) >= 10 - 1e-9)
    assert positions.min() >= -1e-9
    assert positions.max() <= 200 + 1e-9


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=8))
def test_labels_that_do_not_collide_are_not_moved(wanted: list[float]) -> None:
    apart = np.sort(wanted) + 10.0 * np.arange(len(wanted))
    np.testing.assert_allclose(spread(apart, gap=10, low=0, high=2000), apart, atol=1e-9)


@given(st.text())
def test_any_text_becomes_one_that_xml_may_hold(text: str) -> None:
    shown = plain(text)
    assert not any(ord(c) < 32 or 0xD800 <= ord(c) < 0xE000 or ord(c) in (0xFFFE, 0xFFFF) for c in shown)
    assert plain(shown) == shown


def test_ticks_of_one_axis_are_written_alike() -> None:
    assert ticks.write([0, 0.25, 0.5, 1]) == ["0", "0.25", "0.50", "1.00"]
    assert ticks.write([-2, 0, 2]) == ["−2", "0", "2"]
    assert ticks.write([0.00005, 0.0001, 0.00015]) == ["0.5×10⁻⁴", "1.0×10⁻⁴", "1.5×10⁻⁴"]
    assert ticks.write([0, 1e6, 2e6]) == ["0", "1,000,000", "2,000,000"]
    assert ticks.write([]) == []
    assert [ticks.PowerTicks()(10.0**k) for k in (-6, -1, 0, 3, 7)] == ["10⁻⁶", "0.1", "1", "1,000", "10⁷"]

"""Colours of every picture, by role, for light and for dark pages.

Drawings name roles (`ink` for text, `soft` for lesser text, `axis` and `grid` for lines, `field` for areas, digits for
series), so that pages can exchange the values. Roles never share a light value: `report.svg` finds the role by it. The
seven series colours stay apart under the three kinds of dichromacy (the tests simulate them); three further ones are
for groups of many members, such as the products of a sparse derivative.
"""

COLORS: dict[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#161b21"),
    "ink": ("#1b232d", "#e8ecf1"),
    "soft": ("#5c6773", "#a3adb9"),
    "axis": ("#a9b2bc", "#5a6571"),
    "grid": ("#e7eaee", "#2a323b"),
    "field": ("#7d8a99", "#8f9cab"),
    "1": ("#1e6db9", "#59affc"),
    "2": ("#c2540a", "#e8823f"),
    "3": ("#33a68f", "#72e9c0"),
    "4": ("#5f2c7c", "#a379bb"),
    "5": ("#b5900c", "#f5d056"),
    "6": ("#a483ea", "#cdcbfe"),
    "7": ("#742400", "#b5654a"),
    "8": ("#3d7a1f", "#93cf70"),
    "9": ("#9b3d86", "#e08fcc"),
    "10": ("#00808a", "#5fd0d8"),
    "box": ("#f7f9fb", "#1d232d"),
    "input": ("#e9f3ec", "#1d2f26"),
    "folded": ("#efeaf7", "#2a2438"),
    "mark": ("#b3261e", "#ff8a80"),
}
"""Light and dark value of each role."""
LIGHT = {role: light for role, (light, _) in COLORS.items()}
DARK = {role: dark for role, (_, dark) in COLORS.items()}
SERIES = tuple("1234567")
"""Roles of the series of a chart."""
GROUPS = (*SERIES, "8", "9", "10")
"""Roles of groups that are told apart by colour alone."""
SPOKEN = ("blue", "orange", "sea green", "violet", "ochre", "lilac", "brown", "green", "magenta", "petrol")
"""What the colours of groups are called."""

__all__ = ["COLORS", "DARK", "GROUPS", "LIGHT", "SERIES", "SPOKEN"]

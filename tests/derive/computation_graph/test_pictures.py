"""Tables, JSON, DOT and SVG: valid, complete, reproducible, and small however large the program."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.derive.computation_graph import graph
from chainrule.derive.computation_graph.layout import arrange
from tests.derive.computation_graph.functions import CASES, Case


def long_program(x: Any, rounds: int) -> Any:
    for _ in range(rounds):
        x = jnp.sin(x)
        x = x * 1.0001
    return x


def many_lines(x: Any) -> Any:
    a = jnp.sin(x)
    b = jnp.cos(a)
    c = a * b
    d = c + a
    e = d * b
    f = jnp.exp(-e)
    g = f + d
    h = g * g
    return h - f


@pytest.fixture(scope="module", params=[500, pytest.param(5000, marks=pytest.mark.slow)])
def rounds(request: pytest.FixtureRequest) -> int:
    """Half of the operations of a long program."""
    return int(request.param)


@pytest.fixture(scope="module")
def thousands(rounds: int) -> Any:
    return graph(lambda x: long_program(x, rounds), 1.0)


def _texts(picture: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(picture).iter() if node.tag.endswith("text")]


@pytest.mark.parametrize("case", CASES[::3], ids=lambda case: case.name)
def test_a_picture_is_valid_and_names_every_operation(case: Case) -> None:
    g = graph(case.f, *case.args)
    picture = g.to_svg()
    root = ET.fromstring(picture)
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    if len(g) <= 28:
        shown = _texts(picture)
        assert all(any(text.startswith(node.name[:12]) for text in shown) for node in g.nodes)


def test_pictures_are_reproducible() -> None:
    assert graph(many_lines, 0.5).to_svg() == graph(many_lines, 0.5).to_svg()
    assert graph(many_lines, 0.5).to_json() == graph(many_lines, 0.5).to_json()


def test_text_in_pictures_is_escaped() -> None:
    def function(x: Any) -> Any:
        return {"<b>&'\"": x * 2}

    picture = graph(function, 1.0).to_svg()
    assert "output.<b>&'\"" in _texts(picture)
    assert "<b>" not in picture


def test_files_hold_what_is_returned(tmp_path: Path) -> None:
    g = graph(many_lines, 0.5)
    for name, write in (("a.svg", g.to_svg), ("a.json", g.to_json), ("a.dot", g.to_dot)):
        assert write(tmp_path / name) == (tmp_path / name).read_text(encoding="utf-8")


def test_json_holds_both_sweeps_and_the_cuts() -> None:
    content = json.loads(graph(lambda x: x + x**2, 3.0).to_json())
    assert [node["tangent"] for node in content["nodes"]] == [1.0, 6.0, 7.0]
    assert [node["adjoint"] for node in content["nodes"]] == [7.0, 1.0, 1.0]
    assert content["cuts"] == [7.0, 7.0, 7.0]
    assert content["nodes"][1]["source"]["code"].startswith("content = json.loads")


def test_json_stays_strict_when_numbers_are_not_finite() -> None:
    text = graph(lambda x: jnp.log(x) * 2, 0.0).to_json()
    content = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert content["nodes"][1]["value"] == "-inf"


def test_large_values_are_summarised() -> None:
    g = graph(lambda x: jnp.sin(x).sum(), np.linspace(0.0, 1.0, 1000, dtype=np.float32))
    content = json.loads(g.to_json())
    assert set(content["nodes"][0]["value"]) == {"size", "finite", "nonfinite", "min", "mean", "max", "norm"}
    assert content["nodes"][0]["value"]["max"] == 1.0
    assert "mean 0.5, norm 18.3" in str(g)


def test_random_keys_and_integers_are_shown_without_derivatives() -> None:
    g = graph(lambda x, key: x * jax.random.normal(key), 2.0, jax.random.key(0))
    key = g.node("key")
    assert (key.tangent, key.adjoint) == (None, None)
    assert "key<fry>[]" in str(g)
    ET.fromstring(g.to_svg())


def test_half_precision_is_shown_and_summed_like_any_other() -> None:
    g = graph(lambda x: jnp.tanh(x).sum(), jnp.full((6,), 0.5, jnp.bfloat16))
    assert "bfloat16[6]" in str(g)
    assert g.invariant().deviation < 1e-2
    assert json.loads(g.to_json())["nodes"][1]["value"][0] == pytest.approx(0.462, abs=1e-2)


def test_the_table_has_one_row_per_node() -> None:
    g = graph(many_lines, 0.5)
    table = g.table()
    assert len(table.rows) == len(g)
    assert table.rows[1][:4] == [1, "sin", "sin(x)", "float32[]"]
    assert str(table.rows[1][-1]).startswith("test_pictures.py:")


def test_thousands_of_operations_become_a_small_picture(thousands: Any, rounds: int) -> None:
    assert len(thousands) == 2 * rounds + 1
    picture = thousands.to_svg()
    assert len(picture) < 20_000
    shown = " ".join(_texts(picture))
    assert f"{2 * rounds + 1} nodes in 2 boxes" in shown
    assert f"sin ×{rounds}, mul ×{rounds}" in shown
    assert len(thousands.table().rows) == 2
    assert thousands.to_dot().count("->") == 2


def test_thousands_of_operations_keep_the_invariant(thousands: Any) -> None:
    assert thousands.invariant().deviation < 1e-5


def test_a_node_of_a_large_graph_can_be_looked_at_closely(thousands: Any, rounds: int) -> None:
    shown = _texts(thousands.to_svg(focus="sin_200", radius=2))
    assert {"sin_199", "sin_200", "sin_201", "mul_199", "mul_200"} <= set(shown)
    assert f"2 steps around sin_200; {2 * rounds - 4} other nodes are not shown." in shown


def test_folding_leaves_no_cycles_and_no_node_out() -> None:
    g = graph(many_lines, 0.5)
    folded = g.fold(limit=5)
    assert sum(len(group.nodes) for group in folded.groups) == len(g)
    assert len(folded.groups) <= 6
    order: dict[int, int] = {}
    waiting = set(range(len(folded.groups)))
    links = [(link.tail, link.head) for link in folded.links if link.head is not None]
    while ready := [one for one in waiting if all(tail in order for tail, head in links if head == one)]:
        order |= dict.fromkeys(ready, len(order))
        waiting -= set(ready)
    assert not waiting


def test_links_between_groups_carry_the_whole_derivative() -> None:
    g = graph(many_lines, 0.5)
    folded = g.fold(limit=5)
    leaving_input = sum(link.product for link in folded.links if link.tail == 0)
    assert leaving_input == pytest.approx(g.derivative, rel=1e-5)


def test_every_source_line_of_a_python_loop_shares_a_box() -> None:
    def looped(x: Any) -> Any:
        for _ in range(30):
            y = jnp.sin(x)
            x = y * x
        return x + 1.0

    folded = graph(looped, 0.3).fold()
    assert [len(group.nodes) for group in folded.groups] == [1, 60, 1]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 14), st.integers(1, 6)), min_size=1, max_size=30))
def test_boxes_never_overlap_and_links_run_to_the_right(raw: list[tuple[int, int]]) -> None:
    links = list(dict.fromkeys((tail, tail + gap) for tail, gap in raw))
    count = max(head for _, head in links) + 1
    widths = [60.0 + 7 * (i % 5) for i in range(count)]
    heights = [30.0 + 11 * (i % 3) for i in range(count)]
    layout = arrange(widths, heights, links, between=40, apart=10)
    for tail, head in links:
        assert layout.x[tail] + widths[tail] / 2 < layout.x[head] - widths[head] / 2
    for a in range(count):
        for b in range(a):
            apart_x = abs(layout.x[a] - layout.x[b]) >= (widths[a] + widths[b]) / 2
            apart_y = abs(layout.y[a] - layout.y[b]) >= (heights[a] + heights[b]) / 2 - 1e-6
            assert apart_x or apart_y
    assert layout.y.min() - max(heights) / 2 <= layout.height

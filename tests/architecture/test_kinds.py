"""Kinds of data and targets are asked, never compared by name.

Outside `data/kinds` and `data/targets` nothing tests whether a kind or target has a certain name (`schema.kind ==
"image"`, `"text" in entry.targets`, `match schema.kind`) or looks something up by it (`TABLE[schema.kind]`): a new kind
of data would have to be added there too. The names are those of the files in the two folders.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.architecture.conftest import Write
from tests.architecture.source import Module, read

# What things that hold such a name are called: attributes, variables and arguments.
CALLED = {"kind", "kinds", "target", "targets", "target_as"}
FREE = ("data.kinds", "data.targets")


def comparisons(root: Path) -> list[str]:
    """Every comparison with the name of a kind or target, as `file:line: why`."""
    names = {
        path.stem.rstrip("_")
        for part in ("kinds", "targets")
        for path in (root / "data" / part).glob("[a-z]*.py")
    }
    return [
        f"{module.at(node)}: {why}"
        for module in read(root).modules.values()
        if not module.name.startswith(tuple(f"{root.name}.{part}" for part in FREE))
        for node, why in _found(module, names)
    ]


def _found(module: Module, names: set[str]) -> Iterator[tuple[ast.expr, str]]:
    for node in module.nodes:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            known = {text for side in sides for text in _texts(side) if text in names}
            if known and any(map(_is_called, sides)):
                yield node, f"compares with {', '.join(sorted(known))}"
        elif isinstance(node, ast.Match) and _is_called(node.subject):
            yield node.subject, "matches a name"
        elif _looks_up(node):
            yield node, "looks something up by name"


def _texts(side: ast.expr) -> list[str]:
    parts = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _is_called(side: ast.expr) -> bool:
    if isinstance(side, ast.Subscript):  # options["target_as"]
        return any(text in CALLED for text in _texts(side.slice))
    return (isinstance(side, ast.Name) and side.id in CALLED) or (
        isinstance(side, ast.Attribute) and side.attr in CALLED
    )


def _is_schema_field(node: ast.expr) -> bool:
    """Whether this is `schema.kind`, `data.schema.target`, `contents.kind` or the like."""
    if not isinstance(node, ast.Attribute) or node.attr not in ("kind", "target"):
        return False
    owner = node.value
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return name in ("schema", "contents", "described")


def _looks_up(node: ast.AST) -> TypeGuard[ast.expr]:
    """Whether this is `TABLE[schema.kind]` or `TABLE.get(schema.kind)`; the registries themselves may be asked."""
    if isinstance(node, ast.Subscript):
        return _is_schema_field(node.slice)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "get":
        return False
    registry = isinstance(node.func.value, ast.Name) and node.func.value.id in ("kinds", "targets")
    return any(map(_is_schema_field, node.args[:1])) and not registry


def test_nobody_compares_a_kind_or_a_target_by_name(chainrule: Path) -> None:
    found = comparisons(chainrule)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('bad = schema.kind == "image"', "compares with image"),
        ('bad = "image" != self.schema.kind', "compares with image"),
        ('bad = data.schema.target in ("class", "labels")', "compares with class, labels"),
        ('bad = kind not in {"image"}', "compares with image"),
        ('bad = "labels" in entry.targets', "compares with labels"),
        ('bad = options["target_as"] == "class"', "compares with class"),
        ("bad = TABLE[schema.kind]", "looks something up by name"),
        ("bad = TABLE.get(contents.target, 0)", "looks something up by name"),
        ('match schema.kind:\n    case "image":\n        bad = 1', "matches a name"),
    ],
)
def test_a_comparison_is_found_and_its_line_named(package: Write, line: str, why: str) -> None:
    folders = {"data/kinds/image.py": "", "data/targets/class_.py": "", "data/targets/labels.py": ""}
    root = package({**folders, "train/scores.py": f"first = 1\n{line}\n"})
    assert comparisons(root) == [f"chainrule/train/scores.py:2: {why}"]


@pytest.mark.parametrize(
    "line",
    [
        'good = solver.kind == "newton"',
        'good = schema.name == "image"',
        "good = schema.kind in entry.kinds",
        "good = kinds.get(schema.kind)",
        'good = Schema("image", (8, 8, 1))',
        'good = TABLE["image"]',
    ],
)
def test_what_compares_no_kind_or_target_is_left_alone(package: Write, line: str) -> None:
    folders = {"data/kinds/image.py": "good = schema.kind == 'image'\n", "data/targets/labels.py": ""}
    assert not comparisons(package({**folders, "train/scores.py": f"{line}\n"}))

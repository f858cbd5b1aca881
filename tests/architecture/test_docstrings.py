"""Every public name says what it is: modules, classes, functions and methods have docstrings.

A method that overrides a documented one inherits its docstring. Names that start with an underscore, overloads,
property setters and empty package markers are left out.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.conftest import Write
from tests.architecture.source import Class, Function, Module, Package, has_decorator, read, top_level


def undocumented(root: Path) -> list[str]:
    """Every public name without a docstring, as `file:line: name`."""
    package = read(root)
    return [line for module in package.modules.values() for line in _in_module(package, module)]


def _in_module(package: Package, module: Module) -> Iterator[str]:
    if (
        any(part.startswith("_") and part != "__main__" for part in module.name.split("."))
        or not module.tree.body
    ):
        return
    if ast.get_docstring(module.tree) is None:
        yield f"{module.shown}:1: module {module.name} has no docstring"
    for node in top_level(module.tree.body):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            if ast.get_docstring(node) is None:
                yield f"{module.at(node)}: class {node.name} has no docstring"
            yield from _in_class(package, Class(module, node))
        elif isinstance(node, Function) and _is_public(node) and ast.get_docstring(node) is None:
            yield f"{module.at(node)}: function {node.name} has no docstring"


def _in_class(package: Package, one: Class) -> Iterator[str]:
    heritage = [ancestor.methods for ancestor in package.ancestry(one)]
    for name, method in one.methods.items():
        documented = (ast.get_docstring(methods[name]) for methods in heritage if name in methods)
        if _is_public(method) and not any(documented):
            yield f"{one.module.at(method)}: method {one.node.name}.{name} has no docstring"


def _is_public(node: Function) -> bool:
    return not (node.name.startswith("_") or has_decorator(node, "overload") or has_decorator(node, "setter"))


def test_every_public_name_is_documented(chainrule: Path) -> None:
    found = undocumented(chainrule)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (1, "x = 1"),
        (2, "'''Module.'''\ndef f(): ..."),
        (2, "'''Module.'''\nasync def f(): ..."),
        (2, "'''Module.'''\nclass A: ..."),
        (4, "'''Module.'''\nclass A:\n    '''Class.'''\n    def f(self): ..."),
        (3, "'''Module.'''\nif True:\n    def f(): ..."),
    ],
)
def test_a_name_without_a_docstring_is_named(package: Write, line: int, text: str) -> None:
    found = undocumented(package({"core/own.py": text}))
    assert len(found) == 1
    assert found[0].startswith(f"chainrule/core/own.py:{line}: ")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "'''Module.'''\ndef _f(): ...\nclass _A:\n    def f(self): ...",
        "'''Module.'''\ndef f():\n    '''Function.'''\n    def inner(): ...",
        "'''Module.'''\nclass A:\n    '''Class.'''\n    def __len__(self): ...",
        "'''Module.'''\nfrom chainrule.core.base import Base\nclass A(Base):\n    '''Class.'''\n    def f(self): ...",
    ],
)
def test_documented_and_private_names_are_accepted(package: Write, text: str) -> None:
    base = "'''Module.'''\nclass Base:\n    '''Class.'''\n    def f(self):\n        '''Method.'''"
    assert undocumented(package({"core/base.py": base, "core/own.py": text})) == []

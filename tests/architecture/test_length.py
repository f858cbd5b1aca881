"""Modules and functions fit in a head.

A module of more than 400 lines, or one that holds a function of more than 60 (its docstring not counted), says why in
a comment that starts with "Long because" and stands above its first statement.
"""

import ast
from pathlib import Path

from tests.architecture.conftest import Write
from tests.architecture.source import Function, Module, read

MODULE_LINES = 400
FUNCTION_LINES = 60


def too_long(root: Path) -> list[str]:
    """Every module and function over the limit without a reason, as `file:line: how long`."""
    found = []
    for module in read(root).modules.values():
        if _has_reason(module):
            continue
        lines = len(module.text.splitlines())
        if lines > MODULE_LINES:
            found.append(f"{module.shown}:1: module of {lines} lines")
        found += [
            f"{module.at(node)}: function {node.name} of {_length(node)} lines"
            for node in module.nodes
            if isinstance(node, Function) and _length(node) > FUNCTION_LINES
        ]
    return found


def _length(node: Function) -> int:
    assert node.end_lineno is not None
    docstring = node.body[0] if ast.get_docstring(node) is not None else None
    unseen = (
        0
        if docstring is None or docstring.end_lineno is None
        else docstring.end_lineno - docstring.lineno + 1
    )
    return node.end_lineno - node.lineno + 1 - unseen


def _has_reason(module: Module) -> bool:
    statements = module.tree.body[1 if ast.get_docstring(module.tree) is not None else 0 :]
    top = module.text.splitlines()[: statements[0].lineno - 1 if statements else None]
    return any(line.startswith("# Long because") for line in top)


def test_long_modules_and_functions_say_why(chainrule: Path) -> None:
    found = too_long(chainrule)
    assert not found, "\n".join(found)


def test_a_long_module_without_a_reason_is_named(package: Write) -> None:
    root = package({"core/own.py": "'''Module.'''\n" + "x = 1\n" * 400})
    assert too_long(root) == ["chainrule/core/own.py:1: module of 401 lines"]


def test_a_long_function_without_a_reason_is_named(package: Write) -> None:
    root = package({"core/own.py": "'''Module.'''\n\n\ndef f():\n    '''Doc.'''\n" + "    x = 1\n" * 60})
    assert too_long(root) == ["chainrule/core/own.py:4: function f of 61 lines"]


def test_a_reason_at_the_top_is_accepted_and_elsewhere_is_not(package: Write) -> None:
    long = "x = 1\n" * 400
    assert too_long(package({"core/own.py": "'''Module.'''\n# Long because it is a table.\n" + long})) == []
    assert (
        len(too_long(package({"core/own.py": "'''Module.'''\n" + long + "# Long because it is a table.\n"})))
        == 1
    )


def test_code_at_the_limit_is_accepted(package: Write) -> None:
    function = "def f():\n" + "    '''Doc\n    more.'''\n" + "    x = 1\n" * 59
    assert too_long(package({"core/own.py": function + "x = 1\n" * (400 - 62)})) == []

"""What is shown goes through functions that make every character visible, what is copied through those that quote."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.conftest import Write
from tests.architecture.source import Module, read

# Modules of the command line that write to the screen themselves, and why they may.
WRITERS = {
    "chainrule.cli.output": "the functions that everything else prints with",
    "chainrule.cli.tokens": "colours pieces of a text, each made visible before",
    "chainrule.cli.models": "draws the card of a model, a file of this package",
}
QUOTING = ("shell_word", "handle", "recipe_word")
# What else stands in commands to copy: names out of a registry, and numbers.
HARMLESS = {
    "name",
    "verb",
    "entry.name",
    "found.name",
    "found.head",
    "settings.model",
    "failed[0]",
    *("levels", "change"),
    "'RUN ' if 'runs' in own else ''",
}
COMMAND = re.compile(r"chainrule (?:[a-z]+ )+[^·,;\n]*$")


def raw(root: Path) -> list[str]:
    """Every line that prints or offers a command without the functions for it, as `file:line: why`."""
    return [
        f"{module.at(node)}: {why}"
        for module in read(root).modules.values()
        for node in module.nodes
        if isinstance(node, ast.Call | ast.JoinedStr)
        for why in _objections(module, node)
    ]


def _objections(module: Module, node: ast.Call | ast.JoinedStr) -> Iterator[str]:
    if isinstance(node, ast.Call):
        printing = isinstance(node.func, ast.Name) and node.func.id == "print"
        if printing and module.name.startswith("chainrule.cli") and module.name not in WRITERS:
            yield "prints: use say, show, heading or table of chainrule.cli.output"
        return
    before = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            before += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            if COMMAND.search(before) and not _quoted(part):
                yield f"{{{ast.unparse(part.value)}}} in a command to copy: use chainrule.core.quoting.shell_word"
            before += "?"


def _quoted(part: ast.FormattedValue) -> bool:
    value = part.value
    if isinstance(value, ast.Call):
        called = value.func
        return (called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")) in QUOTING
    return part.format_spec is not None or ast.unparse(value) in HARMLESS


def test_nothing_is_shown_or_offered_raw(chainrule: Path) -> None:
    assert raw(chainrule) == []


def test_the_rule_sees_what_it_must_see(package: Write) -> None:
    root = package(
        {
            "cli/verb.py": """
                def run(path):
                    print(path)
                    return f"chainrule data check {path}"
            """,
            "train/good.py": """
                from chainrule.core.quoting import shell_word

                def run(path):
                    print(path)
                    return f"chainrule data check {shell_word(path)} n={3:d}"
            """,
        }
    )
    assert [line.split(": ")[0] for line in raw(root)] == [
        "chainrule/cli/verb.py:3",
        "chainrule/cli/verb.py:4",
    ]

"""Every class is abstract or final; what is written once is not written over.

A class is *abstract* when an abstract method or an `AbstractVar` is left open, when it names `ABC` or `Protocol` among
its bases, or when it is a pydantic base without fields (shared behaviour of settings). Every other class is
*concrete*: it wears `@final` and nothing inherits from it. Exceptions form a tree by their nature and are free of the
rule; enumerations, named tuples and typed dictionaries are concrete without the decorator.

A method with a body is not overridden. The one way out is written where it is needed: an abstract class offers a
default that heirs may replace, and its docstring starts with the word "Default".
"""

import ast
import builtins
from pathlib import Path

import pytest

from tests.architecture.conftest import Write
from tests.architecture.source import Class, Package, has_decorator, read

_RECORDS = {"NamedTuple", "TypedDict", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"}
# Equinox runs this one for a class and for each of its ancestors, so defining it again replaces nothing.
_COOPERATIVE = {"__check_init__"}


def class_violations(root: Path) -> list[str]:
    """Every class or method that breaks the rule, as `file:line: why`."""
    package = read(root)
    found = []
    for one in package.classes.values():
        if not _is_exception(package, one):
            found += [f"{one.module.at(one.node)}: {why}" for why in _class_objections(package, one)]
            found += _overrides(package, one)
    return found


def _class_objections(package: Package, one: Class) -> list[str]:
    name, open_names = one.node.name, _left_open(package, one)
    why = [
        f"{name} inherits from the concrete class {base}; wrap it instead"
        for base in package.bases(one)
        if base in package.classes and not _is_abstract(package, package.classes[base])
    ]
    if one.decorated("final") and open_names:
        why.append(f"{name} is final but leaves {', '.join(sorted(open_names))} abstract")
    if not one.decorated("final") and not _is_abstract(package, one) and not _is_record(package, one):
        why.append(f"{name} is concrete: decorate it with typing.final, or give it an abstract method")
    return why


def _overrides(package: Package, one: Class) -> list[str]:
    found = []
    for name, method in one.methods.items():
        if name in _COOPERATIVE or has_decorator(method, "setter") or has_decorator(method, "overload"):
            continue
        for ancestor in package.ancestry(one)[1:]:
            theirs = ancestor.methods.get(name)
            if theirs is None or has_decorator(theirs, "abstractmethod"):
                continue
            if not (ast.get_docstring(theirs) or "").startswith("Default"):
                where = f"{ancestor.node.name}.{name}"
                found.append(
                    f"{one.module.at(method)}: {one.node.name}.{name} overrides {where}, which has a body"
                )
    return found


def _left_open(package: Package, one: Class) -> set[str]:
    decided: dict[str, bool] = {}
    for ancestor in package.ancestry(one):
        for name, method in ancestor.methods.items():
            decided.setdefault(name, has_decorator(method, "abstractmethod"))
        for name, field in ancestor.annotations.items():
            kind = ancestor.module.dotted(field.annotation).rpartition(".")[2]
            decided.setdefault(name, kind in {"AbstractVar", "AbstractClassVar"})
        for statement in ancestor.node.body:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        decided.setdefault(target.id, False)
    return {name for name, is_open in decided.items() if is_open}


def _is_abstract(package: Package, one: Class) -> bool:
    direct = {base.rpartition(".")[2] for base in package.bases(one)}
    return (
        bool(_left_open(package, one))
        or bool(direct & {"ABC", "Protocol"})
        or _is_settings_base(package, one)
    )


def _is_settings_base(package: Package, one: Class) -> bool:
    fields = [
        name for ancestor in package.ancestry(one) for name in ancestor.annotations if name != "model_config"
    ]
    return "pydantic.BaseModel" in package.foreign_bases(one) and not fields


def _is_record(package: Package, one: Class) -> bool:
    return bool({base.rpartition(".")[2] for base in package.foreign_bases(one)} & _RECORDS)


def _is_exception(package: Package, one: Class) -> bool:
    candidates = (getattr(builtins, base, None) for base in package.foreign_bases(one))
    return any(isinstance(found, type) and issubclass(found, BaseException) for found in candidates)


def test_every_class_is_abstract_or_final(chainrule: Path) -> None:
    found = class_violations(chainrule)
    assert not found, "\n".join(found)


BASE = """
    import abc
    import equinox as eqx

    class Model(eqx.Module):
        @abc.abstractmethod
        def loss(self): ...

    class HasState(Model):
        @abc.abstractmethod
        def advance(self): ...

        def loss(self):
            return self.advance()

        def describe(self):
            '''Default: the name of the class.'''
"""


@pytest.mark.parametrize(
    ("line", "text", "why"),
    [
        (5, "from typing import final\n@final\nclass A:\n    pass\nclass B(A): ...", "concrete class"),
        (1, "class A: ...", "decorate it"),
        (
            2,
            "from chainrule.models import base\nclass A(base.Model):\n    def loss(self): ...",
            "decorate it",
        ),
        (
            4,
            "from typing import final\nfrom chainrule.models import Model\n@final\nclass A(Model): ...",
            "loss",
        ),
        (
            6,
            "from typing import final\nfrom .base import HasState\n@final\nclass A(HasState):\n"
            "    def advance(self): ...\n    def loss(self): ...",
            "HasState.loss",
        ),
        (
            4,
            "import pydantic\nclass S(pydantic.BaseModel):\n    lr: float\nclass T(S): ...",
            "concrete class",
        ),
        (4, "import enum\nclass E(enum.Enum):\n    A = 1\nclass F(E): ...", "concrete class"),
    ],
)
def test_a_class_that_breaks_the_rule_is_named(package: Write, line: int, text: str, why: str) -> None:
    files = {"models/base.py": BASE, "models/__init__.py": "from chainrule.models.base import Model"}
    found = class_violations(package({**files, "models/own.py": text}))
    assert any(one.startswith(f"chainrule/models/own.py:{line}: ") and why in one for one in found)


@pytest.mark.parametrize(
    "text",
    [
        "from typing import final\n@final\nclass A: ...",
        "import abc\nclass A(abc.ABC):\n    def help(self): ...",
        "from typing import Protocol\nclass A(Protocol):\n    def help(self): ...",
        "from typing import NamedTuple\nclass A(NamedTuple):\n    x: int",
        "class A(ValueError): ...\nclass B(A):\n    def __init__(self): ...\nclass C(B):\n    def __init__(self): ...",
        "from typing import final\nfrom . import Model\n@final\nclass A(Model):\n    def loss(self): ...",
        "from typing import final\nfrom .base import HasState\n@final\nclass A(HasState):\n"
        "    def advance(self): ...\n    def describe(self): ...",
        "from typing import final\nimport pydantic\nclass S(pydantic.BaseModel):\n    model_config = {}\n"
        "@final\nclass T(S):\n    lr: float",
        "from typing import final\nimport equinox as eqx\nclass A(eqx.Module):\n    size: eqx.AbstractVar[int]\n"
        "@final\nclass B(A):\n    size: int",
    ],
)
def test_a_class_that_keeps_the_rule_is_accepted(package: Write, text: str) -> None:
    files = {"models/base.py": BASE, "models/__init__.py": "from chainrule.models.base import Model"}
    assert class_violations(package({**files, "models/own.py": text})) == []

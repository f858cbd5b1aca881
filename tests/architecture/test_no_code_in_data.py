"""Data never become code: nothing in the package unpickles, evaluates or imports what a file or a user names.

The gate follows imports and aliases through the syntax tree. A package may load its own parts on first use: its
`__init__.py` may import a name that starts with the package's own name.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.conftest import Write
from tests.architecture.source import Module, read

MODULES = {
    *("pickle", "_pickle", "pickletools", "copyreg", "marshal", "shelve", "dill", "cloudpickle", "joblib"),
    *("jsonpickle", "runpy", "code", "codeop", "imp"),
}
BUILTINS = {"eval", "exec", "__import__"}
CALLS = {
    "importlib.__import__": "imports by name",
    "importlib.import_module": "imports by name",
    "importlib.reload": "imports by name",
    "importlib.util.module_from_spec": "imports a file",
    "importlib.util.spec_from_file_location": "imports a file",
    "importlib.machinery.SourceFileLoader": "imports a file",
    "pandas.read_pickle": "unpickles",
    "torch.load": "unpickles",
    "yaml.full_load": "builds Python objects",
    "yaml.full_load_all": "builds Python objects",
    "yaml.unsafe_load": "builds Python objects",
    "yaml.unsafe_load_all": "builds Python objects",
}
NUMPY_LOADERS = {"numpy.load", "jax.numpy.load", "numpy.lib.npyio.load"}
# Imports by name that do not start with the package's own, and why they are harmless.
IMPORTS_BY_NAME = {
    "chainrule": "the few functions at the top, from a table in the file",
    "chainrule.core.lazy": "modules of the package that gives its own name, from the table in that package",
}
# Modules that import a file, and why they may.
IMPORTS_A_FILE = {
    "chainrule.core.code_files": "runs the file a person names, as that person asked; the help of the verbs says so"
}


def openings(root: Path) -> list[str]:
    """Every line through which data could become code, as `file:line: why`."""
    return [
        f"{module.at(node)}: {why}"
        for module in read(root).modules.values()
        for node in module.nodes
        for why in _objections(module, node)
    ]


def _objections(module: Module, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else [module.origin(node)]
        )
        yield from (f"imports {name}" for name in names if name.split(".")[0] in MODULES)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        if node.id in BUILTINS or (node.id == "compile" and "compile" not in _bound(module)):
            yield f"uses {node.id}"
    elif isinstance(node, ast.Attribute):
        name = module.dotted(node)
        if name.startswith("builtins.") and node.attr in {*BUILTINS, "compile"}:
            yield f"uses {node.attr}"
    elif isinstance(node, ast.Call):
        yield from _call_objections(module, node)


def _call_objections(module: Module, node: ast.Call) -> Iterator[str]:
    name = module.dotted(node.func)
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    asked_for = name.startswith("importlib.util.") and module.name in IMPORTS_A_FILE
    if (
        name in CALLS
        and not asked_for
        and not (name == "importlib.import_module" and _loads_own_part(module, node))
    ):
        yield f"{name} {CALLS[name]}"
    pickles = options.get("allow_pickle")
    if name in NUMPY_LOADERS and pickles is None:
        yield f"{name} without allow_pickle=False"
    if pickles is not None and not (isinstance(pickles, ast.Constant) and pickles.value is False):
        yield f"{name or 'a call'} with allow_pickle other than False"
    if name in {"yaml.load", "yaml.load_all"}:
        loader = options.get("Loader", node.args[1] if len(node.args) > 1 else None)
        if loader is None or not _is_safe(module, loader):
            yield f"{name} without a safe loader"


def _loads_own_part(module: Module, node: ast.Call) -> bool:
    """Whether an `__init__.py` imports `f"{__name__}.<anything>"`, or is one of the listed exceptions."""
    if module.name in IMPORTS_BY_NAME:
        return True
    if module.path.name != "__init__.py" or len(node.args) != 1:
        return False
    prefix = ast.unparse(node.args[0])
    return any(
        prefix.startswith(f"{quote}{own}.") for quote in ("f'", 'f"') for own in ("{__name__}", module.name)
    )


def _is_safe(module: Module, loader: ast.expr) -> bool:
    name = module.dotted(loader)
    own = [n for n in module.tree.body if isinstance(n, ast.ClassDef) and f"{module.name}.{n.name}" == name]
    return name in {"yaml.SafeLoader", "yaml.CSafeLoader"} or any(
        _is_safe(module, base) for found in own for base in found.bases
    )


def _bound(module: Module) -> set[str]:
    """Names the module gives a meaning of its own."""
    functions = {n.name for n in module.nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    return functions | set(module.bindings)


def test_nothing_in_the_package_turns_data_into_code(chainrule: Path) -> None:
    found = openings(chainrule)
    assert not found, "\n".join(found)


def test_every_exception_to_the_rule_is_used(chainrule: Path) -> None:
    modules = read(chainrule).modules
    assert all("importlib.import_module" in modules[name].text for name in IMPORTS_BY_NAME)


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads as read",
        "import os, marshal as m",
        "def f():\n    import joblib",
        "x = eval('1')",
        "y = list(map(eval, ['1']))",
        "exec('x = 1')",
        "compile('1', '', 'eval')",
        "import builtins\nbuiltins.eval('1')",
        "__import__('os')",
        "import importlib\nimportlib.import_module('os')",
        "from importlib import import_module as load\nload('os')",
        "import importlib\nimportlib.import_module(f'{__name__}.part')",
        "from importlib.util import spec_from_file_location\nspec_from_file_location('a', 'b')",
        "import numpy as np\nnp.load('a.npy')",
        "from numpy import load\nload('a.npy')",
        "import numpy as np\nnp.load('a.npy', allow_pickle=True)",
        "import numpy as np\nflag = False\nnp.load('a.npy', allow_pickle=flag)",
        "import numpy as np\nnp.save('a.npy', [], allow_pickle=True)",
        "import yaml\nyaml.load('a: 1', yaml.Loader)",
        "import yaml\nyaml.load('a: 1', Loader=yaml.FullLoader)",
        "import yaml\nclass L(yaml.Loader): ...\nyaml.load('a: 1', Loader=L)",
        "import yaml\nyaml.unsafe_load('a: 1')",
    ],
)
def test_an_opening_is_named(package: Write, text: str) -> None:
    found = openings(package({"data/own.py": text}))
    assert len(found) == 1
    assert found[0].startswith(f"chainrule/data/own.py:{text.count(chr(10)) + 1}: ")


@pytest.mark.parametrize(
    "text",
    [
        "import re\nre.compile('a')",
        "def step(f):\n    return f.lower().compile()",
        "def compile(x):\n    return x\ncompile(1)",
        "import numpy as np\nnp.load('a.npy', allow_pickle=False)",
        "import yaml\nyaml.safe_load('a: 1')",
        "import yaml\nclass L(yaml.SafeLoader): ...\nyaml.load('a: 1', Loader=L)",
        "import json\njson.load(open('a'))",
        "from importlib.metadata import version\nversion('jax')",
        "def eval_step(model):\n    return model.eval()",
    ],
)
def test_harmless_code_is_accepted(package: Write, text: str) -> None:
    assert openings(package({"data/own.py": text})) == []


def test_a_package_may_load_its_own_parts_only(package: Write) -> None:
    inside = "import importlib\nname = 'a'\nimportlib.import_module(f'{__name__}.{name}')"
    assert openings(package({"derive/__init__.py": inside})) == []
    outside = "import importlib\nname = 'a'\nimportlib.import_module(f'{name}.b')"
    found = openings(package({"derive/__init__.py": outside}))
    assert found == ["chainrule/derive/__init__.py:3: importlib.import_module imports by name"]

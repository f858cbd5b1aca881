"""Imports point down only.

A package may import packages of a strictly lower layer and itself, wherever the import stands: at the top, in a
function, relative, or for type checkers only. Families of models know `models.protocol` and themselves, nothing
else of `models`. The top-level facade (`chainrule/__init__.py`) may name everything and may be named by nobody.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.conftest import Write
from tests.architecture.source import imports, read

SOURCE = Path(__file__).parents[2] / "src" / "chainrule"
LAYERS = {
    "core": 0,
    "derive": 1,
    "nn": 1,
    "probability": 1,
    "data": 1,
    "networks": 2,
    "information": 2,
    "kernels": 2,
    "models": 3,
    "train": 4,
    "transfer": 4.5,
    "agents": 4.5,
    "explain": 5,
    "report": 5,
    "api": 6,
    "cli": 6,
    "studio": 6,
}
# Usable alone: importing one never loads the layers that train and serve.
ALONE = [
    area
    for area in ("derive", "nn", "probability", "networks", "information", "kernels")
    if (SOURCE / area).is_dir()
]
# The command line starts the studio, and both offer what the one-call Python interface offers.
ALSO = {("cli", "studio"), ("cli", "api"), ("studio", "api")}


def upward_imports(root: Path) -> list[str]:
    """Every import that breaks the rule, as `file:line: why`."""
    package = read(root)
    found = []
    for module in package.modules.values():
        for node, target in imports(package, module):
            why = _objection(root.name, module.name, target)
            if why:
                found.append(f"{module.at(node)}: {why}")
    return found


def _objection(top: str, importer: str, target: str) -> str:
    mine, theirs = importer.split("."), target.split(".")
    if theirs[0] != top or len(mine) == 1 or mine[1] == "__main__":
        return ""
    if len(theirs) == 1:
        return "" if target == top else f"imports {target}"
    here, there = mine[1], theirs[1]
    for area in (here, there):
        if area not in LAYERS:
            return (
                f"{importer} imports {target}, but {area} has no layer; give it one in {Path(__file__).name}"
            )
    if here == there == "models":
        return _sideways(importer, target)
    if here == there or (here, there) in ALSO or LAYERS[there] < LAYERS[here]:
        return ""
    return f"{importer} (layer {LAYERS[here]}) imports {target} (layer {LAYERS[there]})"


def _sideways(importer: str, target: str) -> str:
    mine, theirs = importer.split(".")[2:3], target.split(".")[2:3]
    if mine in ([], theirs) or theirs == ["protocol"]:
        return ""
    return f"{importer} imports {target}; a family knows models.protocol and itself"


def bare_imports(root: Path) -> list[str]:
    """Lines that import the whole package, through which any layer could be reached unseen."""
    return [
        f"{module.at(node)}: imports {root.name} as a whole"
        for module in read(root).modules.values()
        for node in module.nodes
        if isinstance(node, ast.Import) and any(alias.name == root.name for alias in node.names)
    ]


def test_imports_point_down_only(chainrule: Path) -> None:
    found = upward_imports(chainrule) + bare_imports(chainrule)
    assert not found, "\n".join(found)


def test_every_package_has_a_layer(chainrule: Path) -> None:
    areas = {path.parent.name for path in chainrule.glob("*/__init__.py")} | {
        path.stem for path in chainrule.glob("*.py") if not path.stem.startswith("__")
    }
    assert areas <= set(LAYERS)


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("core/tree.py", "import chainrule.nn.dense"),
        ("nn/dense.py", "from chainrule.train import fit"),
        ("nn/dense.py", "from chainrule import models"),
        ("nn/dense.py", "from chainrule import fit"),
        ("nn/dense.py", "from .. import train"),
        ("nn/deep/dense.py", "from ...train.loop import run"),
        ("nn/dense.py", "from chainrule.probability import normal"),
        ("data/text.py", "from chainrule.derive import gradient"),
        ("information/entropy.py", "from chainrule.kernels import rbf"),
        ("report/page.py", "from chainrule.explain import saliency"),
        ("train/loop.py", "from chainrule.cli import main"),
        ("api.py", "from chainrule.cli import main"),
        ("studio/app.py", "from chainrule.cli import main"),
        ("nn/dense.py", "import importlib\nimportlib.import_module('chainrule.train')"),
        ("nn/dense.py", "def late():\n    from chainrule.train import fit"),
        (
            "nn/dense.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from chainrule.train import Run",
        ),
        ("models/flow/realnvp/__init__.py", "from chainrule.models.diffusion import ddpm"),
        ("models/flow/realnvp/__init__.py", "from chainrule.models import build"),
        ("models/flow/realnvp/__init__.py", "from chainrule import models"),
        ("models/protocol/__init__.py", "from chainrule.models.flow import realnvp"),
        ("novelty/thing.py", "from chainrule.core import tree"),
    ],
)
def test_an_import_that_points_up_or_sideways_is_named(package: Write, importer: str, line: str) -> None:
    others = {
        "train/loop.py": "",
        "probability/normal.py": "",
        "models/diffusion/ddpm.py": "",
        "models/protocol/__init__.py": "",
    }
    found = upward_imports(package({**others, importer: line}))
    assert len(found) == 1
    assert found[0].startswith(f"chainrule/{importer}:{line.count(chr(10)) + 1}: ")


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("nn/dense.py", "from chainrule.core import tree, errors"),
        ("nn/dense.py", "from .normalize import Layer"),
        ("nn/dense.py", "from chainrule import __version__"),
        ("kernels/gp.py", "from chainrule.probability import normal"),
        ("models/__init__.py", "from chainrule.models import protocol"),
        ("models/flow/realnvp/__init__.py", "from chainrule.models import protocol"),
        ("models/flow/realnvp/__init__.py", "from chainrule.models.protocol import Model"),
        ("models/flow/realnvp/__init__.py", "from chainrule.models.flow.coupling import Coupling"),
        ("report/page.py", "from chainrule.train import Run"),
        ("cli/__init__.py", "from chainrule.studio import serve"),
        ("__init__.py", "from chainrule.train import fit"),
        ("__main__.py", "from chainrule.cli import main"),
    ],
)
def test_an_import_that_points_down_is_accepted(package: Write, importer: str, line: str) -> None:
    others = {"models/protocol/__init__.py": "", "studio/__init__.py": ""}
    assert upward_imports(package({**others, importer: line})) == []


def test_importing_the_package_as_a_whole_is_named(package: Write) -> None:
    root = package({"nn/dense.py": "import math\nimport chainrule as cr"})
    assert bare_imports(root) == ["chainrule/nn/dense.py:2: imports chainrule as a whole"]
    assert bare_imports(package({"nn/dense.py": "import chainrule.core.tree"})) == []


def test_areas_that_stand_alone_never_load_the_upper_layers(chainrule: Path) -> None:
    modules = [name for name in read(chainrule).modules if name.partition(".")[2].split(".")[0] in ALONE]
    loaded = _loaded_by(f"import {', '.join(modules)}")
    assert {f"chainrule.{area}" for area in ALONE} <= loaded
    assert {name for name in loaded if name.split(".")[1] in ("train", "cli", "studio")} == set()


def test_loading_an_upper_layer_would_be_seen() -> None:
    assert "chainrule.cli.arguments" in _loaded_by("import chainrule.cli.arguments")


def _loaded_by(program: str) -> set[str]:
    code = f"{program}\nimport sys\nprint('\\n'.join(name for name in sys.modules if name.startswith('chainrule.')))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return set(child.stdout.split())

"""Probes ask models what they can do: no probe knows a family of models.

A module of `explain/probes` may import `models` itself, its own modules and `models.protocol`, wherever the import
stands; a package beside the protocol is a family.
"""

from pathlib import Path

import pytest

from tests.architecture.conftest import Write
from tests.architecture.source import imports, read

OTHERS = {
    "models/__init__.py": "",
    "models/vectors.py": "",
    "models/protocol/__init__.py": "",
    "models/diffusion/__init__.py": "",
}


def probes_that_know_a_family(root: Path) -> list[str]:
    """Every import of a family of models by a probe, as `file:line: why`."""
    package = read(root)
    families = {path.parent.name for path in (root / "models").glob("*/__init__.py")} - {"protocol"}
    found = []
    for module in package.modules.values():
        if not module.name.startswith(f"{root.name}.explain.probes"):
            continue
        for node, target in imports(package, module):
            parts = target.split(".")
            if parts[:2] == [root.name, "models"] and parts[2:3] and parts[2] in families:
                found.append(f"{module.at(node)}: knows {'.'.join(parts[:3])}; ask for a capability")
    return found


def test_no_probe_knows_a_family(chainrule: Path) -> None:
    found = probes_that_know_a_family(chainrule)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "from chainrule.models import diffusion",
        "from chainrule.models.diffusion import samplers",
        "from chainrule.models.diffusion.generative import Generative",
        "import chainrule.models.diffusion.process",
        "from ...models.diffusion import samplers",
        "def late():\n    from chainrule.models.diffusion import samplers",
        "import importlib\nimportlib.import_module('chainrule.models.diffusion')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from chainrule.models.diffusion import samplers",
    ],
)
def test_a_probe_that_knows_a_family_is_named(package: Write, line: str) -> None:
    root = package({**OTHERS, "explain/probes/denoising.py": line})
    found = probes_that_know_a_family(root)
    assert len(found) == 1
    assert found[0].startswith(f"chainrule/explain/probes/denoising.py:{line.count(chr(10)) + 1}: ")


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("explain/probes/denoising.py", "from chainrule.models.protocol import HasDenoiser"),
        ("explain/probes/denoising.py", "from chainrule.models import protocol, build"),
        ("explain/probes/embedding.py", "from chainrule.models.vectors import of_model"),
        ("explain/experiments/samplers.py", "from chainrule.models.diffusion import samplers"),
    ],
)
def test_capabilities_and_models_in_general_are_accepted(package: Write, importer: str, line: str) -> None:
    assert probes_that_know_a_family(package({**OTHERS, importer: line})) == []

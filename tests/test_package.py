"""The package as others get it: quick to import, complete as a wheel, honest about what it needs."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import chainrule

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "chainrule"
HEAVY = {"jax", "jaxlib", "numpy", "scipy", "llvmlite", "equinox", "optax", "matplotlib", "pydantic", "PIL"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, Any] = tomllib.load(file)["project"]
    return found


def loaded_by(program: str, *words: str) -> set[str]:
    """Every module a Python process has loaded by the time it ends."""
    report = "import atexit, sys; atexit.register(lambda: print('loaded:', *sys.modules, file=sys.stderr))"
    command = [sys.executable, "-c", f"{report}\n{program}", *words]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return set(child.stderr.rpartition("loaded:")[2].split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_by("import chainrule")
    assert "chainrule" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_a_heavy_import_would_be_seen() -> None:
    assert {"numpy", "chainrule.core.pictures"} <= loaded_by("import chainrule; chainrule.core.pictures")


@pytest.mark.parametrize("words", [["--help"], [], ["--version"]], ids=" ".join)
def test_asking_the_command_line_for_help_loads_nothing_heavy(words: list[str]) -> None:
    loaded = loaded_by("from chainrule.cli import main; main()", *words)
    assert "typer" in loaded
    assert loaded.isdisjoint({"jax", "jaxlib", "numpy", "matplotlib"})


def test_names_offered_at_the_top_exist() -> None:
    for name in chainrule.__all__:
        assert getattr(chainrule, name) is not None
    with pytest.raises(AttributeError, match="module 'chainrule' has no attribute 'modles'"):
        chainrule.modles  # noqa: B018


HIDDEN_NAMES = """
import importlib, sys
for part in sys.argv[2:]:
    importlib.import_module(part)
for package in [module for name, module in list(sys.modules.items()) if name.split(".")[0] == sys.argv[1]]:
    lazy = vars(package).get("__getattr__")
    for name in getattr(package, "__all__", []) if lazy else []:
        found = getattr(package, name)
        try:
            meant = lazy(name)
        except AttributeError:
            continue
        if found is not meant:
            print(f"{package.__name__}.{name} is {found}")
"""


def hidden_names(folder: Path) -> str:
    """Names a package loads on first use that a module of the same name has taken, once every module is loaded."""
    paths = [path for path in sorted(folder.rglob("*.py")) if not path.name.startswith(("test_", "__main__"))]
    names = [path.relative_to(folder.parent).with_suffix("").as_posix().replace("/", ".") for path in paths]
    modules = [name.removesuffix(".__init__") for name in names]
    child = subprocess.run(
        [sys.executable, "-c", HIDDEN_NAMES, folder.name, *modules],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder.parent,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


@pytest.mark.slow  # a process for each name
def test_a_name_means_the_same_whatever_was_loaded_before() -> None:
    assert hidden_names(SOURCE) == ""


def test_a_module_that_hides_a_name_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "hiding"
    package.mkdir()
    (package / "hessian.py").write_text("def hessian(): ...\n", encoding="utf-8")
    (package / "__init__.py").write_text(
        "import importlib\n__all__ = ['hessian']\n"
        "def __getattr__(name):\n"
        "    if name == 'hessian':\n"
        "        return importlib.import_module('hiding.hessian').hessian\n"
        "    raise AttributeError(name)\n",
        encoding="utf-8",
    )
    assert "hiding.hessian is <module" in hidden_names(package)


def test_the_version_stands_in_the_package_alone(project: dict[str, Any]) -> None:
    assert project["dynamic"] == ["version"]  # the name of the wheel, below, shows that it is found there
    assert "version" not in project


def test_optional_parts_are_the_promised_ones(project: dict[str, Any]) -> None:
    assert set(project["optional-dependencies"]) == {
        "text",
        "tables",
        "onnx",
        "ot",
        "audio",
        "compress",
        "games",
        "rl",
        "cuda12",
        "cuda13",
        "test",
    }


def test_everything_that_is_asked_for_is_used(project: dict[str, Any]) -> None:
    imported = {"pyyaml": "yaml", "pillow": "PIL"}
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    needs = [*project["dependencies"], *project["optional-dependencies"]["text"]]
    for name in (need.split(">=")[0] for need in needs):
        assert re.search(rf"^\s*(import|from) {imported.get(name, name)}\b", code, re.MULTILINE), name


def test_only_the_cuda_extras_ask_for_cuda(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]
    asking = {
        name for name, needs in extras.items() if any("cuda" in need or "nvidia" in need for need in needs)
    }
    assert asking == {"cuda12", "cuda13"}
    assert not any("cuda" in need or "[" in need for need in project["dependencies"])


def test_pinned_versions_cover_every_requirement(project: dict[str, Any]) -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.split("==")[0] for line in lines if not line.startswith("#")}
    needs = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    assert {need.split(">=")[0].lower() for need in needs} <= pinned
    assert not {name for name in pinned if name.startswith("nvidia") or "cuda" in name}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    pytest.importorskip("hatchling", reason="the test extra installs hatchling, which builds the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        str(folder),
        str(ROOT),
    ]
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *build], check=True)
    (found,) = folder.glob("*.whl")
    return zipfile.Path(found)


def test_the_wheel_holds_every_file_of_the_package_and_no_tests(wheel: zipfile.Path) -> None:
    held = {
        name for name in wheel.root.namelist() if name.startswith("chainrule/") and not name.endswith("/")
    }
    files = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    wanted = {
        f"chainrule/{path.relative_to(SOURCE).as_posix()}"
        for path in files
        if not path.name.startswith("test_")
    }
    assert held == wanted
    assert {"chainrule/py.typed", "chainrule/data/embedded/digits.npz"} <= held
    assert "chainrule/models/supervised/mlp/card.md" in held


def test_the_wheel_installs_the_command_and_names_its_licence(wheel: zipfile.Path) -> None:
    names = wheel.root.namelist()
    (entry_points,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
    assert "chainrule = chainrule.cli:main" in wheel.root.read(entry_points).decode()
    assert any(name.endswith("LICENSE") for name in names)


def test_the_wheel_holds_nothing_but_the_package(wheel: zipfile.Path) -> None:
    tops = {name.split("/")[0] for name in wheel.root.namelist()}
    assert tops == {"chainrule", f"chainrule-{chainrule.__version__}.dist-info"}

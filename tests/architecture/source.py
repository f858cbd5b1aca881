"""A package as syntax trees, and the few questions the architecture tests ask of it.

Nothing is imported or run: every rule can be tried on a made-up package in a temporary folder. Names are followed
through imports and re-exports, so `models.Model`, `base.Model` and `Model` are seen to be one class.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    path: Path
    shown: str
    text: str
    tree: ast.Module

    def at(self, node: ast.stmt | ast.expr) -> str:
        """`file:line` of a piece of code."""
        return f"{self.shown}:{node.lineno}"

    @property
    def package(self) -> str:
        """What a relative import starts from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every piece of the tree, outer before inner."""
        return list(ast.walk(self.tree))

    @cached_property
    def bindings(self) -> Mapping[str, str]:
        """Local names of imported things and own top-level classes, each with its full dotted name."""
        found: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    found[alias.asname or alias.name] = f"{self.origin(node)}.{alias.name}"
        found |= {
            node.name: f"{self.name}.{node.name}" for node in self.tree.body if isinstance(node, ast.ClassDef)
        }
        return found

    def origin(self, node: ast.ImportFrom) -> str:
        """The absolute module an import-from reads, relative ones resolved."""
        if not node.level:
            return node.module or ""
        parts = self.package.split(".")
        return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])

    def dotted(self, node: ast.expr) -> str:
        """The full name an expression such as `np.load` or `Generic[T]` refers to; empty for anything else."""
        if isinstance(node, ast.Subscript):
            return self.dotted(node.value)
        if isinstance(node, ast.Name):
            return self.bindings.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            inner = self.dotted(node.value)
            return f"{inner}.{node.attr}" if inner else ""
        return ""


@dataclass(frozen=True)
class Class:
    """A class definition and the module it stands in."""

    module: Module
    node: ast.ClassDef

    @cached_property
    def methods(self) -> Mapping[str, Function]:
        """Methods defined in the class body itself."""
        return {node.name: node for node in self.node.body if isinstance(node, Function)}

    @cached_property
    def annotations(self) -> Mapping[str, ast.AnnAssign]:
        """Annotated names of the class body."""
        return {
            node.target.id: node
            for node in self.node.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }

    def decorated(self, name: str) -> bool:
        """Whether a decorator of that last name is applied."""
        return has_decorator(self.node, name)


@dataclass(frozen=True)
class Package:
    """All modules of a package by dotted name."""

    modules: Mapping[str, Module]

    @cached_property
    def classes(self) -> Mapping[str, Class]:
        """Top-level classes by full name."""
        return {
            f"{module.name}.{node.name}": Class(module, node)
            for module in self.modules.values()
            for node in module.tree.body
            if isinstance(node, ast.ClassDef)
        }

    def canonical(self, name: str) -> str:
        """A full name with re-exports followed to the module of definition."""
        for _ in range(len(self.modules)):
            owner, _, rest = name.rpartition(".")
            if name in self.classes or name in self.modules or owner not in self.modules:
                return name
            further = self.modules[owner].bindings.get(rest, name)
            if further == name:
                return name
            name = further
        return name

    def bases(self, found: Class) -> list[str]:
        """Full names of the direct bases."""
        return [self.canonical(found.module.dotted(base)) for base in found.node.bases]

    def ancestry(self, found: Class) -> list[Class]:
        """The class and all its ancestors inside the package, nearest first, a shared ancestor after all its heirs."""
        chain = [found]
        for base in self.bases(found):
            if base in self.classes:
                chain += self.ancestry(self.classes[base])
        last = {(one.module.name, one.node.name): index for index, one in enumerate(chain)}
        return [chain[index] for index in sorted(last.values())]

    def foreign_bases(self, found: Class) -> set[str]:
        """Full names of all ancestors that are defined outside the package."""
        return {base for one in self.ancestry(found) for base in self.bases(one) if base not in self.classes}


def read(root: Path) -> Package:
    """The package in a folder; tests that live beside the code are left out."""
    modules = {}
    for path in sorted(root.rglob("*.py")):
        if path.name.startswith("test_") or path.name == "conftest.py":
            continue
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = _module(
            name, path, path.relative_to(root.parent).as_posix(), path.read_text(encoding="utf-8")
        )
    return Package(modules)


@cache
def _module(name: str, path: Path, shown: str, text: str) -> Module:
    """Every rule reads the same files: each is parsed once, as long as it says the same."""
    return Module(name, path, shown, text, ast.parse(text, str(path)))


def has_decorator(node: ast.ClassDef | Function, name: str) -> bool:
    """Whether a decorator with that last name is applied, e.g. `abstractmethod` for `@abc.abstractmethod`."""
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (isinstance(target, ast.Attribute) and target.attr == name) or (
            isinstance(target, ast.Name) and target.id == name
        ):
            return True
    return False


def top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a body, those under `if` and `try` included."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from top_level([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from top_level([*node.body, *node.orelse, *node.finalbody])


def imports(package: Package, module: Module) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Every import of a module with what it imports, wherever it stands."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = module.origin(node)
            for alias in node.names:
                full = f"{origin}.{alias.name}"
                facade = "." not in origin and not alias.name.startswith("__")
                yield node, full if full in package.modules or facade else origin
        elif isinstance(node, ast.Call) and module.dotted(node.func) == "importlib.import_module":
            yield from ((node, a.value) for a in node.args[:1] if isinstance(a, ast.Constant))

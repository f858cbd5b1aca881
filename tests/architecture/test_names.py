"""One class name, one meaning: no two public classes of the package share a name."""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.architecture.conftest import Write
from tests.architecture.source import Class, read


def shared_names(root: Path) -> list[str]:
    """Every public class whose name another module uses too, as `file:line: Name is also in file:line`."""
    by_name: defaultdict[str, list[Class]] = defaultdict(list)
    for one in read(root).classes.values():
        if not one.node.name.startswith("_"):
            by_name[one.node.name].append(one)
    found = []
    for name, classes in sorted(by_name.items()):
        first, *others = (one.module.at(one.node) for one in classes)
        found += [
            f"{other}: {name} is also in {first}; the more special one needs its own name" for other in others
        ]
    return found


def test_no_two_public_classes_share_a_name(chainrule: Path) -> None:
    found = shared_names(chainrule)
    assert not found, "\n".join(found)


def test_a_shared_name_is_found_in_any_two_packages(package: Write) -> None:
    files = {
        "nn/plan.py": "class Plan: ...",
        "derive/sparse/plan.py": "\nclass Plan: ...\nclass Pattern: ...",
        "data/plan.py": "class Plan: ...",
    }
    found = shared_names(package(files))
    assert [one.partition(": ")[0] for one in found] == [
        "chainrule/derive/sparse/plan.py:2",
        "chainrule/nn/plan.py:1",
    ]
    assert all("chainrule/data/plan.py:1" in one for one in found)


@pytest.mark.parametrize(
    "text",
    [
        "class _Plan: ...",  # private: not part of the vocabulary
        "from chainrule.nn.plan import Plan",  # a re-export is the same class
        "class Planner: ...",
        "class Outer:\n    class Plan: ...",  # named by its owner
    ],
)
def test_what_is_not_a_second_public_class_is_accepted(package: Write, text: str) -> None:
    assert (
        shared_names(package({"nn/plan.py": "class Plan: ...\nclass _Plan: ...", "data/own.py": text})) == []
    )

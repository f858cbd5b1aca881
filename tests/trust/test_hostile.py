"""A run folder from a stranger can be refused, but it can make the program do nothing: no code, no file elsewhere."""

import hashlib
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import strategies as st

from chainrule.core.errors import CheckpointError, RunError
from chainrule.train import Run, checkpoints
from chainrule.train.folder import read_config
from tests.trust.toys import go_on, newest, points

REPOSITORY = Path(__file__).parents[2]
PAYLOAD = "touch stolen"


def rewrite(checkpoint: Path, contents: bytes | None = None, **changes: Any) -> None:
    """Put other tensors or other fields into a checkpoint, with every check sum right."""
    file = checkpoint / "manifest.json"
    if contents is not None:
        (checkpoint / "state.safetensors").write_bytes(contents)
        changes |= {"sha256": hashlib.sha256(contents).hexdigest(), "bytes": len(contents)}
    manifest = json.loads(file.read_text()) | changes
    manifest["digest"] = checkpoints._digest(manifest)
    file.write_text(json.dumps(manifest))


def raw(header: dict[str, Any] | str, body: bytes = b"") -> bytes:
    """A safetensors file with any header."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text)) + text + body


def renamed(name: str) -> Callable[[Path], None]:
    """The first tensor under another name, in the file and in the manifest."""

    def spoil(run: Path) -> None:
        tensors = safetensors.numpy.load_file(newest(run) / "state.safetensors")
        tensors[name] = tensors.pop("model.head.bias")
        table = {n: {"shape": list(a.shape), "dtype": a.dtype.name} for n, a in tensors.items()}
        rewrite(newest(run), safetensors.numpy.save(tensors), tensors=table)

    return spoil


def tensors(contents: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Another tensor file, made from the good one."""
    return lambda run: rewrite(newest(run), contents((newest(run) / "state.safetensors").read_bytes()))


def file(name: str, contents: str | bytes) -> Callable[[Path], None]:
    """Another file of the run."""
    encoded = contents.encode() if isinstance(contents, str) else contents
    return lambda run: (run / name).write_bytes(encoded) and None


def config(change: Callable[[str], str]) -> Callable[[Path], None]:
    """Another config.yaml, made from the good one."""
    return lambda run: (run / "config.yaml").write_text(change((run / "config.yaml").read_text())) and None


def link(name: str) -> Callable[[Path], None]:
    """A link to the same thing outside of the run."""

    def spoil(run: Path) -> None:
        outside = run.with_name(f"{run.name}-outside")
        (run / name).rename(outside)
        (run / name).symlink_to(outside)

    return spoil


def pipe(name: str) -> Callable[[Path], None]:
    """A pipe that nobody ever writes to."""

    def spoil(run: Path) -> None:
        (run / name).unlink()
        os.mkfifo(run / name)

    return spoil


def sparse(run: Path) -> None:
    """A tensor file of a terabyte that takes no space."""
    with (newest(run) / "state.safetensors").open("ab") as grown:
        grown.truncate(1 << 40)
    rewrite(newest(run), bytes=1 << 40)


class Exploit:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (PAYLOAD,)


STEP = "checkpoints/step-00000012"
BOMB = "a: &a [1,1,1,1,1,1,1,1]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a tensor named like a path up": (renamed("../../x"), "it has no tensor 'model.head.bias'"),
    "a tensor named like an absolute path": (renamed("/etc/passwd"), "it has no tensor"),
    "a tensor named like a dunder": (renamed("model.head.__class__"), "it has no tensor"),
    "a pickle in place of the tensors": (tensors(lambda _: pickle.dumps(Exploit())), "is not valid"),
    "a pickle in place of the manifest": (
        file(f"{STEP}/manifest.json", pickle.dumps(Exploit())),
        "manifest cannot be read",
    ),
    "a header longer than the file": (
        tensors(lambda good: struct.pack("<Q", 1 << 62) + good[8:]),
        "is not valid",
    ),
    "a tensor larger than memory": (
        tensors(lambda _: raw({"w": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}})),
        "is not valid",
    ),
    "a shape that overflows": (
        tensors(
            lambda _: raw({"w": {"dtype": "F32", "shape": [1 << 62, 16], "data_offsets": [0, 4]}}, bytes(4))
        ),
        "is not valid",
    ),
    "an empty tensor of endless length": (
        tensors(lambda _: raw({"w": {"dtype": "F32", "shape": [0, 1 << 63], "data_offsets": [0, 0]}})),
        "is not valid",
    ),
    "a type nobody knows": (
        tensors(lambda _: raw({"w": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}, bytes(4))),
        "is not valid",
    ),
    "two tensors of one name": (
        tensors(
            lambda _: raw(
                '{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}',
                bytes(8),
            )
        ),
        "is not valid",
    ),
    "tensors the manifest does not tell of": (
        tensors(lambda _: safetensors.numpy.save({"w": np.ones(3)})),
        "does not hold the tensors in the manifest",
    ),
    "a tensor file of a terabyte": (sparse, "tensor file cannot be read"),
    "a manifest without end": (
        lambda run: os.truncate(newest(run) / "manifest.json", 1 << 40),
        "manifest cannot be read",
    ),
    "a negative size": (lambda run: rewrite(newest(run), bytes=-1), "tensor file cannot be read"),
    "shapes that are no shapes": (
        lambda run: rewrite(newest(run), tensors={"step": "x"}),
        "does not describe it",
    ),
    "a linked tensor file": (link(f"{STEP}/state.safetensors"), "tensor file cannot be read"),
    "a linked manifest": (link(f"{STEP}/manifest.json"), "manifest cannot be read"),
    "a linked checkpoint": (link(STEP), "is a link"),
    "linked checkpoints": (link("checkpoints"), "is a link"),
    "linked settings": (link("config.yaml"), "is a link"),
    "linked data": (link("data.json"), "is a link"),
    "a linked status": (link("status.json"), "status.json cannot be read"),
    "linked metrics": (link("metrics.jsonl"), "metrics.jsonl cannot be read"),
    "a pipe for tensors": (pipe(f"{STEP}/state.safetensors"), "tensor file cannot be read"),
    "a pipe for a manifest": (pipe(f"{STEP}/manifest.json"), "manifest cannot be read"),
    "a pipe for settings": (pipe("config.yaml"), "cannot be read"),
    "a pipe for a status": (pipe("status.json"), "cannot be read"),
    "a pipe for metrics": (pipe("metrics.jsonl"), "cannot be read"),
    "a best step that is a path": (
        lambda run: rewrite(newest(run), journal={"best": {"step": "../../../x"}}),
        "",
    ),
    "a best step that is no step": (lambda run: rewrite(newest(run), journal={"best": [1]}), ""),
    "YAML that runs a command": (
        config(lambda good: f"{good}x: !!python/object/apply:os.system ['{PAYLOAD}']\n"),
        "could not determine a constructor",
    ),
    "YAML that imports a module": (
        config(lambda good: f"{good}x: !!python/module:antigravity\n"),
        "could not determine a constructor",
    ),
    "YAML that grows without end": (config(lambda good: good + BOMB), "uses YAML aliases"),
    "YAML nested without end": (config(lambda good: f"{good}x: {'[' * 100_000}\n"), "nested too deeply"),
    "YAML of endless blocks": (config(lambda good: f"{good}x:\n {'- ' * 3000}\n"), "cannot be read"),
    "YAML with an impossible date": (config(lambda good: f"{good}x: 2024-99-99\n"), "cannot be read"),
    "settings that are no settings": (
        config(lambda good: good.replace("train:", "train: 3\nold:")),
        "needs the sections",
    ),
    "settings with odd names": (config(lambda good: good.replace("steps:", "3:")), "needs the sections"),
    "an unknown setting": (config(lambda good: good.replace("batch:", "__class__:")), "unknown setting"),
    "a model named like a path": (
        config(lambda good: good.replace("name: mlp", "name: ../../evil")),
        "unknown model",
    ),
    "a model named like a function": (
        config(lambda good: good.replace("name: mlp", "name: os.system")),
        "unknown model",
    ),
    "a model that is no name": (
        config(lambda good: good.replace("name: mlp", "name: [mlp]")),
        "needs a name",
    ),
    "data that are no data": (file("data.json", "[]"), "data.json cannot be read"),
    "data nested without end": (file("data.json", "[" * 100_000), "data.json cannot be read"),
    "a schema with odd fields": (
        file("data.json", '{"hash": "", "schema": {"__class__": 1}, "scaling": {}, "target_scaling": null}'),
        "data.json cannot be read",
    ),
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, finished: Path, compiled: dict[str, str]) -> Any:
    """What happened when each hostile folder was opened by a fresh process."""
    parent = tmp_path_factory.mktemp("hostile")
    folders = {}
    for number, (name, (spoil, _)) in enumerate(HOSTILE.items()):
        folders[name] = Path(shutil.copytree(finished, parent / str(number)))
        spoil(folders[name])
    command = [sys.executable, "-m", "tests.trust.opening", str(finished), *map(str, folders.values())]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=os.environ | compiled, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    notes = json.loads(done.stdout)
    assert not list(parent.rglob("stolen"))
    assert not (REPOSITORY / "stolen").exists()
    return {name: (folder, notes[str(folder)]) for name, folder in folders.items()}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_refused_in_plain_words(name: str, opened: Any) -> None:
    _, notes = opened[name]
    says = HOSTILE[name][1]
    assert says in notes["complaint"]
    assert bool(says) == bool(notes["complaint"])


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_makes_nothing_happen_outside_of_it(name: str, opened: Any) -> None:
    folder, notes = opened[name]
    assert notes["events"]
    for event, *args in notes["events"]:
        assert event in ("open", "os.scandir"), (event, args)
        assert args[0].isdigit() or Path(args[0]).is_relative_to(folder), (event, args)


def test_the_watch_over_hostile_folders_sees_what_it_must_see(finished: Path, tmp_path: Path) -> None:
    program = f"""
import tests.trust.opening as opening, pickle
def use(path):
    open({str(tmp_path / "elsewhere")!r}, "w").close()
    pickle.loads({pickle.dumps(Path("x"))!r})
    import antigravity_that_does_not_exist
def careless(path, first=[True]):
    if first: first.clear(); return ""
    try: use(path)
    except ImportError: return ""
opening.use = careless
opening.main("known", ["run"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = {event[0] for event in json.loads(done.stdout)["run"]["events"]}
    assert {"open", "import", "pickle.find_class"} <= seen


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
SMALL = {"w": np.ones((2, 3), np.float32), "n": np.int32(1)}


@hypothesis.given(
    field=st.sampled_from(
        ["format", "step", "sha256", "bytes", "tensors", "tensors.w", "tensors.w.shape", "journal"]
    ),
    value=JSON,
)
@hypothesis.settings(max_examples=80)
def test_a_manifest_with_anything_in_any_field_is_refused_or_means_what_it_says(
    field: str, value: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = checkpoints.save(tmp_path_factory.mktemp("store"), SMALL, 3, {"best": {}})
    *path, last = field.split(".")
    manifest = json.loads((made / "manifest.json").read_text())
    group = manifest
    for name in path:
        group = group[name]
    group[last] = value
    rewrite(made, **manifest)
    try:
        state, journal = checkpoints.load(made, SMALL)
    except CheckpointError:
        return
    assert all(np.array_equal(state[name], array) for name, array in SMALL.items())
    assert repr(journal) == repr(manifest["journal"])


@hypothesis.given(
    contents=st.binary(max_size=200) | JSON.map(lambda value: raw(json.dumps(value), bytes(16)))
)
@hypothesis.settings(max_examples=80)
def test_any_bytes_in_place_of_the_tensors_are_refused(
    contents: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = checkpoints.save(tmp_path_factory.mktemp("store"), SMALL, 3, {})
    rewrite(made, contents)
    with pytest.raises(checkpoints.DamagedError):
        checkpoints.load(made, SMALL)


# ---------------------------------------------------------------------- writing


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "log.txt", "status.json", "config.yaml", ".lock", "checkpoints"]
)
def test_going_on_writes_through_no_link(run: Path, name: str) -> None:
    link(name)(run)
    outside = run.with_name("toy-outside")
    files = [outside, *outside.rglob("*")]
    before = [(path, path.stat().st_mtime_ns, path.stat().st_size) for path in files]
    with pytest.raises(RunError, match=f"{name} is a link"):
        go_on(run, steps=16)
    assert [
        (path, path.stat().st_mtime_ns, path.stat().st_size) for path in [outside, *outside.rglob("*")]
    ] == before


@pytest.mark.parametrize(
    "journal",
    [
        {"metrics_bytes": "0"},
        {"best": [1]},
        {"stale": None},
        {"pending": 3},
        {"rollbacks": "x"},
    ],
    ids=lambda journal: next(iter(journal)),
)
def test_going_on_refuses_a_journal_no_run_has_written(run: Path, journal: dict[str, Any]) -> None:
    stored = checkpoints.read_manifest(newest(run))["journal"]
    rewrite(newest(run), journal=stored | journal)
    with pytest.raises(CheckpointError, match="was not written by a training run"):
        go_on(run, steps=16)


def test_a_config_file_named_by_the_user_may_be_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").symlink_to(run / "config.yaml")
    assert read_config(tmp_path / "recipe.yaml") == Run.open(run, data=points()).config

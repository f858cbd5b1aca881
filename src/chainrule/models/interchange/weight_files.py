"""Files of weights: one of safetensors, or several with an index, alone or in a folder of Hugging Face's transformers.

A folder holds `config.json`, which says what shapes do not tell, and `model.safetensors`, or parts of it that
`model.safetensors.index.json` lists. Nothing but names and shapes is read before the arrays are asked for.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from chainrule.core.errors import DataError

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
CONFIG = "config.json"
PREPROCESSOR = "preprocessor_config.json"
_ENDING = ".index.json"
_MAX_BYTES = 2**26
"""No index and no config.json is larger in earnest."""


def found(path: str | Path) -> Path:
    """The file of weights that a path means: itself, or what lies in a folder."""
    path = Path(path).expanduser()
    if not path.is_dir():
        return path
    for name in (INDEX, WHOLE):
        if (path / name).is_file():
            return path / name
    single = sorted(path.glob("*.safetensors"))
    if len(single) != 1:
        others = sorted(
            one.name for ending in ("*.bin", "*.pt", "*.pth", "*.h5") for one in path.glob(ending)
        )
        held = f"{path} holds {len(single) or 'no'} safetensors files"
        raise DataError(
            f"{held}; there is {others[0]}, a format that may hold code" if others and not single else held,
            remedy="name the file of weights; other formats are converted where you trust them:\n"
            "AutoModel.from_pretrained(FOLDER).save_pretrained(NEW)",
        )
    return single[0]


def shapes(path: str | Path) -> dict[str, tuple[int, ...]]:
    """The arrays of a file, or of all files of an index or folder, by name, and their shapes; their heads are read."""
    stored: dict[str, tuple[int, ...]] = {}
    for part, names in _parts(found(path)).items():
        with _opened(part) as file:
            own = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        stored |= _listed(part, own, names)
    return stored


def arrays(path: str | Path) -> dict[str, np.ndarray]:
    """All arrays by name."""
    stored: dict[str, np.ndarray] = {}
    for part, names in _parts(found(path)).items():
        # A number beyond 32 bits becomes infinite, and as such is refused.
        with _opened(part) as file, np.errstate(over="ignore"):
            own = {name: np.asarray(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
        stored |= _listed(part, own, names)
    return stored


def repeats(path: str | Path, one: str, other: str) -> bool:
    """Whether two arrays hold the same numbers."""
    held = {}
    for part, names in _parts(found(path)).items():
        with _opened(part) as file:
            for name in {one, other} & set(names or file.keys()):
                held[name] = np.asarray(file.get_tensor(name))
    return held.keys() == {one, other} and np.array_equal(held[one], held[other])


def config(path: str | Path) -> dict[str, Any] | None:
    """What `config.json` beside the weights says, where there is one of transformers."""
    file = found(path).with_name(CONFIG)
    if not file.is_file():
        return None
    said = _json(file)
    return said if isinstance(said.get("model_type"), str) else None


def preprocessor(path: str | Path) -> dict[str, Any] | None:
    """What `preprocessor_config.json` beside the weights says of images, where there is one."""
    file = found(path).with_name(PREPROCESSOR)
    return _json(file) if file.is_file() else None


def _parts(path: Path) -> dict[Path, list[str]]:
    """The files, and the arrays that each is said to hold; of a single file nothing is said."""
    if not path.name.endswith(_ENDING):
        return {path: []}
    listed = _json(path).get("weight_map")
    if not isinstance(listed, dict) or not listed:
        raise DataError(f"{path.name} has no weight_map, the list of its arrays and their files")
    parts: dict[Path, list[str]] = {}
    for name, part in listed.items():
        if not isinstance(part, str) or Path(part).name != part:
            raise DataError(f"{path.name}: {name} lies in {part!r}, which is no file beside it")
        parts.setdefault(path.with_name(part), []).append(name)
    lacking = [part.name for part in parts if not part.is_file()]
    if lacking:
        raise DataError(
            f"{path.name} lists {len(parts)} files; {len(lacking)} are not there: {', '.join(lacking[:3])}",
            remedy="download all of them into one folder",
        )
    return parts


def _listed(part: Path, held: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """What a file holds, all of it or what its index says."""
    lacking = [name for name in names if name not in held]
    if lacking:
        raise DataError(
            f"{part.name} does not hold {lacking[0]}, which the index says it does",
            remedy="the files are of two versions: download all of them again",
        )
    return {name: held[name] for name in names} if names else dict(held)


def _json(file: Path) -> dict[str, Any]:
    try:
        size = file.stat().st_size
        said = json.loads(file.read_bytes().decode()) if size <= _MAX_BYTES else None
    except OSError as error:
        raise DataError(f"{file}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is not a JSON file: {error}") from None
    if not isinstance(said, dict):
        raise DataError(f"{file} holds no JSON object")
    return said


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise DataError(
            f"{path} is not a file", remedy="name a .safetensors file, or the folder that holds it"
        )
    try:
        file = safetensors.safe_open(path, framework="flax")  # knows bfloat16
    except safetensors.SafetensorError as error:
        raise DataError(
            f"{path.name} is not a safetensors file ({error})",
            remedy="files of other formats may hold code and are not opened; convert them where you trust them",
        ) from None
    with file:
        yield file


__all__ = [
    "CONFIG",
    "INDEX",
    "PREPROCESSOR",
    "WHOLE",
    "arrays",
    "config",
    "found",
    "preprocessor",
    "repeats",
    "shapes",
]

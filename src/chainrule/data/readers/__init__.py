"""Readers of files and folders, one for each format, and the choice between them."""

from pathlib import Path

from chainrule.core.errors import DataError
from chainrule.data.loading.scan import SourceReader
from chainrule.data.loading.walking import special
from chainrule.data.readers import (
    arrays,
    boxed,
    captioned,
    cifar,
    documents,
    idx,
    images,
    masked,
    midi_files,
    pairs,
    recordings,
    sound,
    tabbed,
    table,
    text,
)

_SUFFIXES = {
    **{suffix: format.reader for suffix, format in table.FORMATS.items()},
    ".npy": arrays.reader,
    ".npz": arrays.reader,
    ".txt": text.reader,
    ".md": text.reader,
    ".jsonl": documents.lines_reader,
    ".wav": sound.reader,
}
_SNIFFED = 4096


def recognise(path: Path) -> SourceReader:
    """The reader for an existing file or folder, by its name and, failing that, by its first bytes."""
    if path.is_dir():
        return _recognise_folder(path)
    if what := special(path):
        raise DataError(
            f"{path} is {what}: data are read from files and folders",
            remedy="a text that another program writes: PROGRAM | chainrule train gpt data=-",
        )
    suffix = table.suffix_of(path)
    if suffix == ".tsv":
        return pairs.reader if pairs.has_pairs(path) else tabbed.reader
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if suffix in (".pkl", ".pickle"):
        raise DataError(
            f"{path.name} is a pickle, which can run code and is never opened", remedy="save it as .npz"
        )
    if suffix in images.PICTURES:
        raise DataError(f"{path.name} is a single image", remedy=f"give the folder it is in: {path.parent}")
    if not path.is_file():
        raise DataError(f"{path} is neither a file nor a folder")
    with path.open("rb") as file:
        start = file.read(_SNIFFED)
    if "idx" in path.name and (start[:2] in (b"\0\0", b"\x1f\x8b")):
        return idx.reader
    if b"\0" in start or start[:2] == b"\x1f\x8b":
        raise DataError(
            f"{path.name}: this kind of file is not known",
            remedy=f"read are: text, .jsonl, {', '.join(table.FORMATS)}, .npy, .npz, .wav, IDX files, "
            "and folders of images (PNG, JPEG, WebP, GIF), sound (WAV, FLAC), music (MIDI) or texts",
        )
    return text.reader


def _recognise_folder(folder: Path) -> SourceReader:
    if any(idx.find(folder, part, what) for part in ("train", "t10k") for what in ("images", "labels")):
        return idx.reader
    if cifar.folder_of(folder) is not None:
        return cifar.reader
    if images.has_pictures(folder):
        if masked.has_masks(folder):
            return masked.reader
        if boxed.has_boxes(folder):
            return boxed.reader
        return captioned.reader if captioned.has_captions(folder) else images.reader
    if midi_files.has_music(folder):
        return midi_files.reader
    if recordings.has_sound(folder):
        return recordings.reader
    if documents.has_texts(folder):
        return documents.folder_reader
    names = sorted(path.name for path in folder.iterdir())
    held = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "nothing"
    raise DataError(
        f"{folder.name}: no images (PNG, JPEG, WebP, GIF), no sound (WAV, FLAC), no music (MIDI), no texts (.txt, .md) "
        f"and no IDX files in this folder; it holds {held}",
        remedy="for a table or arrays, give the file itself",
    )


__all__ = ["recognise"]

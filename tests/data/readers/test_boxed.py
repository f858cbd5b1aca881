"""Folders of images with boxes in three formats: what is read, and what is found wrong before anything trains."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import check, load, targets
from chainrule.data.loading import sources
from chainrule.data.loading.load import read_contents
from chainrule.data.loading.scan import Contents

BOXES: dict[str, list[tuple[float, float, float, float, str]]] = {
    "a.png": [(2.0, 3.0, 10.0, 12.0, "cat"), (12.0, 4.0, 20.0, 16.0, "dog")],
    "b.png": [(0.0, 0.0, 24.0, 18.0, "dog")],
    "c.png": [],
    "d.png": [(5.0, 5.0, 9.0, 9.5, "cat")],
}
"""In images of 24 × 18 pixels."""
WIDTH, HEIGHT = 24, 18


def contents(folder: Path, bad: str = "error", **options: object) -> Contents:
    """What a folder holds, before it is divided."""
    source = sources.find(folder)
    return read_contents(source, source.resolve(options), 0, bad)


def noted(folder: Path, **options: object) -> dict[str, int]:
    """What is noted of a folder, and how often."""
    return {group.kind: group.count for group in check(folder, **options).problems if group.effect == "note"}


def pictures(
    folder: Path, names: Sequence[str] = tuple(BOXES), size: tuple[int, int] = (WIDTH, HEIGHT)
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        pixels = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), np.uint8)
        Image.fromarray(pixels).save(folder / name)
    return folder


def coco(folder: Path, boxes: dict = BOXES, **changes: object) -> Path:  # type: ignore[type-arg]
    """COCO's format: sizes in place of the lower right corner, categories counted from 5."""
    pictures(folder / "val", list(boxes))
    numbers = {"cat": 5, "dog": 9}
    annotations = [
        {
            "image_id": i,
            "category_id": numbers[label],
            "bbox": [x0, y0, x1 - x0, y1 - y0],
            "iscrowd": 0,
            "id": 7,
        }
        for i, own in enumerate(boxes.values())
        for x0, y0, x1, y1, label in own
    ]
    whole = {
        "images": [
            {"id": i, "file_name": name, "width": WIDTH, "height": HEIGHT} for i, name in enumerate(boxes)
        ],
        "annotations": annotations,
        "categories": [{"id": 9, "name": "dog"}, {"id": 5, "name": "cat"}],
        **changes,
    }
    (folder / "annotations").mkdir()
    (folder / "annotations" / "instances.json").write_text(json.dumps(whole))
    return folder


def yolo(folder: Path, boxes: dict = BOXES) -> Path:  # type: ignore[type-arg]
    """YOLO's format: centres and sizes as shares of the image."""
    pictures(folder / "images", list(boxes))
    (folder / "labels").mkdir()
    for name, own in boxes.items():
        rows = [
            f"{('cat', 'dog').index(label)} {(x0 + x1) / 2 / WIDTH} {(y0 + y1) / 2 / HEIGHT} "
            f"{(x1 - x0) / WIDTH} {(y1 - y0) / HEIGHT}"
            for x0, y0, x1, y1, label in own
        ]
        (folder / "labels" / name).with_suffix(".txt").write_text("\n".join(rows))
    (folder / "data.yaml").write_text("names: [cat, dog]\n")
    return folder


def table(folder: Path, boxes: dict = BOXES) -> Path:  # type: ignore[type-arg]
    """CSV: a row for each box, and one of a file alone."""
    pictures(folder, list(boxes))
    rows = [
        f"{name},{x0},{y0},{x1},{y1},{label}" for name, own in boxes.items() for x0, y0, x1, y1, label in own
    ]
    rows += [f"{name},,,,," for name, own in boxes.items() if not own]
    (folder / "boxes.csv").write_text("\n".join(["file,xmin,ymin,xmax,ymax,label", *rows]))
    return folder


FORMATS = [coco, yolo, table]


@pytest.mark.parametrize("write", FORMATS)
def test_every_format_gives_the_same_boxes(write: Callable[[Path], Path], tmp_path: Path) -> None:
    data = contents(write(tmp_path / "pets"))
    assert data.target == "boxes"
    assert data.classes == ("cat", "dog")
    assert data.y.shape[1:] == (2, 5)
    found = sorted(
        [[*row[:4].round(3).tolist(), data.classes[int(row[4])]] for row in boxes if row[4] >= 0]
        for boxes in data.y
    )
    assert found == sorted([list(box) for box in own] for own in BOXES.values())


@pytest.mark.parametrize("rows", [None, ""])
def test_labels_are_found_behind_images_of_background(rows: str | None, tmp_path: Path) -> None:
    folder = yolo(tmp_path / "pets", {"0.png": [], **BOXES})
    own = folder / "labels" / "0.txt"
    own.unlink() if rows is None else own.write_text(rows)
    assert contents(folder).target == "boxes"


def test_the_order_of_cocos_classes_is_that_of_their_numbers(tmp_path: Path) -> None:
    categories = [{"id": 9, "name": "cat"}, {"id": 5, "name": "dog"}]
    boxes = {"a.png": [(2.0, 3.0, 10.0, 12.0, "cat")]}
    data = contents(coco(tmp_path / "pets", boxes, categories=categories))
    assert data.classes == ("dog", "cat")


@pytest.mark.parametrize(
    ("box", "kind"),
    [
        ((8.0, 3.0, 8.0, 12.0, "cat"), "empty box"),
        ((9.0, 3.0, 8.0, 12.0, "cat"), "empty box"),
        ((float("nan"), 3.0, 8.0, 12.0, "cat"), "box with NaN"),
        ((3.0, 3.0, 40.0, 12.0, "cat"), "box outside the image"),
        ((30.0, 3.0, 40.0, 12.0, "cat"), "box outside the image"),
    ],
)
@pytest.mark.parametrize("write", FORMATS)
def test_bad_boxes_are_found_and_cost_their_image(
    write: Callable[..., Path], box: tuple[float, ...], kind: str, tmp_path: Path
) -> None:
    folder = write(tmp_path / "pets", {**BOXES, "e.png": [box]})
    report = check(folder)
    assert not report.ok
    assert report.usable == 4
    assert report.total == 5
    (group,) = [group for group in report.problems if group.effect == "skip"]
    assert group.kind == kind
    assert group.first.endswith("e.png")
    with pytest.raises(DataError, match=kind):
        contents(folder)
    assert len(contents(folder, bad="skip")) == 4


def test_boxes_that_reach_out_can_be_cut_off(tmp_path: Path) -> None:
    folder = table(tmp_path / "pets", {"a.png": [(3.0, 3.0, 40.0, 12.0, "cat")], "b.png": BOXES["b.png"]})
    (group,) = [group for group in check(folder).problems if group.effect == "skip"]
    assert "data.clip=true" in group.items[0].remedy
    data = contents(folder, clip=True)
    assert data.y is not None
    assert data.y[:, 0, 2].tolist() == [24, 24]
    assert noted(folder, clip=True)["cut off"] == 1


def test_a_rounding_error_is_cut_off_and_said(tmp_path: Path) -> None:
    folder = table(tmp_path / "pets", {"a.png": [(-0.3, 3.0, 24.4, 12.0, "cat")]})
    assert contents(folder).y[0, 0].tolist() == [0, 3, 24, 12, 0]  # type: ignore[index]
    assert noted(folder)["cut off"] == 1


def test_images_of_other_sizes_than_the_list_says_are_found(tmp_path: Path) -> None:
    folder = coco(tmp_path / "pets")
    pictures(folder / "val", ["b.png"], (WIDTH, HEIGHT + 1))
    (group,) = [group for group in check(folder, size=16).problems if group.effect == "skip"]
    assert group.kind == "wrong size"
    assert "24×19 pixels; the list of boxes says 24×18" in group.items[0].detail


@pytest.mark.parametrize("write", [coco, table])
def test_missing_files_are_found(write: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = write(tmp_path / "pets")
    next(folder.rglob("b.png")).unlink()
    report = check(folder)
    (group,) = [group for group in report.problems if group.effect == "skip"]
    assert (group.kind, group.items[0].detail, report.total, report.usable) == ("missing file", "b.png", 4, 3)


def test_images_that_the_list_does_not_name_are_noted(tmp_path: Path) -> None:
    folder = table(tmp_path / "pets")
    pictures(folder, ["z.png"])
    assert check(folder).ok
    assert noted(folder)["no boxes"] == 1
    assert len(contents(folder)) == 5


def test_a_size_scales_whole_images_and_their_boxes(tmp_path: Path) -> None:
    data = contents(table(tmp_path / "pets", {"b.png": BOXES["b.png"]}), size=12)
    assert data.x.shape[1:] == (12, 12, 3)
    assert data.y[0, 0].tolist() == [0, 1, 12, 10, 0]  # 12 × 9 pixels, one row down
    assert (data.x[0, 0] == 114).all()


def test_images_of_several_sizes_need_one_and_the_error_says_how(tmp_path: Path) -> None:
    folder = table(tmp_path / "pets")
    pictures(folder, ["a.png"], (30, 30))
    with pytest.raises(DataError, match=r"data\.size=18"):
        contents(folder)
    assert contents(folder, size=18).x.shape[1:] == (18, 18, 3)


def test_crowds_are_left_out_and_noted(tmp_path: Path) -> None:
    annotations = [
        {"id": 1, "image_id": 0, "category_id": 5, "bbox": [2, 3, 8, 9], "iscrowd": 0},
        {"id": 2, "image_id": 0, "category_id": 5, "bbox": [0, 0, 24, 18], "iscrowd": 1},
    ]
    folder = coco(tmp_path / "pets", annotations=annotations)
    assert noted(folder)["crowd"] == 1
    data = contents(folder)
    assert (data.y[..., 4] >= 0).sum() == 1


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ('{"images": [', "not JSON|annotations|Expecting"),
        ('{"images": 3, "annotations": [], "categories": []}', "COCO's format"),
        (
            '{"images": [], "annotations": [], "categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]}',
            "two categories",
        ),
    ],
)
def test_lists_that_cannot_be_read_say_why(written: str, words: str, tmp_path: Path) -> None:
    pictures(tmp_path / "pets")
    (tmp_path / "pets" / "list.json").write_text(written)
    with pytest.raises(DataError, match=words):
        contents(tmp_path / "pets")


def test_classes_without_names_in_text_files_are_numbers_and_unknown_ones_are_found(tmp_path: Path) -> None:
    folder = yolo(tmp_path / "pets")
    (folder / "data.yaml").unlink()
    assert contents(folder).classes == ("0", "1")
    (folder / "classes.txt").write_text("cat\n")
    (group,) = [group for group in check(folder).problems if group.effect == "skip"]
    assert (group.kind, group.count) == ("unknown class", 2)


def test_numbers_beyond_any_class_or_any_image_cost_their_image_and_nothing_else(tmp_path: Path) -> None:
    folder = yolo(tmp_path / "pets")
    (folder / "data.yaml").unlink()
    (folder / "labels" / "a.txt").write_text("99999999999 0.5 0.5 0.2 0.2\n")
    (group,) = [group for group in check(folder).problems if group.effect == "skip"]
    assert (group.kind, group.count) == ("unknown class", 1)
    assert contents(folder, "skip").classes == ("0", "1")
    annotations = [
        {"id": n, "image_id": n, "category_id": 5, "bbox": [x, 3, 8, 9]} for n, x in enumerate((10**400, 2))
    ]
    listed = coco(tmp_path / "listed", annotations=annotations)
    (group,) = [group for group in check(listed).problems if group.effect == "skip"]
    assert (group.kind, group.count) == ("bad box", 1)


def test_images_alone_can_be_had_and_a_list_can_be_named(tmp_path: Path) -> None:
    folder = table(tmp_path / "pets")
    assert contents(folder, target="none").target == "none"
    (folder / "other.csv").write_text("file,x0,y0,x1,y1,class\na.png,1,2,3,4,bird\n")
    assert contents(folder, boxes="other.csv").classes == ("bird",)
    with pytest.raises(ArgumentError, match="from the folder on"):
        contents(folder, boxes="../other.csv")
    with pytest.raises(DataError, match="does not exist"):
        contents(folder, boxes="another.csv")


def test_no_boxes_at_all_stop_the_source(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no box in any image"):
        load(table(tmp_path / "pets", {"a.png": [], "b.png": []}))


def test_boxes_in_folders_that_divide_them_stay_there(tmp_path: Path) -> None:
    for part in ("train", "val", "test"):
        pictures(tmp_path / "pets" / part, [f"{part}.png"])
    rows = [f"{part}/{part}.png,1,1,9,9,cat" for part in ("train", "val", "test")]
    (tmp_path / "pets" / "boxes.csv").write_text("\n".join(["file,x0,y0,x1,y1,class", *rows]))
    data = load(tmp_path / "pets")
    assert [len(data.train), len(data.val), len(data.test)] == [1, 1, 1]


def test_predictions_become_rows_of_a_table_and_go_back_to_the_image() -> None:
    from chainrule.data import Schema
    from chainrule.data.placement import Placement

    schema = Schema("image", (8, 8, 3), "boxes", (1, 5), classes=("cat", "dog"))
    target = targets.of(schema)
    predicted = np.zeros((2, 2, 6))
    predicted[..., 5] = -1
    predicted[0, 0], predicted[0, 1] = (1, 2, 3, 4, 0.5, 1), (0, 0, 2, 2, 0.75, 0)
    back = target.restored(predicted, [Placement(0.5, 0, 1), Placement()])
    assert target.answer_rows(back).tolist() == [0, 0, 1]
    answers = target.answers(schema, (), back, None)
    assert answers["prediction"].tolist() == ["cat", "dog", ""]
    assert answers["probability"][:2].tolist() == [0.75, 0.5]
    assert [answers[edge][1] for edge in ("x0", "y0", "x1", "y1")] == [2, 2, 6, 6]
    assert np.isnan(answers["x0"][2])


def test_classes_that_a_run_does_not_know_are_named(tmp_path: Path) -> None:
    from chainrule.data import Schema

    found = contents(table(tmp_path))
    schema = Schema("image", (HEIGHT, WIDTH, 3), "boxes", (1, 5), classes=("dog",))
    target = targets.of(schema)
    rows = np.arange(len(found.x))
    said = target.said(found, rows, schema)
    assert sorted(one for one in said if isinstance(one, str)) == ["cat", "cat"]
    _, known = target.recognised(schema, said)
    assert known.tolist() == [not isinstance(one, str) for one in said]

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import check, load
from chainrule.data.loading.copies import HELD_OUT
from chainrule.data.loading.load import check_command
from chainrule.data.readers.picture import Unusable, decode
from tests.data import corpus


def kinds(folder: Path, **options: object) -> dict[tuple[str, str], tuple[int, str]]:
    return {(g.kind, g.effect): (g.count, g.first) for g in check(folder, **options).problems}


def test_every_pixel_of_a_folder_of_png_images_comes_back(tmp_path: Path) -> None:
    data = load(corpus.pets(tmp_path / "pets"))
    assert data.schema.shape == (6, 5, 3)
    assert data.schema.levels == 256
    assert data.schema.classes == ("cats", "dogs")
    expected = {np.asarray(corpus.picture(100 * j + i)).tobytes(): j for j in range(2) for i in range(10)}
    found = {}
    for split in (data.train, data.val, data.test):
        for raw, y in zip(data.inverse(split.x), split.y, strict=True):
            found[raw.astype(np.uint8).tobytes()] = y
    assert found == expected


def test_grey_images_keep_one_channel(tmp_path: Path) -> None:
    assert load(corpus.pets(tmp_path / "pets", mode="L")).schema.shape == (6, 5, 1)


def test_one_image_in_colour_makes_all_of_them_rgb(tmp_path: Path) -> None:
    folder = corpus.pets(tmp_path / "pets", mode="L")
    corpus.write(folder / "cats" / "00.png", corpus.packed(corpus.picture()))
    data = load(folder)
    assert data.schema.shape == (6, 5, 3)
    channels = np.concatenate([s.arrays["x"] for s in (data.train, data.val, data.test)])
    assert np.sum(np.any(channels != channels[..., :1], axis=(1, 2, 3))) == 1


def test_a_folder_without_subfolders_has_no_classes(tmp_path: Path) -> None:
    for i in range(10):
        corpus.write(tmp_path / "all" / f"{i}.jpg", corpus.packed(corpus.picture(i), "JPEG"))
    data = load(tmp_path / "all")
    assert data.schema.target == "none"
    assert data.train.y is None


def test_an_image_outside_every_class_folder_is_named(tmp_path: Path) -> None:
    folder = corpus.pets(tmp_path / "pets")
    corpus.write(folder / "stray.png", corpus.packed(corpus.picture()))
    with pytest.raises(DataError, match=r"1 of 21 images cannot be read; first: pets/stray.png \(no class"):
        load(folder)
    assert len(load(folder, bad="skip").skipped) == 1
    assert load(folder, target="none").schema.target == "none"


def test_folders_called_train_and_test_divide_the_images(tmp_path: Path) -> None:
    corpus.pets(tmp_path / "pets" / "train")
    corpus.pets(tmp_path / "pets" / "test", per_class=3)
    data = load(tmp_path / "pets")
    assert data.schema.classes == ("cats", "dogs")
    assert [len(s) for s in (data.train, data.val, data.test)] == [18, 2, 6]


def test_images_of_different_sizes_are_refused_with_the_sizes_and_the_remedy(tmp_path: Path) -> None:
    folder = corpus.pets(tmp_path / "pets")
    corpus.write(folder / "cats" / "big.png", corpus.packed(corpus.picture(size=(9, 8))))
    with pytest.raises(DataError, match=r"6×5 \(20\), 9×8 \(1\)\n.*data.size=5"):
        load(folder)
    assert load(folder, size=4).schema.shape == (4, 4, 3)
    assert load(folder, size=(3, 4)).schema.shape == (3, 4, 3)
    assert kinds(folder) == {("mixed sizes", "stop"): (1, "pets")}
    assert check(folder, size=4).ok


def test_scaling_to_a_size_crops_at_the_centre_and_does_not_distort(tmp_path: Path) -> None:
    wide = np.zeros((4, 12), np.uint8)
    wide[:, 4:8] = 255
    for i in range(4):
        corpus.write(tmp_path / "wide" / f"{i}.png", corpus.packed(Image.fromarray(wide)))
    data = load(tmp_path / "wide", size=4)
    assert np.all(data.train.arrays["x"] == 255)


def test_images_on_disk_are_never_changed_by_where_they_lie(tmp_path: Path) -> None:
    here, there = load(corpus.pets(tmp_path / "a")), load(corpus.pets(tmp_path / "b" / "c"))
    assert here.hash == there.hash
    assert here.name == "a"
    file = tmp_path / "a" / "cats" / "03.png"
    pixels = np.asarray(Image.open(file)).copy()
    pixels[0, 0, 0] ^= 1
    corpus.write(file, corpus.packed(Image.fromarray(pixels)))
    assert load(tmp_path / "a").hash != here.hash


@pytest.fixture(name="broken")
def _broken(tmp_path: Path) -> Path:
    """Twenty sound images and one of every kind of trouble."""
    folder = corpus.pets(tmp_path / "pets")
    png, jpeg = corpus.packed(corpus.picture()), corpus.packed(corpus.picture(), "JPEG")
    cats, dogs = folder / "cats", folder / "dogs"
    corpus.write(cats / "a-truncated.png", png[:-30])
    corpus.write(cats / "b-truncated.jpg", jpeg[: len(jpeg) // 2])
    corpus.write(dogs / "c-empty.jpg", b"")
    corpus.write(dogs / "d-jpeg.png", jpeg)
    corpus.write(dogs / "e-gif.png", corpus.packed(corpus.picture(), "GIF"))
    corpus.write(dogs / "f-cmyk.jpg", corpus.packed(corpus.picture(mode="CMYK"), "JPEG"))
    corpus.write(dogs / "g-16bit.png", corpus.sixteen_bit())
    corpus.write(dogs / "h-words.jpg", b"this is not a picture at all")
    corpus.write(dogs / "i-flipped.png", png[:60] + bytes([png[60] ^ 0xFF]) + png[61:])
    corpus.write(dogs / "j-other.gif", corpus.packed(corpus.picture(), "GIF"))
    corpus.write(dogs / "k-clear.png", corpus.packed(corpus.picture(mode="RGBA")))
    corpus.write(dogs / "readme.txt", b"about these pictures")
    corpus.write(dogs / ".hidden.png", b"")
    (dogs / "l-gone.png").symlink_to(tmp_path / "nowhere.png")
    return folder


def test_check_counts_every_kind_of_broken_image_and_names_the_first(broken: Path) -> None:
    assert kinds(broken, convert=False) == {
        ("truncated", "skip"): (2, "pets/cats/a-truncated.png"),
        ("empty", "skip"): (1, "pets/dogs/c-empty.jpg"),
        ("wrong extension", "skip"): (1, "pets/dogs/e-gif.png"),
        ("CMYK", "skip"): (1, "pets/dogs/f-cmyk.jpg"),
        ("16-bit", "skip"): (1, "pets/dogs/g-16bit.png"),
        ("not an image", "skip"): (1, "pets/dogs/h-words.jpg"),
        ("damaged", "skip"): (1, "pets/dogs/i-flipped.png"),
        ("format not read", "skip"): (1, "pets/dogs/j-other.gif"),
        ("unreadable", "skip"): (1, "pets/dogs/l-gone.png"),
        ("wrong extension", "note"): (1, "pets/dogs/d-jpeg.png"),
        ("transparent", "note"): (1, "pets/dogs/k-clear.png"),
        ("not an image file", "note"): (1, "pets/dogs/readme.txt"),
    }
    report = check(broken, convert=False)
    assert (report.total, report.usable, report.ok) == (32, 22, False)


def test_images_that_come_twice_show_nothing_or_stand_alone_in_their_class_are_noted(tmp_path: Path) -> None:
    folder = corpus.pets(tmp_path / "pets")
    corpus.write(folder / "dogs" / "again.png", corpus.packed(corpus.picture(3)))
    corpus.write(folder / "birds" / "blank.png", corpus.packed(Image.new("RGB", (5, 6), (9, 8, 7))))
    assert kinds(folder) == {
        ("same image twice", "note"): (1, "pets/dogs/again.png"),
        ("one colour", "note"): (1, "pets/birds/blank.png"),
        ("fewer than two examples", "note"): (1, "pets"),
    }
    lines = "\n".join(check(folder).lines())
    assert "the same pixels as pets/cats/03.png of class 'cats'" in lines
    assert "class 'birds'" in lines
    notes = (("one colour", 1), ("same image twice", 1), ("fewer than two examples", 1))
    assert sorted(load(folder).notes) == sorted(notes)


def test_images_with_a_list_of_labels_get_the_same_notes(tmp_path: Path) -> None:
    folder, rows = tmp_path / "pets", ["file,kind"]
    pictures = {f"{i:02}": corpus.picture(i) for i in range(20)}
    pictures |= {"again": corpus.picture(3), "blank": Image.new("RGB", (5, 6), (9, 8, 7))}
    for number, (name, picture) in enumerate(pictures.items()):
        corpus.write(folder / f"{name}.png", corpus.packed(picture))
        rows.append(f"{name}.png,{'bird' if name == 'blank' else 'cat' if number % 2 else 'dog'}")
    corpus.write(folder / "labels.csv", "\n".join(rows).encode())
    assert kinds(folder, labels="labels.csv") == {
        ("same image twice", "note"): (1, "pets/again.png"),
        ("one colour", "note"): (1, "pets/blank.png"),
        ("fewer than two examples", "note"): (1, "pets"),
        (HELD_OUT, "note"): (1, "pets example 21 (val)"),
    }
    lines = "\n".join(check(folder, labels="labels.csv").lines())
    assert "the same pixels as pets/03.png of class 'cat'" in lines
    corpus.write(folder / "00.png", corpus.packed(corpus.picture(size=(9, 8))))
    assert ("mixed sizes", "stop") in kinds(folder, labels="labels.csv")


def test_an_image_of_the_test_split_that_training_has_seen_is_noted(tmp_path: Path) -> None:
    for number in range(4):
        corpus.write(
            tmp_path / "all" / "train" / "ab"[number % 2] / f"{number}.png",
            corpus.packed(corpus.picture(number)),
        )
    corpus.write(tmp_path / "all" / "test" / "a" / "x.png", corpus.packed(corpus.picture(0)))
    (found,) = [g for g in check(tmp_path / "all").problems if g.kind == "same image twice"]
    assert {p.where.split("/")[1] for p in found.items} <= {"train", "test"}
    assert "which is in another split" in found.items[0].detail


def test_load_refuses_what_check_finds_and_skip_leaves_it_out(broken: Path) -> None:
    with pytest.raises(DataError) as caught:
        load(broken, convert=False)
    assert caught.value.message == (
        "10 of 32 images cannot be read; first: pets/cats/a-truncated.png (truncated)"
    )
    assert caught.value.remedy == (
        f"training would use 22.   accept: data.bad=skip   list: chainrule data check {broken} data.convert=false"
    )
    data = load(broken, bad="skip", convert=False)
    assert sum(len(s) for s in (data.train, data.val, data.test)) == 22
    assert len(data.skipped) == 10
    assert data.skipped[0] == ("pets/cats/a-truncated.png", "truncated")
    assert load(**data.source).hash == data.hash


def test_the_settings_of_training_are_those_of_a_check(broken: Path) -> None:
    assert check(broken, bad="skip", split=(0.8, 0.1, 0.1)).ok
    assert not check(broken, bad="error").ok
    with pytest.raises(ArgumentError, match="three positive numbers"):
        check(broken, split=(1, 1, 1))
    call = load(broken, bad="skip", size=[4, 5], target="none").source
    command = f"chainrule data check {broken} data.size=4,5 data.target=none"
    assert check_command(call) == command


def test_a_report_is_plain_values_and_readable_lines(broken: Path) -> None:
    report = check(broken, convert=False)
    plain = report.to_json()
    assert plain["ok"] is False
    assert sum(len(group["items"]) for group in plain["problems"]) == 13
    assert report.lines()[0] == "pets: 22 of 32 images can be used"
    assert "  pets/cats/b-truncated.jpg" in report.lines()
    assert "  and 1 more" in report.lines(limit=1)


def test_what_has_to_be_converted_is_converted_and_noted(broken: Path) -> None:
    found = kinds(broken)
    assert {kind: found[kind, "note"] for kind in ("CMYK", "16-bit", "wrong extension")} == {
        "CMYK": (1, "pets/dogs/f-cmyk.jpg"),
        "16-bit": (1, "pets/dogs/g-16bit.png"),
        "wrong extension": (2, "pets/dogs/d-jpeg.png"),
    }
    assert check(broken).usable == 26


def test_webp_gif_cmyk_and_sixteen_bits_keep_their_pixels(tmp_path: Path) -> None:
    image = corpus.picture(mode="L", size=(8, 8))
    pixels = np.asarray(image)
    deep = Image.fromarray(pixels.astype(np.uint16) * 257)
    dim = Image.fromarray(pixels.astype(np.uint16) + 1)
    for i, (name, file) in enumerate(
        [
            ("a.webp", corpus.packed_webp(image)),
            ("b.gif", corpus.packed(image, "GIF")),
            ("c.png", corpus.packed(deep)),
        ]
    ):
        array, notes = decode(corpus.write(tmp_path / name, file), None, 100, 10_000)
        assert np.array_equal(array[..., 0], pixels)
        assert [kind for kind, _ in notes] == [[], [], ["16-bit"]][i]
    _, notes = decode(corpus.write(tmp_path / "d.png", corpus.packed(dim)), None, 100, 10_000)
    assert "the brightest value is 2" in notes[0][1]
    white = Image.new("CMYK", (4, 4), (0, 0, 0, 0))
    array, notes = decode(corpus.write(tmp_path / "e.jpg", corpus.packed(white, "JPEG")), None, 100, 10_000)
    assert notes == [("CMYK", "brought to RGB")]
    assert array.min() > 250


def test_an_animation_gives_its_first_frame(tmp_path: Path) -> None:
    frames = [Image.new("L", (5, 5), grey) for grey in (10, 200, 90)]
    for form, name in (("GIF", "a.gif"), ("WEBP", "a.webp"), ("PNG", "a.png")):
        options = {"lossless": True} if form == "WEBP" else {}
        frames[0].save(tmp_path / name, form, save_all=True, append_images=frames[1:], **options)
        array, notes = decode(tmp_path / name, None, 100, 10_000)
        assert np.unique(array).tolist() == [10]
        assert notes == [("animated", "the first frame is used")]


@pytest.mark.parametrize("form", ["GIF", "WEBP"])
def test_a_file_without_its_end_is_truncated(form: str, tmp_path: Path) -> None:
    data = corpus.packed(corpus.picture(size=(40, 40)), form)
    path = corpus.write(tmp_path / f"a.{form.lower()}", data[: len(data) // 2])
    with pytest.raises(Unusable, match="truncated"):
        decode(path, None, 10_000, 100_000)
    with pytest.raises(Unusable, match="too many pixels"):
        decode(corpus.write(path, data), None, 1000, 100_000)
    with pytest.raises(Unusable, match="not an image"):
        decode(corpus.write(path, b"RIFF1234WAVEfmt "), None, 1000, 100_000)


def test_a_transparent_image_is_put_on_white(tmp_path: Path) -> None:
    clear = Image.new("RGBA", (3, 3), (10, 20, 30, 0))
    for i in range(4):
        corpus.write(tmp_path / "clear" / f"{i}.png", corpus.packed(clear))
    assert np.all(load(tmp_path / "clear").train.arrays["x"] == 255)


def test_an_image_is_turned_the_way_its_metadata_say(tmp_path: Path) -> None:
    image = corpus.picture(size=(6, 5))
    exif = image.getexif()
    exif[0x0112] = 6
    for i in range(4):
        (tmp_path / "turned").mkdir(exist_ok=True)
        image.save(tmp_path / "turned" / f"{i}.png", exif=exif)
    assert kinds(tmp_path / "turned") == {
        ("rotated", "note"): (4, "turned/0.png"),
        ("same image twice", "note"): (3, "turned/1.png"),
        (HELD_OUT, "note"): (2, "turned example 1 (val)"),
    }
    data = load(tmp_path / "turned")
    assert np.array_equal(data.train.arrays["x"][0], np.rot90(np.asarray(image), -1))


def test_one_class_only_is_refused_with_the_way_out(tmp_path: Path) -> None:
    for i in range(5):
        corpus.write(tmp_path / "pets" / "cats" / f"{i}.png", corpus.packed(corpus.picture(i)))
    assert kinds(tmp_path / "pets") == {("one class only", "stop"): (1, "pets")}
    with pytest.raises(DataError, match=r"every training example is of class 'cats'\n.*data.target=none"):
        load(tmp_path / "pets")
    assert len(load(tmp_path / "pets", target="none").train) == 3


def test_a_folder_of_nothing_but_broken_images_says_so(tmp_path: Path) -> None:
    corpus.write(tmp_path / "pets" / "a.png", b"")
    with pytest.raises(
        DataError, match=r"no image can be read\n.*1 of 1 images cannot be read; first: pets/a.png"
    ):
        load(tmp_path / "pets", bad="skip")


def test_folders_that_link_to_each_other_are_entered_once(tmp_path: Path) -> None:
    folder = corpus.pets(tmp_path / "pets")
    (folder / "cats" / "loop").symlink_to(folder)
    assert check(folder).total == 20


def test_a_size_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="size=0: size must be a whole number from 1 to 8192"):
        load(corpus.pets(tmp_path / "pets"), size=0)

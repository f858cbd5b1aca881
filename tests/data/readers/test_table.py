from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Data, check, load
from tests.data import corpus


def all_of(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Features and targets of all splits, in original units."""
    splits = (data.train, data.val, data.test)
    x = data.scaling.inverse(np.concatenate([s.x for s in splits]).astype(np.float64))
    y = np.concatenate([s.y for s in splits])
    return x, y if data.target_scaling is None else data.target_scaling.inverse(y.astype(np.float64))


def test_numbers_words_and_classes_become_features_and_targets(tmp_path: Path) -> None:
    data = load(corpus.flowers(tmp_path / "flowers.csv"))
    assert data.schema.kind == "table"
    assert data.schema.columns == ("length", "weight", "colour=red", "colour=white")
    assert data.schema.classes == ("iris", "rose")
    x, y = all_of(data)
    lines = (tmp_path / "flowers.csv").read_text().splitlines()[1:]
    expected = set()
    for line in lines:
        length, weight, colour, species = line.split(",")
        expected.add((length, weight, colour == "red", colour == "white", data.schema.classes.index(species)))
    found = {(f"{a:.3f}", f"{b:.2f}", bool(c), bool(d), int(k)) for (a, b, c, d), k in zip(x, y, strict=True)}
    assert found == expected


def test_features_are_standardised_with_training_statistics_only(tmp_path: Path) -> None:
    data = load(corpus.flowers(tmp_path / "flowers.csv"), split=(0.5, 0.25, 0.25))
    assert np.allclose(data.train.x[:, :2].mean(axis=0), 0, atol=1e-6)
    assert np.allclose(data.train.x[:, :2].std(axis=0), 1, atol=1e-6)
    assert not np.allclose(data.test.x[:, :2].mean(axis=0), 0, atol=1e-3)
    assert data.train.x.dtype == np.float32
    shift, factor = np.asarray(data.scaling.shift), np.asarray(data.scaling.factor)
    assert shift[2:].tolist() == [0, 0]
    assert factor[2:].tolist() == [1, 1]
    raw = np.random.default_rng(0).normal(50, 20, (7, 4))
    assert np.allclose(data.scaling.inverse(data.scaling.apply(raw)), raw, rtol=1e-14)


def test_numbers_far_from_zero_keep_their_digits(tmp_path: Path) -> None:
    path = corpus.csv(
        tmp_path / "far.csv", [["time", "c"], *([1_700_000_000 + i, "xy"[i % 2]] for i in range(20))]
    )
    data = load(path)
    assert sorted(all_of(data)[0][:, 0].round(3)) == [1_700_000_000 + i for i in range(20)]


def test_a_numeric_target_is_scaled_and_its_scaling_undoes_it(tmp_path: Path) -> None:
    rows = [[i, 3 * i, 0.5 + 7 * i] for i in range(40)]
    data = load(corpus.csv(tmp_path / "line.csv", [["a", "b", "price"], *rows]))
    assert data.schema.target == "value"
    assert data.schema.target_shape == ()
    assert np.allclose(data.train.y.mean(), 0, atol=1e-6)
    assert np.allclose(data.train.y.std(), 1, atol=1e-6)
    x, y = all_of(data)
    assert np.allclose(y, 0.5 + 7 * x[:, 0], atol=1e-4)


def test_whole_numbers_are_classes_if_they_are_few_and_values_if_they_are_many(tmp_path: Path) -> None:
    rows = [[i, i * i, i % 3, i % 22] for i in range(30)]
    path = corpus.csv(tmp_path / "n.csv", [["a", "b", "few", "many"], *rows])
    assert load(path).schema.target == "value"
    assert load(path, target="few").schema.classes == ("0", "1", "2")
    assert load(path, target=2).schema.classes == ("0", "1", "2")
    assert load(path, target="few", target_as="value").schema.target == "value"
    assert len(load(path, target_as="class").schema.classes) == 22


def test_the_target_and_dropped_columns_are_chosen_by_name_or_number(tmp_path: Path) -> None:
    path = corpus.flowers(tmp_path / "flowers.csv")
    assert load(path, target="none").schema.target == "none"
    assert load(path, target=None).schema.target == "none"
    assert load(path, target="weight").schema.target == "value"
    data = load(path, drop=["species", 1])
    assert data.schema.columns == ("length",)
    assert data.schema.classes == ("red", "white")
    assert data.source["drop"] == ["species", 1]
    assert load(**data.source).hash == data.hash
    with pytest.raises(
        ArgumentError, match=r"target='specie': there is no such column \(did you mean 'species'\?\)"
    ):
        load(path, target="specie")
    with pytest.raises(ArgumentError, match="drop=9: there is no such column"):
        load(path, drop=9)
    with pytest.raises(ArgumentError, match="'weight' is the target and dropped as well"):
        load(path, target="weight", drop="weight")
    with pytest.raises(ArgumentError, match="no features are left"):
        load(path, drop=[0, 1, 2])


def test_a_header_is_found_where_there_is_one(tmp_path: Path) -> None:
    body = [[i, i % 7, "ab"[i % 2]] for i in range(20)]
    assert load(corpus.csv(tmp_path / "a.csv", [["x", "y", "c"], *body])).schema.columns == ("x", "y")
    assert load(corpus.csv(tmp_path / "b.csv", body)).schema.columns == ("column 0", "column 1")
    assert load(corpus.csv(tmp_path / "c.csv", [["", "y", "c"], *body])).schema.columns == ("column 0", "y")
    words = [["red", "big", "cat"], ["blue", "small", "dog"]] * 10
    assert check(corpus.csv(tmp_path / "d.csv", words)).total == 20
    assert check(corpus.csv(tmp_path / "e.csv", [["colour", "size", "pet"], *words])).total == 20
    assert load(corpus.csv(tmp_path / "f.csv", [[1999, 2000, 2001], *body]), header=True).schema.columns == (
        "1999",
        "2000",
    )


def test_semicolons_tabs_quotes_and_blank_lines_are_read(tmp_path: Path) -> None:
    text = 'a;"b, with a comma";c\n' + "\n".join(f'{i};"{i}.5";{"xy"[i % 2]}\n' for i in range(20))
    data = load(corpus.write(tmp_path / "semi.csv", text.encode()))
    assert data.schema.columns == ("a", "b, with a comma")
    tabs = corpus.write(tmp_path / "tabs.tsv", text.replace(";", "\t").encode())
    assert load(tabs).hash == data.hash


def test_two_columns_of_numbers_are_points(tmp_path: Path) -> None:
    path = corpus.csv(
        tmp_path / "p.csv", [["x", "y", "c"], *([i / 3, i * i, "ab"[i % 2]] for i in range(20))]
    )
    assert load(path).schema.kind == "points"
    assert load(path, kind="table").schema.kind == "table"


@pytest.fixture(name="broken")
def _broken(tmp_path: Path) -> Path:
    """Thirty rows, six of them bad in different ways, on the lines given here."""
    rows: list[list[object]] = [[i, 2.5 * i, "ab"[i % 2], f"c{i % 3}"] for i in range(30)]
    rows[3][0] = "three"  # line 5
    rows[7][1] = ""  # line 9
    rows[8][1] = "nan"  # line 10
    rows[9][1] = "1e999"  # line 11
    rows[11] = rows[11][:3]  # line 13
    rows[12][2] = "NA"  # line 14
    path = corpus.csv(tmp_path / "broken.csv", [["a", "b", "word", "class"], *rows])
    data = path.read_bytes().replace(b"20,50.0,a,c2", b"20,50.0,\xff,c2")  # line 22
    return corpus.write(path, b"\xef\xbb\xbf" + data)


def test_check_counts_every_kind_of_bad_row_and_names_the_first(broken: Path) -> None:
    report = check(broken)
    assert {(g.kind, g.count, g.first) for g in report.problems} == {
        ("non-numeric cell", 1, "broken.csv line 5"),
        ("missing value", 2, "broken.csv line 9"),
        ("NaN or infinite", 2, "broken.csv line 10"),
        ("ragged row", 1, "broken.csv line 13"),
        ("invalid UTF-8", 1, "broken.csv line 22"),
        ("byte order mark", 1, "broken.csv"),
    }
    assert (report.total, report.usable, report.ok) == (30, 23, False)


def test_load_refuses_bad_rows_and_skip_leaves_them_out(broken: Path) -> None:
    message = (
        r"7 of 30 rows cannot be read; first: broken.csv line 5 \(non-numeric cell: 'three' in column 'a'\)"
    )
    with pytest.raises(DataError, match=message):
        load(broken)
    data = load(broken, bad="skip")
    assert [where for where, _ in data.skipped] == [
        f"broken.csv line {n}" for n in (5, 9, 10, 11, 13, 14, 22)
    ]
    assert len(all_of(data)[0]) == 23
    assert not {3.0, 7.0, 8.0, 9.0, 11.0, 12.0, 20.0} & set(all_of(data)[0][:, 0].round(3).tolist())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "no row can be used"),
        ("a,a,c\n1,2,x\n3,4,y\n", "two columns are called 'a'"),
        (
            "a;b\n1,234;x\n5;y\n",
            "column 'a' holds numbers like 1,234, whose comma may divide thousands or decimals\n.*data.decimal=point",
        ),
        ("a,b,c\n1,,x\n2,,y\n", "column 'b' is empty\n.*data.drop=b"),
        ("a,b\n1,x\n2,x\n3,x\n", "every training example is of class 'x'\n.*data.target=none"),
        ("a,b,c\n1,2\n", "no row can be used\n.*1 of 1 rows cannot be read; first: t.csv line 2 .ragged row"),
        ("".join(f"{i},name{i}\n" for i in range(50)), "50 different words in 50 rows\n.*data.target"),
        (
            "".join(f"word{i},{i % 2}\n" for i in range(65)),
            "'column 0' holds 65 different words.*\n.*data.drop='column 0'",
        ),
        ("".join(f"{i},word\n" for i in range(5)) + "6," + "x" * 200_000 + "\n", "line 6: field larger"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_the_reason(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=f"(?s){message}"):
        load(corpus.write(tmp_path / "t.csv", text.encode()))


def test_a_feature_that_does_not_vary_is_noted_and_becomes_zero(tmp_path: Path) -> None:
    path = corpus.csv(tmp_path / "flat.csv", [["a", "b", "c"], *([i * i, 5, "xy"[i % 2]] for i in range(20))])
    report = check(path)
    assert report.ok
    assert [(g.kind, g.effect, g.items[0].detail) for g in report.problems] == [
        ("constant feature", "note", "b")
    ]
    assert np.all(load(path).train.x[:, 1] == 0)


def test_the_hash_is_that_of_the_numbers(tmp_path: Path) -> None:
    path = corpus.flowers(tmp_path / "a.csv")
    copy = corpus.write(tmp_path / "deep" / "b.csv", path.read_bytes())
    assert load(path).hash == load(copy, seed=3).hash
    corpus.write(copy, path.read_bytes().replace(b"red", b"rad"))
    assert load(path).hash != load(copy).hash

from pathlib import Path

import pytest

from chainrule.data import load, names

from .conftest import Command


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    rows = [f"{i},{i % 7},{'yes' if i % 2 else 'no'}" for i in range(40)]
    path.write_text("\n".join(["size,weight,label", *rows]) + "\n")
    return path


def test_every_named_data_set_is_listed(cli: Command) -> None:
    rows = cli("data", "ls", "--json").last
    assert [row["name"] for row in rows] == [known.name for known in names()]
    text = cli("data", "ls").out
    assert all(row["name"] in text for row in rows)


def test_data_are_shown_with_schema_counts_and_hash(cli: Command) -> None:
    data = load("moons", n=100)
    text = cli("data", "show", "moons", "n=100").out
    assert data.describe() in text
    assert data.hash in text
    assert "train 80  val 10  test 10" in text
    shown = cli("data", "show", "moons", "data.n=100", "--json").last
    assert shown["hash"] == data.hash
    assert shown["counts"] == {"train": 80, "val": 10, "test": 10}
    assert shown["schema"]["classes"] == list(data.schema.classes)


def test_a_text_shows_its_beginning(cli: Command) -> None:
    result = cli("data", "show", "shakespeare")
    assert result.code == 0
    assert "When shall we three meet again?" in result.out


def test_a_table_shows_its_rows(cli: Command, table: Path) -> None:
    result = cli("data", "show", str(table), "target=label")
    assert result.code == 0, result.err
    assert "size" in result.out
    assert "2 classes: no, yes" in result.out


@pytest.mark.parametrize(("name", "ending"), [("digits", "png"), ("moons", "svg")])
def test_a_picture_is_written_where_it_is_wanted(
    cli: Command, name: str, ending: str, tmp_path: Path
) -> None:
    assert f"data show {name} out=DIR" in cli("data", "show", name).out
    assert list(tmp_path.iterdir()) == []
    result = cli("data", "show", name, "out=pictures")
    assert result.code == 0, result.err
    assert (tmp_path / "pictures" / f"{name}.{ending}").stat().st_size > 500
    assert f"pictures/{name}.{ending}" in result.out
    assert "out=DIR" not in result.out


def test_sound_data_pass_the_check(cli: Command, table: Path) -> None:
    result = cli("data", "check", str(table), "target=label")
    assert result.code == 0
    assert "40 of 40 rows can be used" in result.out


def test_data_that_cannot_be_used_end_the_check_with_exit_code_3(cli: Command, table: Path) -> None:
    table.write_text(table.read_text() + "1,2\n")
    result = cli("data", "check", str(table), "target=label")
    assert result.code == 3
    assert "40 of 41 rows can be used" in result.out
    found = cli("data", "check", str(table), "target=label", "--json")
    assert found.code == 3
    assert found.last["ok"] is False
    assert found.last["usable"] == 40


def test_training_on_such_data_is_refused_with_the_way_out(cli: Command, table: Path) -> None:
    table.write_text(table.read_text() + "1,2\n")
    result = cli("train", "mlp", f"data={table}", "data.target=label", "--json")
    assert result.code == 3
    assert "accept: data.bad=skip" in result.err
    assert result.last["exit_code"] == 3
    accepted = cli(
        "train", "mlp", f"data={table}", "data.target=label", "data.bad=skip", "batch=8", "--dry-run"
    )
    assert accepted.code == 0, accepted.err
    assert "data.bad=skip" in accepted.out

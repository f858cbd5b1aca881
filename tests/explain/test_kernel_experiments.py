"""Experiments about kernels find what theory says, and read sequences from files."""

from pathlib import Path

import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.explain import experiments


def test_relatives_are_found_and_the_saving_is_stated() -> None:
    found = experiments.run("sequence-kernels", families=3, members=4, length=60, mutation=0.1)
    assert found.numbers["nearest_is_a_relative"] == 1
    order = found.numbers["order"]
    assert [i // 4 for i in order] == sorted([i // 4 for i in order], key=[i // 4 for i in order].index)
    assert len({i // 4 for i in order[:4]}) == 1  # a family stands together
    pair = found.numbers["closest"]["pair"]
    assert pair[0] // 4 == pair[1] // 4
    assert found.numbers["saving"]["dense"] == 20**3 * 12
    assert found.numbers["saving"]["distinct"] == 78
    assert sum(driver["share"] for driver in found.numbers["drivers"]) <= 1 + 1e-12


def test_sequences_of_a_file_are_compared_too(tmp_path: Path) -> None:
    path = tmp_path / "three.fasta"
    path.write_text(">one\nGATTACA\n>two\nTACATTAC\n>three\nGGGGGGGG\n")
    found = experiments.run("sequence-kernels", data=str(path))
    assert found.numbers["closest"]["pair"] == [0, 1]
    assert found.numbers["closest"]["similarity"] == pytest.approx(0.790569, abs=5e-7)
    assert found.numbers["drivers"][0]["kmer"] == "TAC"
    near = experiments.run("sequence-kernels", data=str(path), mismatch=1)
    assert near.numbers["closest"]["similarity"] > 0.79
    plain = tmp_path / "words.txt"
    plain.write_text("gatto\ngatta\ncane\n")
    assert experiments.run("sequence-kernels", data=str(plain)).numbers["closest"]["pair"] == [0, 1]
    path.write_text(">one\nGATTACA\n")
    with pytest.raises(DataError, match="1 sequences; from 2 to"):
        experiments.run("sequence-kernels", data=str(path))
    path.write_text(">one\nGATTACA\n>two\nGA\n")
    with pytest.raises(ArgumentError, match="sequence 1 has 2 letters"):
        experiments.run("sequence-kernels", data=str(path))


def test_errors_of_random_features_fall_with_the_root_and_landmarks_do_better() -> None:
    numbers = experiments.run(
        "kernel-approximation", points=40, size=2, counts=[4, 32], repeats=6, seed=1
    ).numbers
    assert numbers["Fourier, independent"]["slope"] == pytest.approx(-0.5, abs=0.15)
    assert numbers["landmarks, pivoted"]["error"][-1] < 0.1 * numbers["Fourier, orthogonal"]["error"][-1]
    assert numbers["Fourier, orthogonal"]["error"][-1] < numbers["Fourier with phases"]["error"][-1]

"""Kernels of sequences, against counting by hand and listing everything."""

import itertools
from collections import Counter

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels import check
from chainrule.kernels.sequences import (
    DNA,
    PROTEIN,
    Spectrum,
    Subsequences,
    WeightedDegree,
    mutated_families,
    saving,
)
from chainrule.kernels.sequences.encoding import encoded

RNG = np.random.default_rng(0)
DNAS = ["".join(RNG.choice(list(DNA), size=size)) for size in (7, 12, 9, 20, 5)]
A, B = "GATTACA", "TACATTAC"
KERNELS: list[tuple[type, dict]] = [
    (Spectrum, {"k": 2}),
    (Spectrum, {"k": 3, "blended": True}),
    (Spectrum, {"k": 3, "mismatch": 1, "alphabet": DNA}),
    (WeightedDegree, {"k": 3}),
    (Subsequences, {"k": 2}),
]


def kmers(text: str, k: int) -> Counter[str]:
    return Counter(text[i : i + k] for i in range(len(text) - k + 1))


def dot(first: Counter, second: Counter) -> float:
    return sum(first[key] * second[key] for key in first)


def test_the_worked_words_share_their_known_stretches() -> None:
    assert [Spectrum(k)(A, B) for k in (1, 2, 3)] == [17, 7, 5]
    found = [Spectrum(k, normalized=True)(A, B) for k in (1, 2, 3)]
    assert found == pytest.approx([0.935819, 0.861640, 0.790569], abs=5e-7)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_spectrum_kernel_counts_common_stretches(k: int) -> None:
    wanted = [[dot(kmers(a, k), kmers(b, k)) for b in DNAS] for a in DNAS]
    np.testing.assert_array_equal(Spectrum(k).gram(DNAS), wanted)
    np.testing.assert_array_equal(Spectrum(k).gram(DNAS[:2], DNAS[1:]), np.array(wanted)[:2, 1:])
    blended = sum(
        np.asarray([[dot(kmers(a, i), kmers(b, i)) for b in DNAS] for a in DNAS]) for i in range(1, k + 1)
    )
    np.testing.assert_array_equal(Spectrum(k, blended=True).gram(DNAS), blended)


def test_long_stretches_of_any_letters_never_collide() -> None:
    letters = [chr(0x4E00 + i) for i in range(3000)] + list("aé€😀")
    texts = ["".join(RNG.choice(letters, size=80)) for _ in range(4)]
    texts.append(texts[0][:50] + texts[1][:30])
    for k in (1, 4, 20, 45):  # 3,004 letters to the power 20 is far beyond a machine word
        wanted = [[dot(kmers(a, k), kmers(b, k)) for b in texts] for a in texts]
        np.testing.assert_array_equal(Spectrum(k).gram(texts), wanted)


@pytest.mark.parametrize(("k", "wrong"), [(2, 1), (3, 1), (3, 2), (4, 2)])
def test_mismatches_count_every_kmer_of_the_alphabet_that_is_near(k: int, wrong: int) -> None:
    words = ["".join(letters) for letters in itertools.product(DNA, repeat=k)]
    apart = np.array([[sum(a != b for a, b in zip(u, v, strict=True)) for v in words] for u in words])
    counts = np.array([[kmers(text, k)[word] for word in words] for text in DNAS])
    features = counts @ (apart <= wrong)
    kernel = Spectrum(k, mismatch=wrong, alphabet=DNA)
    np.testing.assert_array_equal(kernel.gram(DNAS), features @ features.T)
    best = kernel.drivers(DNAS[1], DNAS[3], 1)[0]
    parts = features[1] * features[3]
    assert parts[words.index(best.kmer)] == parts.max()
    assert best.share == pytest.approx(parts.max() / parts.sum())


def test_weighted_degrees_compare_position_by_position() -> None:
    def slow(a: str, b: str, k: int) -> float:
        total = 0.0
        for d in range(1, k + 1):
            same = sum(a[i : i + d] == b[i : i + d] for i in range(min(len(a), len(b)) - d + 1))
            total += 2 * (k - d + 1) / (k * (k + 1)) * same
        return total

    wanted = [[slow(a, b, 3) for b in DNAS] for a in DNAS]
    np.testing.assert_allclose(WeightedDegree(3).gram(DNAS), wanted, rtol=1e-12)


@pytest.mark.parametrize("decay", [0.5, 1.0])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_subsequences_are_summed_as_if_all_were_listed(k: int, decay: float) -> None:
    def listed(text: str) -> Counter:
        found: Counter = Counter()
        for at in itertools.combinations(range(len(text)), k):
            found["".join(text[i] for i in at)] += decay ** (at[-1] - at[0] + 1)
        return found

    texts = DNAS[:3] + DNAS[4:]
    features = [listed(text) for text in texts]
    kernel = Subsequences(k, decay=decay)
    wanted = np.array([[dot(a, b) for b in features] for a in features])
    np.testing.assert_allclose(kernel.gram(texts), wanted, rtol=1e-12)
    np.testing.assert_allclose(kernel.gram(texts[:1], texts[1:]), wanted[:1, 1:], rtol=1e-12)


@pytest.mark.parametrize(("make", "options"), KERNELS)
def test_every_kernel_of_sequences_is_one_and_can_be_normalised(make: type, options: dict) -> None:
    kernel, cosines = make(**options), make(**options, normalized=True)
    gram = kernel.gram(DNAS)
    np.testing.assert_allclose(gram, gram.T)
    assert np.linalg.eigvalsh(gram)[0] > -1e-9 * gram.max()
    np.testing.assert_allclose(kernel.squares(DNAS), np.diag(gram))
    lengths = np.sqrt(np.diag(gram))
    np.testing.assert_allclose(cosines.gram(DNAS), gram / (lengths[:, None] * lengths[None, :]), rtol=1e-12)
    np.testing.assert_allclose(cosines.gram(DNAS[:1], DNAS)[0], cosines.gram(DNAS)[0], rtol=1e-12)


def test_a_kernel_of_sequences_passes_the_check_and_serves_machines() -> None:
    assert check(Spectrum(2), [*DNAS, DNAS[0]])  # a duplicate is no fault
    kernel = Spectrum(2).precomputed(DNAS)
    np.testing.assert_allclose(kernel.gram([0, 3], [1]), Spectrum(2).gram(DNAS)[[0, 3]][:, [1]])


def test_the_stretches_that_drive_a_pair_are_named_with_their_parts() -> None:
    found = Spectrum(2).drivers(A, B, 100)
    products = {key: kmers(A, 2)[key] * kmers(B, 2)[key] for key in kmers(A, 2)}
    assert {one.kmer: one.first * one.second for one in found} == {k: v for k, v in products.items() if v}
    assert sum(one.share for one in found) == pytest.approx(1)
    blended = Spectrum(2, blended=True).drivers(A, B, 2)
    assert [one.kmer for one in blended] == ["A", "T"]  # nine and four of 24
    assert WeightedDegree(2).drivers("GAT", "GAC", 1)[0].kmer in ("G", "A")


def test_the_saving_is_the_known_one() -> None:
    assert saving(20, 4, 100) == (160_000, 16_000_000, 10_000, 5_050)
    families = mutated_families(10, 10, length=80)
    table = Spectrum(4, alphabet=PROTEIN).features(families.sequences)
    assert table.shape[0] == 100
    assert table.nnz < 100 * 80  # not sixteen million
    assert Spectrum(4).gram(families.sequences).size == 10_000


def test_relatives_are_more_alike_than_strangers() -> None:
    families = mutated_families(3, 5, mutation=0.1)
    gram = Spectrum(3, normalized=True).gram(families.sequences)
    same = families.labels[:, None] == families.labels[None, :]
    assert gram[same & ~np.eye(15, dtype=bool)].min() > gram[~same].max()


def test_sequences_that_cannot_be_compared_are_named() -> None:
    with pytest.raises(ArgumentError, match="sequence 1 has 2 letters, fewer than k=3"):
        Spectrum(3).gram(["GATTACA", "GA"])
    with pytest.raises(ArgumentError, match="sequence 0 has 2 letters"):
        Spectrum(3).gram(["GATTACA"], ["GA"])
    with pytest.raises(ArgumentError, match="sequence 1 has the letter 'X' at position 2, which is not in"):
        Spectrum(2, alphabet=DNA).gram(["GATTACA", "GAX"])
    with pytest.raises(ArgumentError, match="use upper"):
        Spectrum(2, alphabet=DNA).gram(["gattaca"])
    with pytest.raises(ArgumentError, match="sequence 1 is of type int"):
        Spectrum(2).gram(["GATTACA", 7])
    with pytest.raises(ArgumentError, match="wrap it"):
        Spectrum(2).gram("GATTACA")
    with pytest.raises(ArgumentError, match="no sequences"):
        Spectrum(2).gram([])
    assert encoded("Spectrum", ["TG"], 1, "TG").letters.tolist() == [0, 1]


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ArgumentError, match="depends on the alphabet"):
        Spectrum(3, mismatch=1)
    with pytest.raises(ArgumentError, match="use mismatch=1 or less"):
        Spectrum(2, mismatch=2, alphabet=DNA)
    with pytest.raises(ArgumentError, match="do not go together"):
        Spectrum(3, mismatch=1, blended=True, alphabet=DNA)
    with pytest.raises(ArgumentError, match="use k=14 or less"):
        Spectrum(15, mismatch=1, alphabet=PROTEIN)
    Spectrum(14, mismatch=1, alphabet=PROTEIN)  # the remedy
    with pytest.raises(ArgumentError, match="neighbours each are more than"):
        Spectrum(10, mismatch=5, alphabet=PROTEIN).gram(mutated_families(1, 2).sequences)
    with pytest.raises(ArgumentError, match="decay must be above 0"):
        Subsequences(2, decay=0.0)

"""Bits-back coding of a model of coins, written in NumPy: its rate is the bound, and every word comes back."""

import io
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError
from chainrule.data.schema import Schema
from chainrule.information.compression.arranging import arranged
from chainrule.information.compression.bits_back import Known, LatentCode, Move, markov_moves, upward_moves
from chainrule.information.compression.cells import (
    CellGrid,
    EqualMassCells,
    EqualMassNormal,
    GridNormal,
    NormalEntries,
)
from chainrule.information.compression.coders import AnsStack, RangeReader, RangeWriter, initial_words
from chainrule.information.compression.codes import CodedStream
from chainrule.information.compression.compressing import read, write
from chainrule.information.compression.container import CompressedReader, CompressedWriter
from chainrule.information.compression.distributions import (
    BinarySymbols,
    CategoricalSymbols,
    SymbolDistribution,
    UniformSymbols,
)
from chainrule.information.compression.lanes import decode_lanes, encode_lanes
from chainrule.information.compression.local import LocalNormal

pytest.importorskip("constriction", reason="`pip install 'chainrule[compress]'` brings the coders")


def quiet(done: int) -> None:
    del done


def coins(pixels: int = 64, latents: int = 4, rows: int = 16) -> LatentCode:
    """x ~ coins with log-odds W z, z standard normal; q is the posterior of coins that are nearly even."""
    draw = np.random.default_rng(pixels)
    down = (draw.normal(size=(latents, pixels)) / 2).astype(np.float32)
    precision = np.eye(latents) + down @ down.T / 4
    up = np.linalg.solve(precision, down).T.astype(np.float32)
    spread = (1 / np.sqrt(np.diag(precision))).astype(np.float32)

    def distribution(move: Move, known: Known, rows: int) -> SymbolDistribution | NormalEntries:
        if move.kind == "infer":
            mean = (known[0].astype(np.float32) - 0.5) @ up
            return NormalEntries(mean, np.broadcast_to(spread, mean.shape))
        if move.level:
            return NormalEntries(np.zeros((rows, latents)), np.ones((rows, latents)))
        return BinarySymbols(1 / (1 + np.exp(-(known[1] @ down).astype(np.float64))))

    return LatentCode(
        Schema("image", (pixels, 1, 1), levels=2),
        {"down": down},
        (latents,),
        markov_moves(1),
        distribution,
        standard=True,
        rows=rows,
    )


def images(code: LatentCode, count: int) -> np.ndarray:
    draw = np.random.default_rng(5)
    z = draw.normal(size=(count, code.sizes[0]))
    share = 1 / (1 + np.exp(-z @ code.weights["down"]))  # type: ignore[index]
    return (draw.random(share.shape) < share).astype(np.int32)


def bound(code: LatentCode, x: np.ndarray, draws: int = 20) -> float:
    """Minus the bound in bits of an image, with continuous codes."""
    draw, down = np.random.default_rng(1), code.weights["down"].astype(np.float64)  # type: ignore[index]
    entries = code.distribution(Move("infer", 1), {0: x}, len(x))
    assert isinstance(entries, NormalEntries)
    mean, deviation = entries.mean.astype(np.float64), entries.deviation.astype(np.float64)
    divergence = 0.5 * (mean**2 + deviation**2 - 1 - 2 * np.log(deviation)).sum(axis=1).mean()
    costs = []
    for _ in range(draws):
        odds = (mean + deviation * draw.normal(size=mean.shape)) @ down
        costs.append((np.logaddexp(0, odds) - x * odds).sum(axis=1).mean())
    return float((divergence + np.mean(costs)) / np.log(2))


@pytest.mark.parametrize("step", [2.0**-3, 2.0**-5])
def test_the_net_rate_is_the_bound_and_all_words_come_back(step: float) -> None:
    code = coins().fitted(np.zeros((1, 64), np.int32), step=step)
    x = images(code, 2000)
    coded = code.encode(x, (3,), quiet)
    assert sum(coded.ledger.values()) / 2000 == pytest.approx(bound(code, x), rel=0.003)
    np.testing.assert_array_equal(code.decode(coded, 2000, (3,), quiet), x)


def test_the_ledger_of_single_images_sums_to_that_of_the_file() -> None:
    code = coins().fitted(np.zeros((1, 64), np.int32))
    x = images(code, 1000)
    ledger = code.encode(x, (0,), quiet).ledger
    parts = code.by_example(x)
    assert {name: part.shape for name, part in parts.items()} == {
        "likelihood": (1000, 64),
        "prior": (1000, 4),
        "returned": (1000, 4),
    }
    for name, part in parts.items():
        assert part.sum() == pytest.approx(ledger[name], rel=0.03)
    assert (parts["returned"] < 0).all()


def test_few_examples_need_few_bits_to_begin_with_whatever_the_rows() -> None:
    code = coins(rows=64).fitted(np.zeros((1, 64), np.int32))
    assert code.encode(images(code, 300), (0,), quiet).initial < 16


def test_codes_that_take_many_bits_off_grow_their_blocks_slowly() -> None:
    """Cells of equal mass take several times the bits off that an example leaves."""
    code = coins(pixels=16, rows=64).fitted(np.zeros((1, 16), np.int32), cells="equal-mass")
    code = code.fitted(images(code, 300), cells="equal-mass")
    assert code.pace < 0.5
    assert code.encode(images(code, 600), (0,), quiet).initial < 40
    hasty = replace(code, pace=1.0)
    assert hasty.encode(images(code, 600), (0,), quiet).initial > 60


def chain_of_levels(depth: int, moves: tuple[Move, ...]) -> LatentCode:
    """64 pixels below so many levels of 64 numbers, each of which knows its neighbours."""

    def distribution(move: Move, known: Known, rows: int) -> SymbolDistribution | NormalEntries:
        if move == Move("generate", 0):
            return BinarySymbols(1 / (1 + np.exp(-known[1].astype(np.float64))))
        if move == Move("generate", depth):
            return NormalEntries(np.zeros((rows, 64)), np.ones((rows, 64)))
        mean = known[move.level + (1 if move.kind == "generate" else -1)].astype(np.float32) / 2
        return NormalEntries(mean, np.full_like(mean, 0.8 if move.kind == "generate" else 0.3))

    return LatentCode(Schema("image", (64, 1, 1), levels=2), {}, (64,) * depth, moves, distribution, rows=4)


def test_interleaved_levels_need_no_more_bits_to_begin_with_the_deeper_they_are() -> None:
    """Each level pays for the next; all of them at once come off bits to begin with."""
    x = np.random.default_rng(0).integers(0, 2, (20, 64)).astype(np.int32)
    begun = {}
    for moves in (markov_moves, upward_moves):
        for depth in (2, 5):
            code = chain_of_levels(depth, moves(depth)).fitted(x)
            coded = code.encode(x, (0,), quiet)
            np.testing.assert_array_equal(code.decode(coded, 20, (0,), quiet), x)
            begun[moves, depth] = coded.initial
    assert begun[markov_moves, 5] == begun[markov_moves, 2]
    assert begun[upward_moves, 5] > 1.5 * begun[upward_moves, 2]


def test_lanes_are_streams_of_their_own_with_bits_of_their_own() -> None:
    code = coins().fitted(np.zeros((1, 64), np.int32))
    x, heard = images(code, 103), []
    streams = encode_lanes(code, x, 4, 7, heard.append)
    assert len(streams) == 4
    assert heard[-1] == 103
    one = code.encode(x[26:52], (7, 1), quiet)
    np.testing.assert_array_equal(streams[1].words, one.words)
    assert not np.array_equal(streams[0].words[:4], streams[1].words[:4])
    np.testing.assert_array_equal(decode_lanes(code, streams, 103, 7, quiet), x)
    with pytest.raises(DataError, match="do not come back"):
        decode_lanes(code, [streams[1], streams[0], *streams[2:]], 103, 7, quiet)


def test_a_lane_that_fails_stops_the_others() -> None:
    code = coins().fitted(np.zeros((1, 64), np.int32))

    def enough(done: int) -> None:
        if done > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_lanes(code, images(code, 4000), 2, 0, enough)


@settings(max_examples=15, deadline=None)
@given(
    pixels=st.integers(1, 12),
    latents=st.integers(1, 5),
    count=st.sampled_from([0, 1, 2, 7, 100]),
    rows=st.integers(1, 9),
    lanes=st.integers(1, 3),
    kind=st.sampled_from(["black", "noise"]),
    seed=st.integers(0, 2**32),
)
def test_whatever_went_in_comes_out(
    pixels: int, latents: int, count: int, rows: int, lanes: int, kind: str, seed: int
) -> None:
    code = coins(pixels, latents)
    x = np.zeros((count, pixels, 1, 1), np.uint8)
    if kind == "noise":
        x = np.random.default_rng(seed).integers(0, 2, x.shape).astype(np.uint8)
    file = io.BytesIO()
    report = write(file, code, arranged(code.schema, x), seed=seed, lanes=lanes, rows=rows)
    assert report.examples == count
    found = list(read(CompressedReader(io.BytesIO(file.getvalue())), code))
    np.testing.assert_array_equal(np.concatenate([np.zeros((0, pixels)), *found]), x.reshape(count, pixels))


def test_a_header_that_lacks_something_and_a_segment_of_too_much_are_refused() -> None:
    code = coins(4, 2, 2)
    file = io.BytesIO()
    CompressedWriter(file, {"seed": 0}).close()
    with pytest.raises(DataError, match="has a header that lacks what decoding needs"):
        list(read(CompressedReader(io.BytesIO(file.getvalue())), code))
    file = io.BytesIO()
    write(file, code, arranged(code.schema, np.zeros((0, 4, 1, 1), np.uint8)))
    header = CompressedReader(io.BytesIO(file.getvalue())).header
    other = io.BytesIO()
    CompressedWriter(other, {**header, "settings": {"cells": []}}).close()
    with pytest.raises(DataError, match="settings of its code that this version does not know"):
        list(read(CompressedReader(io.BytesIO(other.getvalue())), code))
    for name, value in {
        "form": {"as": "array", "dtype": "|O", "shape": [0, 4, 1, 1], "top": 1, "product": False},
        "total": "many",
        "rows": 0,
        "settings": 5,
        "precision": 12,
        "seed": -1,
        "versions": [1],
    }.items():
        other = io.BytesIO()
        CompressedWriter(other, {**header, name: value}).close()
        with pytest.raises(DataError, match=f"has a header that cannot be: {name}"):
            list(read(CompressedReader(io.BytesIO(other.getvalue())), code))
    for settings_ in (
        {"cells": [{"half": 1e30, "step": 1e-30}], "pace": 1.0},
        {"cells": header["settings"]["cells"], "pace": math.nan},
        {"cells": [5], "pace": 1.0},
    ):
        other = io.BytesIO()
        CompressedWriter(other, {**header, "settings": settings_}).close()
        with pytest.raises(DataError, match="this version does not know"):
            list(read(CompressedReader(io.BytesIO(other.getvalue())), code))
    for changes in ({"form": {"as": "text"}}, {"total": 3}):
        other = io.BytesIO()
        CompressedWriter(other, {**header, **changes}).close()
        with pytest.raises(DataError, match="does not suit its model"):
            list(read(CompressedReader(io.BytesIO(other.getvalue())), code))
    for total, claimed in (
        (0, 2**40),
        (5, 6),
        (2**30, 2**30),
    ):  # nothing is computed, nor given memory, for any
        file = io.BytesIO()
        form = {**header["form"], "shape": [total, 4, 1, 1]}
        writer = CompressedWriter(file, {**header, "form": form, "total": total})
        writer.segment(claimed, [CodedStream(initial_words((0,), 4), 4, {})], b"")
        writer.close()
        with pytest.raises(DataError, match=f"claims {claimed:,} examples in one segment"):
            list(read(CompressedReader(io.BytesIO(file.getvalue())), code))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_networks_that_went_astray_are_said_to_have(value: float) -> None:
    """A coder takes a mean that is no number without a word, and ends the process at a deviation that is none."""
    code = coins()
    for field in ("mean", "deviation"):

        def astray(move: Move, known: Known, rows: int, field: str = field) -> Any:
            found = code.distribution(move, known, rows)
            if isinstance(found, NormalEntries) and move.kind == "infer":
                return found._replace(**{field: np.full_like(found.mean, value)})
            return found

        with pytest.raises(DataError, match="its weights went astray"):
            replace(code, distribution=astray).fitted(images(code, 3))
    stack = AnsStack.seeded((0,), 9)
    for distribution in (
        BinarySymbols(np.full((1, 4), np.nan)),
        CategoricalSymbols(np.full((1, 4, 3), np.nan)),
    ):
        with pytest.raises(DataError, match="its weights went astray"):
            distribution.take(stack)
    for coder in (RangeWriter(), stack):
        with pytest.raises(DataError, match="its weights went astray"):
            BinarySymbols(np.full((1, 4), np.nan)).put(coder, np.zeros((1, 4), np.int32))


@pytest.mark.parametrize(
    ("mean", "deviation"), [(0.0, 2.0**40), (0.0, math.nan), (2.0**50, 1.0), (math.nan, 1.0)]
)
def test_a_number_that_a_flow_moves_too_far_is_refused(mean: float, deviation: float) -> None:
    stack = AnsStack.seeded((0,), 9)
    with pytest.raises(DataError, match="the flow moves an example so far"):
        LocalNormal(np.full((1, 2), mean), np.full((1, 2), deviation)).take(stack)


def test_trailing_zero_words_of_a_stack_survive() -> None:
    words = np.array([7, 0, 0], np.uint32)
    stack = AnsStack(words, seal=True)
    np.testing.assert_array_equal(stack.unsealed(), words)
    assert len(initial_words((3,), 5)) == 5


def test_words_that_no_coder_writes_are_refused() -> None:
    """As of a file that was altered with all its checksums."""
    with pytest.raises(DataError, match="the code of nothing"):
        AnsStack(np.array([7, 0], np.uint32), seal=False)
    reader = RangeReader(np.full(9, 2**32 - 1, np.uint32))
    with pytest.raises(DataError, match="the code of nothing"):
        UniformSymbols(np.full((4, 60), 3, np.int32)).take(reader)


def entries(mean: float, deviation: float) -> NormalEntries:
    return NormalEntries(np.full((1, 9), mean), np.full((1, 9), deviation))


def test_the_grid_is_as_fine_as_posteriors_want_and_as_wide_as_they_reach() -> None:
    assert CellGrid.suited(entries(0.0, 0.2)) == CellGrid(8.0, 2.0**-4)
    assert CellGrid.suited(entries(0.0, 1e-9)).step == 2.0**-12
    assert CellGrid.suited(entries(0.0, 9.0)) == CellGrid(64.0, 2.0**-3)
    assert CellGrid.suited(entries(20.0, 0.3)).half == 32
    with pytest.warns(ChainruleWarning, match="step=0.5 is wider than 75% of the posteriors"):
        coins().fitted(np.zeros((1, 64), np.int32), step=0.5)
    far = replace(
        coins(), distribution=lambda *_: NormalEntries(np.full((16, 4), 1e5), np.full((16, 4), 1e-3))
    )
    with pytest.warns(ChainruleWarning, match=r"100.00% of the means of level 1 lie outside"):
        far.fitted(np.zeros((0, 64), np.int32))
    with pytest.raises(ArgumentError, match="step=3: step must be from"):
        coins().fitted(np.zeros((1, 64), np.int32), step=3.0)


def test_cells_of_a_normal_distribution_have_its_mass() -> None:
    grid = CellGrid(8.0, 0.25)
    distribution = GridNormal(np.array([[0.3]]), np.array([[0.7]]), grid)
    cells = np.arange(-32, 32)[None, :]
    wide = GridNormal(np.full((1, 64), 0.3), np.full((1, 64), 0.7), grid)
    assert (2.0 ** -wide.bits(cells)).sum() == pytest.approx(1, abs=1e-5)
    stack = AnsStack.seeded((0,), 50)
    before = stack.bits()
    distribution.put(stack, np.array([[2]]))
    assert stack.bits() - before == pytest.approx(float(distribution.bits(np.array([[2]]))[0, 0]), abs=1.01)


def test_cells_of_equal_mass_cost_twelve_bits_each_and_code_at_the_bound() -> None:
    code = coins().fitted(np.zeros((1, 64), np.int32), cells="equal-mass")
    assert code.cells == (EqualMassCells(),)
    x = images(code, 1000)
    coded = code.encode(x, (0,), quiet)
    assert coded.ledger["prior"] == pytest.approx(12 * 4 * 1000, abs=40)
    assert sum(coded.ledger.values()) / 1000 == pytest.approx(bound(code, x), rel=0.003)
    np.testing.assert_array_equal(code.opened(code.settings()).decode(coded, 1000, (0,), quiet), x)
    with pytest.raises(ArgumentError, match="leave step out"):
        code.fitted(x, cells="equal-mass", step=0.1)
    with pytest.raises(ArgumentError, match="cells are even or equal-mass"):
        code.fitted(x, cells="odd")


@pytest.mark.parametrize(("mean", "deviation"), [(0.3, 0.7), (-2.0, 0.01), (9.0, 0.2), (0.0, 1e-6)])
def test_cells_of_equal_mass_hold_the_mass_of_a_normal_distribution(mean: float, deviation: float) -> None:
    """Also where the distribution is narrower than a cell, or beyond the last of them."""
    cells = EqualMassCells()
    every = np.arange(cells.count)[None]
    wide = EqualMassNormal(np.full((1, cells.count), mean), np.full((1, cells.count), deviation), cells)
    mass = 2.0 ** -wide.bits(every)
    assert mass.sum() == pytest.approx(1, abs=1e-3)
    edges = cells.edges(np.arange(cells.count + 1))
    expected = np.diff(ndtr((edges - mean) / deviation))
    np.testing.assert_allclose(mass[0], expected, atol=1e-5)
    distribution = EqualMassNormal(np.full((3, 5), mean), np.full((3, 5), deviation), cells)
    stack = AnsStack.seeded((1,), 100)
    words = stack.words()
    symbols = distribution.take(stack)
    assert symbols.shape == (3, 5)
    distribution.put(stack, symbols)
    np.testing.assert_array_equal(stack.words(), words)
    drawn = cells.values(wide.drawn(np.random.default_rng(0)))
    centre = (cells.values(every) * expected).sum()
    assert drawn.mean() == pytest.approx(centre, abs=4 * deviation / np.sqrt(drawn.size) + 1e-3)


@pytest.mark.parametrize(
    "distribution",
    [
        BinarySymbols(np.array([[0.2, 0.9]])),
        CategoricalSymbols(np.array([[[0.2, 0.5, 0.3], [0.7, 0.1, 0.2]]])),
        GridNormal(np.array([[0.3, -1.0]]), np.array([[0.5, 0.2]]), CellGrid(8.0, 0.25)),
        UniformSymbols(np.full((1, 2), 8, np.int32)),
    ],
)
def test_what_is_drawn_costs_the_entropy_on_average(distribution: SymbolDistribution) -> None:
    """The mean of -log2 p over draws, beside the sum over all symbols."""
    draw = np.random.default_rng(0)
    costs = np.concatenate([distribution.bits(distribution.drawn(draw)) for _ in range(2000)])
    count = {BinarySymbols: 2, CategoricalSymbols: 3, UniformSymbols: 8}.get(type(distribution))
    every = np.arange(-40, 40) if count is None else np.arange(count)
    shares = np.stack([2.0 ** -distribution.bits(np.full((1, 2), symbol))[0] for symbol in every])
    entropy = -(shares * np.log2(shares)).sum(axis=0)
    np.testing.assert_allclose(costs.mean(axis=0), entropy, atol=0.1)


def test_positions_without_a_choice_cost_nothing() -> None:
    distribution = UniformSymbols(np.array([[1, 5, 1, 2**24]], np.int32))
    stack = AnsStack.seeded((1,), 10)
    words, before = stack.words(), stack.bits()
    symbols = distribution.take(stack)
    assert symbols[0, 0] == symbols[0, 2] == 0
    assert before - stack.bits() == pytest.approx(math.log2(5) + 24, abs=2)
    distribution.put(stack, symbols)
    np.testing.assert_array_equal(stack.words(), words)

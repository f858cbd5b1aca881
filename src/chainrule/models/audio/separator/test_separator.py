"""Masks by a U-Net: sizes, switches and their parameters, what adds up, what is free, and bad settings."""

import itertools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.io import wavfile

import chainrule as cr
from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Data
from chainrule.models.audio.separator import Separator
from chainrule.models.audio.separator.network import MaskUNet
from chainrule.networks.pictures import spectrograms
from chainrule.nn.sequential import running_statistics
from chainrule.nn.spectral import STFT
from chainrule.train import fit
from chainrule.train.separating import separate
from chainrule.train.separation import taken_apart

TOY: dict[str, Any] = {"size": 64, "hop": 32, "width": 2, "depth": 2, "kernel": 3, "normalization": "group"}
KEY = jax.random.key(0)
SWITCHES = [{}, {"nested": True}, {"gated": True}, {"nested": True, "gated": True}]


@pytest.fixture(scope="module")
def data() -> Data:
    return cr.data.load("mixes", n=20, length=2048)


def built(data: Data, **settings: Any) -> Separator:
    model = cr.models.build("separator", data, **{**TOY, **settings})
    assert isinstance(model, Separator)
    return model


def network(width: int = 4, depth: int = 3, **switches: bool) -> MaskUNet:
    chosen = {"nested": False, "gated": False, **switches}
    return MaskUNet(
        1, 2, width=width, depth=depth, kernel=5, normalization="batch", dropout=0.0, **chosen, key=KEY
    )


def trained_numbers(net: MaskUNet) -> int:
    every = jax.tree.leaves(eqx.filter(net, eqx.is_array))
    return sum(leaf.size for leaf in every) - sum(one.size for one in running_statistics(net))


@pytest.mark.parametrize("switches", SWITCHES)
def test_outputs_have_the_size_of_inputs_whatever_that_is(switches: dict[str, bool]) -> None:
    net = eqx.nn.inference_mode(network(depth=2, **switches))
    for size in range(33, 82):  # with the other axis every size up to 130
        shape = jax.ShapeDtypeStruct((1, size, 163 - size, 1), jnp.float32)
        outs, _ = eqx.filter_eval_shape(net.advance, shape, KEY)
        assert [out.shape for out in outs] == [(1, size, 163 - size, 2)] * len(outs)


def test_each_switch_alone_changes_the_parameters_as_predicted() -> None:
    width, depth, k = 4, 3, 25
    plain, nested, gated, both = (trained_numbers(network(width, depth, **one)) for one in SWITCHES)
    widths = [width * 2**level for level in range(depth)]

    def conv(inputs: int, outputs: int, kernel: int = k) -> int:
        return (inputs * kernel + 1) * outputs

    down = [(1, widths[0]), *itertools.pairwise(widths)]
    up = [(widths[2], widths[1]), (2 * widths[1], widths[0])]
    norms = 2 * (sum(widths) + widths[1] + widths[0])
    backbone = sum(conv(*pair) for pair in [*down, *up])
    assert plain == backbone + norms + conv(2 * widths[0], 2)
    assert gated == plain + backbone
    first, made = [1, *widths], [widths[0], *widths]
    rising, joins, of_nodes = [], [], 0
    for level in range(depth):
        for number in range(1, depth - level + 1):
            rising.append((first[level + 1] if number == 1 else made[level + 1], made[level]))
            joins.append((first[level] + number * made[level], made[level]))
            of_nodes += 4 * made[level]
    nodes = sum(conv(*pair) for pair in [*rising, *joins])
    heads = depth * conv(widths[0], 2, 1)
    encoder = sum(conv(*pair) for pair in down)
    assert nested == encoder + 2 * sum(widths) + nodes + of_nodes + heads
    assert both == nested + encoder + nodes


def test_shares_of_all_sources_add_up_to_the_mixture(data: Data) -> None:
    model = eqx.nn.inference_mode(built(data))
    x = jnp.asarray(data.test.x)
    masks, found = eqx.filter_jit(lambda x: (model.masks(x), model.separate(x)))(x)
    np.testing.assert_allclose(masks.sum(axis=1), 1, atol=1e-3)
    np.testing.assert_allclose(found.sum(axis=1), x, atol=1e-5)
    assert masks.shape == (2, 2, 1, 33, 65)


@pytest.mark.parametrize(
    "settings",
    [
        {"mask": "complex", "residual": True, "objective": "si-sdr"},
        {"source": "drums", "nested": True, "supervise": True, "gated": True},
        {"order": "free", "normalization": "batch", "dropout": 0.5},
    ],
)
def test_every_switch_trains(data: Data, settings: dict[str, Any], tmp_path: Path) -> None:
    model = built(data, **settings)
    run = fit(model, data, run=tmp_path / "run", steps=4, batch=4)
    assert np.isfinite(run.curve("loss")[1]).all()
    found = run.score("test")
    assert np.isfinite(found["si_sdr"].value)
    assert found["si_sdr_ideal_ratio"].value > found["si_sdr_ideal_amplitude"].value
    signals = run.model.separate(jnp.asarray(data.test.x))
    assert signals.shape == (2, 2, 2048, 1)


@pytest.mark.parametrize("order", ["given", "free"])
def test_four_sources_have_four_masks(order: str) -> None:
    data = cr.data.load("mixes", n=10, length=512, sources=["noise", "tones", "chirps", "drums"])
    model = eqx.nn.inference_mode(built(data, order=order))
    assert len(model.source_names) == 4
    assert order == "free" or model.source_names == ("noise", "tones", "chirps", "drums")
    x, y = (jnp.asarray(one) for one in data.test.batch(np.arange(1))[:2])
    masks, found, loss = eqx.filter_jit(
        lambda x, y: (model.masks(x), model.separate(x), model.loss(Batch(x, y), KEY)[0])
    )(x, y)
    assert masks.shape[:2] == (1, 4)
    assert found.shape == y.shape
    np.testing.assert_allclose(found.sum(axis=1), x, atol=1e-5)
    assert np.isfinite(float(loss))


def test_one_source_and_the_rest_are_the_mixture(data: Data) -> None:
    model = built(data, source="drums")
    assert model.source_names == ("drums", "rest")
    x, y = (jnp.asarray(one) for one in data.test.batch(np.arange(2))[:2])
    np.testing.assert_allclose(model.separate(x).sum(axis=1), x, atol=1e-5)
    np.testing.assert_allclose(model.wanted(y)[:, 0], y[:, 1])


def test_a_free_order_forgives_sources_that_were_exchanged(data: Data) -> None:
    x, y = (jnp.asarray(one) for one in data.test.batch(np.arange(2))[:2])
    for order, same in (("free", True), ("given", False)):
        model = eqx.nn.inference_mode(built(data, order=order))
        loss = eqx.filter_jit(lambda y, model=model: model.loss(Batch(x, y), KEY)[0])
        assert bool(jnp.allclose(loss(y), loss(y[:, ::-1]), rtol=1e-5)) == same


def test_long_recordings_are_separated_piece_by_piece_without_seams(data: Data) -> None:
    model = eqx.nn.inference_mode(built(data))
    x = np.concatenate(np.asarray(data.train.x)[:3])[:5000]
    found = separate(model, x, 2048)
    assert found.shape == (2, 5000, 1)
    np.testing.assert_allclose(found.sum(axis=0), x, atol=1e-5)
    whole = np.asarray(model.separate(jnp.asarray(x[:2048])[None]))[0]
    np.testing.assert_allclose(found[:, :1400], whole[:, :1400], atol=1e-5)
    short = separate(model, x[:700], 2048)
    np.testing.assert_allclose(short.sum(axis=0), x[:700], atol=1e-5)


def test_sources_of_a_free_order_stay_the_same_from_piece_to_piece(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exchanging(model: Separator, x: jnp.ndarray) -> jnp.ndarray:
        """A slow and a fast tone, in the other order where a piece begins below zero."""
        del model
        spectrum = jnp.fft.rfft(x, axis=1)
        low = jnp.arange(spectrum.shape[1])[None, :, None] < 40
        found = jnp.stack([jnp.fft.irfft(jnp.where(one, spectrum, 0), axis=1) for one in (low, ~low)], axis=1)
        return found[:, ::-1] if x[0, 0, 0] < 0 else found

    monkeypatch.setattr("chainrule.train.separating._separate", exchanging)
    time = np.arange(6656) / 512  # pieces begin where the slow tone is up and down in turn
    slow, fast = np.sin(2 * np.pi * 1.5 * time + 0.3), np.sin(2 * np.pi * 40 * time)
    found = separate(built(data, order="free"), (slow + 0.2 * fast)[:, None].astype(np.float32), 2048)
    assert built(data, order="free").source_names == ("source 1", "source 2")
    of_slow = [abs(np.corrcoef(one[:, 0], slow)[0, 1]) for one in found]
    assert max(of_slow) > 0.98
    assert min(of_slow) < 0.1


def test_pictures_show_what_was_found_beside_the_source_that_it_is(data: Data) -> None:
    model = eqx.nn.inference_mode(built(data, order="free", nested=True))
    exchanged = eqx.tree_at(
        lambda one: one.network.heads, model, jax.tree.map(lambda w: w[..., ::-1], model.network.heads)
    )
    one, other = (taken_apart(which, data.val, 0) for which in (model, exchanged))
    x = jnp.asarray(data.val.x)[:1]
    assert np.abs(np.asarray(model.separate(x) - exchanged.separate(x))).max() > 1e-4
    np.testing.assert_allclose(one.found, other.found, atol=1e-5)
    np.testing.assert_allclose(one.masks, other.masks, atol=1e-5)


def test_silent_sources_are_no_sources_of_zero_decibels() -> None:
    nothing = np.nan
    found = np.array([[9.0, nothing], [nothing, nothing], [4.0, 2.0]])
    ideal = {"ideal_ratio": np.array([[20.0, nothing], [nothing, nothing], [10.0, 12.0]])}
    curves = spectrograms.worst_to_best(found, ideal).series
    assert curves["found"][1].tolist() == [3.0, 9.0]
    assert curves["ideal ratio mask"][1].tolist() == [11.0, 20.0]
    assert spectrograms.worst_of(found) == (2, 3.0)
    assert spectrograms.worst_of(np.full((2, 2), nothing)) is None


def test_predict_writes_a_file_for_each_source(data: Data, tmp_path: Path) -> None:
    run = fit(built(data), data, run=tmp_path / "run", steps=1, batch=4)
    songs = tmp_path / "songs"
    songs.mkdir()
    x = (20000 * np.concatenate(np.asarray(data.test.x))).astype(np.int16)
    wavfile.write(songs / "a.wav", 8192, x)
    wavfile.write(songs / "fast.wav", 16384, x)
    written = run.write_predictions(songs, tmp_path / "out")
    assert [one.name for one in written.problems] == ["fast.wav"]
    assert "ffmpeg -i IN.wav -ar 8192" in written.problems[0].reason
    parts = [wavfile.read(tmp_path / "out" / f"a-{name}.wav") for name in ("tones", "drums")]
    assert all(rate == 8192 for rate, _ in parts)
    total = sum(one.astype(int) for _, one in parts)
    assert np.abs(total - x[:, 0]).max() <= 2
    assert "a-tones.wav" in written.path.read_text()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hop": 64}, "sum of squared windows is 0"),
        ({"source": "drum"}, "did you mean 'drums'"),
        ({"source": "drums", "order": "free"}, "leave one out"),
        ({"supervise": True}, "nested=true"),
        ({"residual": True}, "mask=complex"),
    ],
)
def test_settings_that_do_not_go_together_are_named(data: Data, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        built(data, **settings)


def test_the_published_network_has_its_shape() -> None:
    transform = STFT(1024, hop=768)
    assert (transform.bins - 1, transform.frames(97_536)) == (512, 128)
    net = MaskUNet(
        1,
        1,
        width=16,
        depth=6,
        kernel=5,
        nested=False,
        gated=False,
        normalization="batch",
        dropout=0.5,
        key=KEY,
    )
    assert [block.conv.outputs for block in net.down] == [16, 32, 64, 128, 256, 512]
    assert [block.dropout.p for block in net.plain] == [0.5, 0.5, 0.5, 0.0, 0.0]

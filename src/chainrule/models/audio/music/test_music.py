"""Music event by event: the published size, causality, states that give the same numbers, controls and beams."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Batch, Data, Schema
from chainrule.data.generated.tunes import tune
from chainrule.data.music import events, midi
from chainrule.models.audio.music import MusicConfig, MusicModel, controls, entry
from chainrule.models.audio.music.classes import parts_of
from chainrule.train import Run, former

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def data() -> Data:
    return cr.data.load("tunes", n=20, window=16)


@pytest.fixture(scope="module", params=["lstm", "transformer"])
def model(request: pytest.FixtureRequest, data: Data) -> MusicModel:
    found = cr.models.build("music", data, width=8, depth=2, heads=2, body=request.param)
    assert isinstance(found, MusicModel)
    return eqx.nn.inference_mode(found)


@pytest.fixture(scope="module")
def untrained(data: Data) -> MusicModel:
    found = cr.models.build("music", data, width=8, depth=1, heads=2, body="lstm")
    assert isinstance(found, MusicModel)
    return eqx.nn.inference_mode(found)


def test_the_published_network_has_its_size() -> None:
    schema = Schema("music", (128,), tokens=events.names())
    config = MusicConfig(**entry.recipes["published"].model)
    model = eqx.filter_eval_shape(MusicModel, config, schema, KEY)
    arrays = [leaf for leaf in jax.tree.leaves(model) if isinstance(leaf, jax.ShapeDtypeStruct)]
    assert sum(leaf.size for leaf in arrays) == 6_306_717


def test_step_by_step_gives_the_numbers_of_all_at_once_and_nothing_looks_ahead(
    model: MusicModel, data: Data
) -> None:
    x, y = (jnp.asarray(one) for one in data.test.batch(np.arange(2))[:2])
    whole = np.asarray(eqx.filter_jit(model.event_nats)(x, y))

    @eqx.filter_jit
    def one_by_one(x: jax.Array) -> jax.Array:
        state, found, before = model.start(2, 17, model.class_parts.ones(y)), [], jnp.full((2, 1), -1)
        for time in range(x.shape[1]):
            logits, state = model.advance(state, before)
            found.append(-jax.nn.log_softmax(logits[:, -1])[jnp.arange(2), x[:, time]])
            before = x[:, time : time + 1]
        return jnp.stack(found, axis=1)

    np.testing.assert_allclose(one_by_one(x), whole, atol=1e-4)
    changed = x.at[:, 9].set((x[:, 9] + 1) % events.COUNT)
    after = np.asarray(eqx.filter_jit(model.event_nats)(changed, y))
    np.testing.assert_allclose(after[:, :9], whole[:, :9], atol=1e-5)
    assert not np.allclose(after[:, 10:], whole[:, 10:])


def test_probabilities_of_the_first_event_sum_to_one(model: MusicModel) -> None:
    every = jnp.arange(events.COUNT)[:, None]
    assert float(jnp.exp(-model.event_nats(every)).sum()) == pytest.approx(1, abs=1e-4)


def test_the_class_matters_and_may_be_left_out(model: MusicModel, data: Data) -> None:
    x = jnp.asarray(data.test.batch(np.arange(1)).x)
    found = [np.asarray(model.event_nats(x, c)) for c in (jnp.array([0]), jnp.array([1]), None)]
    assert not np.allclose(found[0], found[1])
    assert not np.allclose(found[0], found[2])
    drawn = model.sample(KEY, 3, condition=np.array([0, 1, 0]), length=5)
    assert drawn.shape == (3, 5)
    with pytest.raises(ArgumentError, match="no such class"):
        model.sample(KEY, 1, condition=7)


FORMS = ("bach/fugue", "bach/suite", "ravel/suite")


def of_two_folders(**settings: Any) -> MusicModel:
    schema = Schema("music", (16,), "class", classes=FORMS, tokens=events.names())
    return MusicModel(MusicConfig(width=8, depth=1, heads=2, **settings), schema, KEY)


def test_classes_of_several_folders_are_told_by_each_of_their_names() -> None:
    model = eqx.nn.inference_mode(of_two_folders(controls=[]))
    assert [name for _, name in model.class_parts.names] == ["bach", "ravel", "fugue", "suite"]
    beside = np.asarray(model.start(3, 4, model.class_parts.ones(jnp.arange(3))).beside)
    assert beside.tolist() == [[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]]
    clear = eqx.tree_at(lambda one: one.head.weight, model, 100 * model.head.weight)
    draw = lambda **said: np.asarray(clear.sample(KEY, 4, length=6, **said))  # noqa: E731
    np.testing.assert_array_equal(draw(of="bach,fugue"), draw(condition=0))
    np.testing.assert_array_equal(draw(of="suite, ravel"), draw(condition=2))
    others = [draw(), draw(of="bach"), draw(of="suite"), draw(of="ravel,fugue"), draw(condition=0)]
    assert len(np.unique(np.stack(others), axis=0)) == 5
    for said, words in (
        ({"of": "bch"}, "did you mean 'bach'"),
        ({"of": "bach,ravel"}, "one name for each folder"),
        ({"of": "bach", "condition": 0}, "give one of them"),
    ):
        with pytest.raises(ArgumentError, match=words):
            model.sample(KEY, 2, **said)


def test_names_of_a_class_are_hidden_together_or_one_by_one() -> None:
    parts = parts_of(FORMS)
    ones = parts.ones(jnp.zeros(4000, jnp.int32))
    said = np.asarray(parts.hidden(KEY, ones, 0.2))
    assert not said[:, [1, 3]].any()
    of_each = said[:, [0, 2]]
    assert (of_each.sum(axis=1) == 0).mean() == pytest.approx(0.2 + 0.8 / 4, abs=0.03)
    assert of_each.mean() == pytest.approx(0.8 / 2, abs=0.03)
    single = parts_of(["major", "minor"])
    kept = np.asarray(single.hidden(KEY, single.ones(jnp.ones(4000, jnp.int32)), 0.2))
    hidden = np.asarray(jax.random.bernoulli(KEY, 0.2, (4000,)))  # as where classes had one name alone
    np.testing.assert_array_equal(kept, np.stack([np.zeros(4000), ~hidden], axis=1))


def test_controls_are_measured_as_tunes_were_made() -> None:
    names = ("tonality", "mode", "tempo", "velocity")
    found, wanted = [], []
    for seed in range(24):
        mode = ("major", "minor")[seed % 2]
        draw = np.random.default_rng(seed)
        tonic, steps, loudness = (
            int(draw.integers(48, 60)),
            int(draw.choice([16, 24, 32])),
            draw.integers(10, 30),
        )
        x = events.encode(tune(np.random.default_rng(seed), mode))
        found.append(controls.measured(names, Batch(jnp.asarray(x)[None]))[0].tolist())
        key = f"{events.pitch_name(tonic)[:-1]} {mode}"
        said = {
            "tonality": key,
            "mode": mode,
            "tempo": 1 / (0.008 * steps),
            "velocity": 4 * int(loudness) + 2,
        }
        wanted.append(controls.asked(names, said).tolist())  # type: ignore[union-attr]
    same = np.array(found) == np.array(wanted)
    assert same[:, 2:].all()
    assert same[:, :2].mean() > 0.8  # figures on another degree than the first sound like its key


def test_what_an_excerpt_does_not_tell_is_unsaid_and_its_place_comes_with_it(data: Data) -> None:
    quiet = Batch(jnp.full((1, 4), events.encode([midi.Note(0.0, 0.1, 60, 9)])[-2]))  # time passes, no more
    assert controls.measured(controls.NAMES, quiet).tolist() == [[controls.UNSAID] * 5]
    batch = data.test.batch(np.arange(len(data.test)))
    positions = np.asarray(controls.measured(("position",), jax.tree.map(jnp.asarray, batch)))[:, 0]
    assert positions.min() == 0
    assert positions.max() >= 6
    assert (np.diff(positions[:10]) >= 0).all()


def test_controls_are_hidden_together_or_one_by_one() -> None:
    levels = jnp.zeros((4000, 3), jnp.int32)
    unsaid = np.asarray(controls.hidden(KEY, levels, 0.4)) == controls.UNSAID
    assert unsaid.all(axis=1).mean() == pytest.approx(0.4 + 0.6 / 8, abs=0.03)
    assert unsaid.mean() == pytest.approx(0.4 + 0.6 / 2, abs=0.03)
    assert (np.asarray(controls.hidden(KEY, levels, 1.0)) == controls.UNSAID).all()


def test_controls_matter_where_they_are_said(model: MusicModel) -> None:
    """The same noise gives other music for another control, and the same for one that is not said."""
    clear = eqx.tree_at(lambda one: one.head.weight, model, 100 * model.head.weight)
    draw = lambda **said: np.asarray(clear.sample(KEY, 2, length=5, **said))  # noqa: E731
    plain = draw()
    np.testing.assert_array_equal(draw(tonality=None), plain)
    said = ({"tonality": "a♭ minor"}, {"tempo": 5}, {"velocity": 100}, {"position": 1})
    assert all((draw(**one) != plain).any() for one in said)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"tonality": "H major"}, "a key is a note"),
        ({"mode": "dorian"}, "major.* or .*minor"),
        ({"mode": "major", "tonality": "A minor"}, "the key is A minor"),
        ({"tempo": 0}, "above 0"),
        ({"velocity": 128}, "at most 127"),
        ({"length": 0}, "at least 1"),
        ({"condition": np.array([0, 1])}, "one for all"),
        ({"start": [500]}, "from 0 to 412"),
        ({"start": 0.5}, "name of a MIDI file"),
    ],
)
def test_what_cannot_be_said_is_named(untrained: MusicModel, said: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        untrained.sample(KEY, 3, **said)


def test_a_model_that_was_not_told_says_what_it_was_told(data: Data) -> None:
    model = cr.models.build("music", data, width=8, depth=1, heads=2, controls=["mode"])
    with pytest.raises(ArgumentError, match="it was told: mode") as refused:
        model.sample(KEY, 1, tempo=5)  # type: ignore[attr-defined]
    assert "controls=mode,tempo" in str(refused.value)
    with pytest.raises(ArgumentError, match="name each control once"):
        cr.models.build("music", data, controls=["mode", "mode"])


def test_music_goes_on_from_a_file(untrained: MusicModel, tmp_path: Path) -> None:
    file = tmp_path / "begun.mid"
    begun = [midi.Note(0.2 * i, 0.2 * i + 0.08, 60 + i, 66) for i in range(9)]
    file.write_bytes(midi.write(begun))
    found = np.asarray(untrained.sample(KEY, 2, start=str(file), length=4))
    known = events.encode(begun)
    assert found.shape == (2, len(known) + 4)
    np.testing.assert_array_equal(found[:, : len(known)], np.stack([known, known]))
    one = np.asarray(untrained.sample(KEY, 1, start=known[-12:], length=4))  # window 16: so many are read
    np.testing.assert_array_equal(one[0, -4:], found[0, -4:])
    beams = np.asarray(untrained.sample(KEY, 2, start=known, length=4, beams=2))
    assert (beams[0, -4:] != beams[1, -4:]).any()
    np.testing.assert_array_equal(beams[:, :-4], found[:, :-4])


def test_files_to_go_on_from_that_hold_no_notes_are_named(untrained: MusicModel, tmp_path: Path) -> None:
    file = tmp_path / "a.mid"
    for content, words in ((b"not music", "does not begin like"), (midi.write([]), "no notes")):
        file.write_bytes(content)
        with pytest.raises(DataError, match=f"a.mid: .*{words}"):
            untrained.sample(KEY, 1, start=file)
    with pytest.raises(DataError, match="No such file"):
        untrained.sample(KEY, 1, start=tmp_path / "b.mid")


def test_settings_from_before_there_were_controls_mean_none(data: Data) -> None:
    stored: dict[str, Any] = {"data": None, "model": {"name": "music", "settings": {"width": 8}}, "train": {}}
    assert former.config(stored)["model"] == {"name": "music", "settings": {"width": 8, "controls": []}}
    stored["model"]["settings"] = dict(cr.models.build("music", data, width=8).config)
    assert former.config(stored)["model"]["settings"]["controls"] == controls.NAMES


@pytest.mark.slow
def test_runs_from_before_there_were_controls_open(tmp_path: Path) -> None:
    data = cr.data.load("tunes", n=20, window=16)
    model = cr.models.build("music", data, body="lstm", width=8, depth=1, controls=[])
    run = cr.fit(model, data, steps=1, batch=4, run=tmp_path / "old")
    config = tmp_path / "old" / "config.yaml"
    lines = config.read_text().splitlines(keepends=True)
    former = [line for line in lines if not line.strip().startswith(("controls:", "control_dropout:"))]
    assert len(former) == len(lines) - 2
    config.write_text("".join(former))
    opened = Run.open(tmp_path / "old")
    assert opened.config["model"]["settings"]["controls"] == []
    x = jnp.asarray(data.test.batch(np.arange(1)).x)
    np.testing.assert_array_equal(opened.model.event_nats(x), run.model.event_nats(x))


def test_beams_are_distinct_and_beginnings_are_gone_on_from(model: MusicModel, data: Data) -> None:
    found = np.asarray(model.sample(KEY, 4, beams=4, branch=2, length=6))
    assert len(np.unique(found, axis=0)) == 4
    x = jnp.asarray(data.test.batch(np.arange(2)).x)
    assert model.continued(KEY, x, 5, temperature=0.5).shape == (2, 5)
    for options, words in (({"branch": 2}, "beams"), ({"beams": 2}, "beams give at most")):
        with pytest.raises(ArgumentError, match=words):
            model.sample(KEY, 3, **options)


def test_samples_of_a_run_are_midi_files(data: Data, tmp_path: Any) -> None:
    drawn = np.concatenate([data.test.x[:2], data.test.x[:2]], axis=1)
    kind = cr.data.kinds.of(data.schema)
    files = kind.write_playable(tmp_path, data.schema, drawn.astype(np.float64))
    assert [path.name for path in files.values()] == ["sample-1.mid", "sample-2.mid"]
    for path, row in zip(files.values(), drawn, strict=True):
        found = midi.read(path.read_bytes(), path.name).notes
        assert [note.pitch for note in found] == [note.pitch for note in events.decode(row)]
    clip = kind.clips(data.schema, drawn)["1"]
    assert 0.5 < np.abs(clip).max() <= 1


def test_heads_that_do_not_divide_the_width_are_named(data: Data) -> None:
    with pytest.raises(ArgumentError, match="heads must divide"):
        cr.models.build("music", data, body="transformer", width=9, heads=2)

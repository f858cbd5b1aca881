"""Music event by event: the published size, causality, states that give the same numbers, controls and beams."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError
from chainrule.data import Data, Schema
from chainrule.data.music import events, midi
from chainrule.models.audio.music import MusicConfig, MusicModel

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def data() -> Data:
    return cr.data.load("tunes", n=20, window=16)


@pytest.fixture(scope="module", params=["lstm", "transformer"])
def model(request: pytest.FixtureRequest, data: Data) -> MusicModel:
    found = cr.models.build("music", data, width=8, depth=2, heads=2, body=request.param)
    assert isinstance(found, MusicModel)
    return eqx.nn.inference_mode(found)


def test_the_published_network_has_its_size() -> None:
    schema = Schema("music", (128,), tokens=events.names())
    model = eqx.filter_eval_shape(MusicModel, MusicConfig(body="lstm", width=512, depth=3), schema, KEY)
    arrays = [leaf for leaf in jax.tree.leaves(model) if isinstance(leaf, jax.ShapeDtypeStruct)]
    assert sum(leaf.size for leaf in arrays) == 6_306_717


def test_step_by_step_gives_the_numbers_of_all_at_once_and_nothing_looks_ahead(
    model: MusicModel, data: Data
) -> None:
    x, y = (jnp.asarray(one) for one in data.test.batch(np.arange(2))[:2])
    whole = np.asarray(eqx.filter_jit(model.event_nats)(x, y))

    @eqx.filter_jit
    def one_by_one(x: jax.Array) -> jax.Array:
        state, found, before = model.start(2, 17, y), [], jnp.full((2, 1), -1)
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


def test_beams_are_distinct_and_beginnings_are_gone_on_from(model: MusicModel, data: Data) -> None:
    found = np.asarray(model.sample(KEY, 4, beams=4, branch=2, length=6))
    assert len(np.unique(found, axis=0)) == 4
    x = jnp.asarray(data.test.batch(np.arange(2)).x)
    assert model.continued(KEY, x, 5, temperature=0.5).shape == (2, 5)
    for options, words in (({"branch": 2}, "beams"), ({"beams": 2}, "at most")):
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

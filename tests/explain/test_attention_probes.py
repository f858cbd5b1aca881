"""Probes of models of text, on heads whose habits are known."""

from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import AttentionMaps, Table
from chainrule.explain import probes
from chainrule.explain.methods.head_habits import habits
from chainrule.train import Run, fit, keep


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    plays = data.load("shakespeare", window=16)
    model = models.build("gpt", plays, layers=2, heads=2, width=16)
    folder = tmp_path_factory.mktemp("runs") / "plays"
    return fit(model, plays, run=folder, steps=60, batch=16, eval_examples=32, optimizer={"lr": 3e-3})


@pytest.mark.parametrize(
    "name", ["attention", "logit-lens", "embedding", "logit-attribution", "patching", "neurons"]
)
def test_a_probe_gives_findings_pictures_and_numbers(run: Run, name: str) -> None:
    outcome = probes.examine(name, run, **probes.get(name).toy)
    assert outcome.findings
    assert outcome.numbers
    for picture in outcome.pictures:
        if not isinstance(picture, Table):
            assert report.draw(picture).startswith("<svg")


def test_habits_are_those_of_the_weights() -> None:
    time, period = 8, 4
    uniform = np.tril(np.ones((time, time))) / np.arange(1, time + 1)[:, None]
    back = np.eye(time, k=-1)
    back[0, 0] = 1
    copying = np.eye(time)
    for t in range(period, time):
        copying[t] = np.eye(time)[t - period + 1]
    weights = np.stack([uniform, back, copying])[None, None]
    found = {name: values[0] for name, values in habits(weights, weights).items()}
    np.testing.assert_allclose(found["entropy"], [np.log(np.arange(1, 9)).mean(), 0, 0], atol=1e-12)
    np.testing.assert_allclose(found["previous"][1], 1.0)
    assert found["induction"][2] == 1.0
    assert found["induction"][1] == 0.0


def test_a_head_without_weights_is_not_missed(run: Run) -> None:
    changed = Run(run.path, data=run.data)
    changed.__dict__["model"] = run.model.without_head(1, 0)  # what the cached property would read
    lost = probes.examine("attention", changed, passages=4).numbers["loss"]
    assert isinstance(lost, list)
    assert lost[1][0] == 0.0
    assert abs(lost[0][1]) > 0


def test_probes_read_a_text_of_ones_own(run: Run) -> None:
    shown = probes.examine("attention", run, text="To be or not", passages=2).pictures[0]
    assert isinstance(shown, AttentionMaps)
    assert "".join(shown.queries) == "To·be·or·not"
    np.testing.assert_allclose(shown.weights.sum(axis=-1), 1, atol=1e-5)
    lens = probes.examine("logit-lens", run, text="To be or not").table
    assert lens is not None
    assert [column.split(": ")[1] for column in lens.columns[1:]] == list("To·be·or·no")
    attributed = probes.examine("logit-attribution", run, text="To be or not").numbers
    assert sum(attributed["contributions"].values()) == pytest.approx(attributed["logit"], abs=1e-4)
    for name in ("attention", "logit-lens", "logit-attribution", "patching", "neurons"):
        with pytest.raises(ArgumentError, match="text: 40 tokens; this model reads from 2 to"):
            probes.examine(name, run, text=40 * "x", **probes.get(name).toy)


def test_patching_asks_what_was_asked(run: Run) -> None:
    asked = {"text": "To be or", "corrupted": "To he or", "answer": " ", "against": "e"}
    numbers = probes.examine("patching", run, **asked).numbers
    logits = np.asarray(eqx.filter_jit(run.model.logits)(_rows(run, asked["text"], asked["corrupted"])))[
        :, -1
    ]
    tokens = run.schema.tokens
    difference = logits[:, tokens.index(" ")] - logits[:, tokens.index("e")]
    assert [numbers["clean_difference"], numbers["corrupted_difference"]] == pytest.approx(
        difference, abs=1e-4
    )
    assert numbers["resid_pre"][0][3] == pytest.approx(1, abs=1e-3), (
        "the token that differs, before any layer"
    )
    for wrong, message in (
        ({"corrupted": "To b"}, "4 tokens, the clean text has 8"),
        ({"corrupted": "To be or"}, "the same text"),
        ({"answer": "th"}, "'th' is 2 tokens"),
        ({"against": " "}, "two different tokens"),
    ):
        with pytest.raises(ArgumentError, match=message):
            probes.examine("patching", run, **{**asked, **wrong})


def test_patching_of_a_masked_model_asks_what_is_hidden(tmp_path: Path) -> None:
    plays = data.load("shakespeare", window=16)
    masked = keep(
        models.build("bert", plays, layers=2, heads=2, width=16), plays, run=tmp_path / "masked", origin={}
    )
    asked = {"text": "To [MASK]e or", "corrupted": "To [MASK]e of", "answer": "b", "against": "h"}
    outcome = probes.examine("patching", masked, **asked)
    assert outcome.findings[0].startswith("In 'To [MASK]e or' the logit of 'b'")
    rows = jnp.asarray(np.stack([masked.model.gaps.encode(asked[one]) for one in ("text", "corrupted")]))
    logits = np.asarray(masked.model.logits(rows))[:, 3]
    difference = logits[:, plays.schema.tokens.index("b")] - logits[:, plays.schema.tokens.index("h")]
    found = [outcome.numbers["clean_difference"], outcome.numbers["corrupted_difference"]]
    assert found == pytest.approx(difference, abs=1e-5)
    assert outcome.numbers["resid_pre"][0][7] == pytest.approx(1, abs=1e-2), "the token that differs"
    assert outcome.numbers["resid_pre"][0][0] == pytest.approx(0, abs=1e-2), "one that does not"
    assert outcome.pictures[0].columns[3] == "[MASK]"
    middle = probes.examine("patching", masked, text=15 * "a" + "b").numbers
    assert middle["clean"] == 8 * "a" + "[MASK]" + 6 * "a" + "b"
    for wrong, message in (
        ({"corrupted": "To b[MASK] or"}, "put [MASK] at the same position"),
        ({"text": 18 * "a"}, "18 tokens; this model reads from 2 to 17"),
    ):
        with pytest.raises(ArgumentError) as raised:
            probes.examine("patching", masked, **{**asked, **wrong})
        assert message in str(raised.value)


def _rows(run: Run, *texts: str) -> jnp.ndarray:
    return jnp.asarray(np.stack([run.model.tokenizer.encode(text) for text in texts]))


def test_the_lens_ends_with_the_models_own_loss(run: Run) -> None:
    numbers = probes.examine("logit-lens", run, passages=8).numbers
    x = jnp.asarray(run.data.val.batch(np.arange(8)).x)
    expected = float(eqx.filter_jit(run.model.surprisal)(x).mean())
    assert numbers["loss"][-1] == pytest.approx(expected, rel=1e-4)
    assert numbers["agreement"][-1] == 1.0
    assert len(numbers["loss"]) == 3


def test_neighbours_are_nearest_by_angle(run: Run) -> None:
    table = np.asarray(run.model.embeddings())
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    tokens = run.schema.tokens
    numbers = probes.examine("embedding", run, word="e", analogy="a e o").numbers
    nearest = numbers["nearest"]["e"].split()
    cosine = unit @ unit[tokens.index("e")]
    assert float(nearest[1]) == pytest.approx(np.sort(cosine)[-2], abs=0.01)
    word, first = next(iter(numbers["answers"]["Nearest to 'e'"].items()))
    assert first == pytest.approx(np.sort(cosine)[-2], rel=1e-5)
    assert tokens.index(word) == np.argsort(cosine)[-2]
    assert not {"a", "e", "o"} & set(numbers["answers"]["a : e = o : ?"])
    with pytest.raises(ArgumentError, match="it takes three tokens"):
        probes.examine("embedding", run, analogy="a e")


def test_models_without_attention_are_refused(tmp_path: Path) -> None:
    moons = data.load("moons", n=100)
    other = fit(models.build("mlp", moons, width=4), moons, run=tmp_path / "moons", steps=2, batch=8)
    with pytest.raises(CapabilityError, match="a model of text with attention"):
        probes.examine("attention", other)
    assert not {"attention", "logit-lens", "embedding"} & set(probes.applicable(other))

"""Numbers of trained models as functions of raw rows, and the probes that explain them."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models
from chainrule.core.errors import ArgumentError, ChainruleError
from chainrule.explain import probes
from chainrule.explain.methods.chosen_rows import chosen_rows
from chainrule.explain.methods.input_groups import groups_of
from chainrule.explain.methods.raw_rows import raw_rows
from chainrule.explain.methods.run_outputs import asked_output, numbers_of, output_function
from chainrule.train import Run, fit


def _table(path: Path, target: str) -> Path:
    draw = np.random.default_rng(0)
    lines = ["age,city,debt," + target]
    for _ in range(400):
        age, city, debt = draw.integers(20, 60), draw.choice(["Rome", "Oslo", "Lima"]), draw.normal()
        score = 0.1 * (age - 40) + (city == "Oslo") - debt
        answer = ("yes" if score > 0 else "no") if target == "granted" else f"{100 + 20 * score:.3f}"
        lines.append(f"{age},{city},{debt:.4f},{answer}")
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def classifier(folder: Path) -> Run:
    loans = data.load(str(_table(folder / "loans.csv", "granted")))
    model = models.build("mlp", loans, width=8, depth=1)
    return fit(
        model, loans, run=folder / "loans", steps=300, batch=32, log_every=100, eval_every=100, save_every=100
    )


@pytest.fixture(scope="module")
def regressor(folder: Path) -> Run:
    prices = data.load(str(_table(folder / "prices.csv", "price")))
    return fit(models.build("gp", prices, learn=False), prices, run=folder / "prices")


def held_out(run: Run, rows: str = "0:6") -> np.ndarray:
    return raw_rows(run, run.data.held_out()[0], rows).x


def test_classifiers_have_logits_log_odds_and_probabilities(classifier: Run) -> None:
    assert numbers_of(classifier.model, classifier.schema) == ("logit", "log-odds", "probability")
    x = held_out(classifier)
    logits, odds, p = (
        asked_output(classifier, classifier.data, f"{kind}:yes", x[:1])
        for kind in ("logit", "log-odds", "probability")
    )
    assert logits.name == "logit of yes"
    both = logits.all_values(x)
    shares = np.exp(both) / np.exp(both).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p.values(x), shares[:, logits.output], rtol=1e-5)
    np.testing.assert_allclose(odds.values(x), np.log(p.values(x) / (1 - p.values(x))), rtol=1e-3, atol=1e-4)


def test_without_a_name_the_largest_output_of_the_first_row_is_meant(classifier: Run) -> None:
    x = held_out(classifier)
    asked = asked_output(classifier, classifier.data, "", x[:1])
    assert asked.output == asked.all_values(x[:1])[0].argmax()
    assert asked_output(classifier, classifier.data, "no", x[:1]).name == "logit of no"


def test_values_and_variances_are_in_the_units_of_the_table(regressor: Run) -> None:
    x = held_out(regressor)
    assert numbers_of(regressor.model, regressor.schema)[:2] == ("value", "variance")
    value = asked_output(regressor, regressor.data, "", x[:1])
    there, seen = regressor.target_scaling, jnp.asarray(regressor.scaling.apply(x))
    assert there is not None
    predicted = there.inverse(np.asarray(regressor.model.predict(seen)))
    np.testing.assert_allclose(value.values(x), predicted.ravel(), rtol=1e-5)
    spread = asked_output(regressor, regressor.data, "variance", x[:1]).values(x)
    own = np.asarray(regressor.model.predictive(seen).variance).ravel()
    np.testing.assert_allclose(spread, own / np.asarray(there.factor) ** 2, rtol=1e-4)


def test_numbers_that_are_not_there_are_named(classifier: Run) -> None:
    x = held_out(classifier)
    with pytest.raises(ArgumentError, match="logit, log-odds, probability"):
        asked_output(classifier, classifier.data, "logit:maybe", x[:1])
    with pytest.raises(ArgumentError, match="no such number"):
        output_function(classifier, classifier.data, "variance")


def test_columns_of_words_are_one_group(classifier: Run) -> None:
    groups = groups_of(classifier.data)
    assert groups.names == ("age", "city", "debt")
    assert [len(groups.columns(i)) for i in range(3)] == [1, 3, 1]
    assert groups.single == (0, 2)
    shown = groups.shown(held_out(classifier)[0], classifier.data)
    assert shown[0].startswith("age = ")
    assert shown[1] in {"city = Rome", "city = Oslo", "city = Lima"}


@pytest.mark.parametrize("rows", ["a", "3:", "0:0", "999"])
def test_rows_that_are_not_there_are_refused(rows: str) -> None:
    with pytest.raises(ArgumentError, match="rows="):
        chosen_rows(rows, 100)


def test_shapley_values_of_a_run_add_up_and_name_words(classifier: Run) -> None:
    found = probes.examine("shap", classifier, rows="0:5", out="logit:yes", background=20)
    numbers = found.numbers
    assert numbers["names"] == ["age", "city", "debt"]
    sums = np.asarray(numbers["base"]) + np.asarray(numbers["values"]).sum(axis=1)
    np.testing.assert_allclose(sums, numbers["outputs"], atol=1e-4)
    assert {picture.name for picture in found.pictures} == {
        *("waterfall", "force", "beeswarm", "bar", "dependence", "heat-map", "decision-paths")
    }
    assert all(not picture.footnote.alarm for picture in found.pictures)


def test_settings_that_say_nothing_about_such_rows_are_refused(classifier: Run) -> None:
    with pytest.raises(ArgumentError, match="says nothing about rows of a table"):
        probes.examine("shap", classifier, superpixels=4)


def test_shapley_values_of_a_variance_add_up(regressor: Run) -> None:
    numbers = probes.examine("shap", regressor, rows="0:3", out="variance", background=8).numbers
    assert numbers["output"] == "variance of price"
    sums = np.asarray(numbers["base"]) + np.asarray(numbers["values"]).sum(axis=1)
    np.testing.assert_allclose(sums, numbers["outputs"], rtol=1e-3)


def test_importances_agree_on_what_matters(classifier: Run) -> None:
    found = probes.examine("importance", classifier, repeats=3, background=8).numbers
    for kind in ("exchanged", "share_of_the_loss"):
        assert min(found[kind]["age"], found[kind]["debt"]) > 0


def test_changes_flip_the_decision_and_leave_fixed_features_alone(classifier: Run) -> None:
    found = probes.examine("counterfactual", classifier, rows="0:4", fixed=("age",))
    assert found.numbers["changed"]
    assert all("age" not in changed for changed in found.numbers["changed"])
    assert found.table is not None
    assert all(row[1] != row[2] for row in found.table.rows)
    cheap, dear = (
        probes.examine("counterfactual", classifier, rows="0", fixed=("city", "debt"), weights={"age": cost})
        for cost in (1, 3)
    )
    np.testing.assert_allclose(dear.numbers["size"], 3 * np.array(cheap.numbers["size"]))
    with pytest.raises(ArgumentError, match="weights=aeg: there is no such name \\(did you mean 'age'"):
        probes.examine("counterfactual", classifier, weights={"aeg": 2})


@pytest.mark.slow
def test_dates_change_to_dates(folder: Path) -> None:
    draw = np.random.default_rng(1)
    days = np.datetime64("2019-01-01") + draw.integers(0, 2000, 300)
    rows = [
        f"{day},{draw.normal():.3f},{'new' if day >= np.datetime64('2021-10-01') else 'old'}" for day in days
    ]
    path = folder / "dates.csv"
    path.write_text("\n".join(["when,debt,age", *rows]))
    table = data.load(str(path))
    model = models.build("mlp", table, width=8, depth=1)
    run = fit(model, table, run=folder / "dates", steps=300, batch=32, eval_every=300, save_every=300)
    found = probes.examine("counterfactual", run, rows="0:3", fixed=("debt",))
    assert found.table is not None
    for row in found.table.rows:
        said = re.fullmatch(r"when = (\S+) → (\S+)", str(row[3]))
        assert said is not None, row
        assert {said[1], said[2]} <= {str(one) for one in days}


def test_rules_of_a_run_say_how_faithful_they_are(classifier: Run) -> None:
    found = probes.examine("rules", classifier, force=True)
    assert 0.5 < found.numbers["fidelity"] <= 1
    assert found.table is not None
    assert sum(row[2] for row in found.table.rows) == pytest.approx(1)


def test_dependence_names_the_feature_with_the_largest_effect(classifier: Run) -> None:
    found = probes.examine("dependence", classifier, n=20, points=6)
    assert set(found.numbers) == {"age", "debt"}
    with pytest.raises(ArgumentError, match="features=city"):
        probes.examine("dependence", classifier, features=("city",))


def test_a_column_with_gaps_is_moved_in_the_rows_where_it_is_known(folder: Path) -> None:
    draw = np.random.default_rng(1)
    size, age = draw.normal(size=200), draw.integers(1, 90, 200)
    lines = [
        f"{'' if i % 4 == 0 else round(size[i], 3)},{age[i]},{3 * size[i] + age[i]:.2f}" for i in range(200)
    ]
    file = folder / "gaps.csv"
    file.write_text("\n".join(["size,age,price", *lines]))
    table = data.load(str(file), missing="median")
    run = fit(models.build("mlp", table, width=4, depth=1), table, run=folder / "gaps", steps=2, batch=16)
    found = probes.examine("dependence", run, features=("size",), points=4)
    x = held_out(run, "0:20")
    known = int((x[:, 1] == 0).sum())
    assert 0 < known < len(x) == 20
    (picture,) = found.pictures
    assert str(known) in str(picture.footnote)
    assert "whose value is known" in str(picture.footnote)
    assert np.ptp(found.numbers["size"]["grid"]) > 0


def test_rows_rest_most_on_rows_of_their_own_class(classifier: Run) -> None:
    outcome = probes.examine("influence", classifier, rows="0:2", n=60, trace=2)
    found, table = outcome.numbers, outcome.table
    assert table is not None
    assert table.columns[-3:] == ["age", "city", "debt"]
    assert {row[-2] for row in table.rows} <= {"Rome", "Oslo", "Lima"}
    influences = np.asarray(found["influence_functions"])
    assert influences.shape == (2, 60)
    assert np.isfinite(influences).all()
    assert found["residual"] < 1e-2
    assert np.asarray(found["data_Shapley_of_neighbours"]).sum() > 0


@pytest.mark.slow
def test_tokens_of_a_text_add_up_to_the_log_probability_of_the_last(folder: Path) -> None:
    texts = data.load("shakespeare", window=12)
    entry = models.entry("gpt")
    run = fit(
        models.build("gpt", texts, **entry.toy), texts, run=folder / "gpt", steps=3, batch=4, save_every=3
    )
    found = probes.examine("shap", run, text="To be or", background=4)
    numbers = found.numbers
    assert len(numbers["values"]) == len(numbers["tokens"]) - 1
    np.testing.assert_allclose(numbers["base"] + sum(numbers["values"]), numbers["outputs"], atol=1e-4)
    assert next(p for p in found.pictures if p.name == "text").signed


@pytest.mark.slow
def test_words_of_a_text_add_up_to_its_class(folder: Path) -> None:
    entry = models.entry("reader")
    texts = data.load("plays")
    run = fit(
        models.build("reader", texts, **entry.toy),
        texts,
        run=folder / "reader",
        steps=3,
        batch=4,
        save_every=3,
    )
    name = run.schema.classes[0]
    found = probes.examine("shap", run, text="to be or not", out=f"logit:{name}")
    assert found.numbers["tokens"] == ["to ", "be ", "or ", "not"]
    total = found.numbers["base"] + sum(found.numbers["values"])
    assert total == pytest.approx(found.numbers["outputs"], abs=1e-4)
    assert found.numbers["output"] == f"logit of {name}"
    with pytest.raises(ArgumentError, match="one at a time"):
        probes.examine("shap", run, rows="0:2")
    small = {"background": 4, "samples": 8, "fits": 2, "nodes": 8, "stages": 1}
    slopes = probes.examine("attributions", run, text="to be", out=f"logit:{name}", **small)
    assert slopes.numbers["output"] == f"logit of {name}"
    assert slopes.numbers["names"][-6:] == ["t", "o", " ", "b", "e", "[end]"]


def test_a_gap_is_explained_by_the_tokens_around_it(folder: Path) -> None:
    entry = models.entry("bert")
    texts = data.load(entry.toy_data)
    run = fit(
        models.build("bert", texts, **entry.toy), texts, run=folder / "bert", steps=3, batch=4, save_every=3
    )
    found = probes.examine("shap", run, text="to [MASK]e", budget=64)
    assert found.numbers["tokens"][3] == "[MASK]"
    assert found.numbers["values"][3] == pytest.approx(0, abs=1e-6)
    total = found.numbers["base"] + sum(found.numbers["values"])
    assert total == pytest.approx(found.numbers["outputs"], abs=1e-4)


@pytest.mark.slow
def test_absent_patches_are_drawn_by_a_run_that_fills_gaps(folder: Path) -> None:
    digits = data.load("digits")
    made = {"mlp": {"width": 8, "depth": 1}, "bert": {"width": 8, "heads": 1, "layers": 1, "patch": 4}}
    runs = {
        name: fit(models.build(name, digits, **settings), digits, run=folder / f"{name}-digits", steps=2)
        for name, settings in made.items()
    }
    found = probes.examine("shap", runs["mlp"], rows="0:2", absent="inpaint", filler="bert-digits", outputs=2)
    assert found.numbers["names"] == ["patch 1", "patch 2", "patch 3", "patch 4"]
    assert found.numbers["residual"] < 1e-3
    for settings, message in (
        ({"absent": "inpaint"}, "name it: filler=RUN"),
        ({"absent": "inpaint", "filler": "mlp-digits"}, "fills no gaps of images of 8×8×1"),
        ({"absent": "inpaint", "filler": "bert-digits", "patch": 2}, "whose patches another run fills in"),
        ({"filler": "bert-digits"}, "say absent=inpaint"),
    ):
        with pytest.raises(ChainruleError, match=message):
            probes.examine("shap", runs["mlp"], **settings)

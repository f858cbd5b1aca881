"""`chainrule probe`: experiments by name, probes into a run, and what is written where."""

import json
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

from chainrule.explain import experiments, probes
from chainrule.explain.probes.surprisal import SurprisalSettings
from chainrule.explain.protocol import NoSettings, Outcome, Probe

from .conftest import Command


def test_alone_it_lists_every_experiment_and_every_probe(cli: Command) -> None:
    listed = cli("probe")
    assert listed.code == 0
    for name in (*experiments.names(), *probes.names()):
        assert f"\n{name} " in listed.out
    machine = cli("probe", "--json").last
    assert [one["name"] for one in machine["experiments"]] == list(experiments.names())
    assert [one["name"] for one in machine["probes"]] == list(probes.names())
    assert all(one["summary"] for one in [*machine["experiments"], *machine["probes"]])


def test_an_experiment_leaves_a_page_pictures_and_numbers(cli: Command) -> None:
    result = cli("probe", "distances", "q=0.8")
    assert result.code == 0, result.err
    assert "total variation 0.3" in result.out
    folder = Path("probes/distances-001")
    assert f"page     {folder / 'index.html'}" in result.out
    ElementTree.parse(folder / "distances.svg")
    numbers = json.loads((folder / "numbers.json").read_text())
    assert numbers["distances"]["total variation"]["forward"] == pytest.approx(0.3)
    page = (folder / "index.html").read_text()
    HTMLParser().feed(page)
    for words in ("total variation 0.3", "chainrule probe distances q=0.8", "Jensen-Shannon", "<svg"):
        assert words in page
    assert cli("probe", "distances").code == 0
    assert Path("probes/distances-002").is_dir()


def test_machines_get_findings_numbers_settings_and_paths(cli: Command) -> None:
    result = cli("probe", "distances", "base=2", "out=here", "--json")
    assert result.code == 0, result.err
    assert result.last["experiment"] == "distances"
    found = result.last["results"]["distances"]
    coins = {"p": 0.5, "q": 0.9, "of": [], "against": [], "normalize": False}
    assert found["settings"] == {**coins, "base": "2"}
    assert found["numbers"]["KL"]["forward"] == pytest.approx(0.7369656)
    assert "bits" in found["findings"][0]
    assert Path(result.last["files"]["page"]) == Path("here/index.html")
    assert all(Path(path).is_file() for path in result.last["files"]["pictures"])
    assert not Path("probes").exists()


def test_nested_lists_of_settings_are_read(cli: Command) -> None:
    words = [
        "probe",
        "search",
        "data=moons",
        "steps=5",
        "search.width=4,8",
        "search.optimizer.lr=0.01",
        "--json",
    ]
    result = cli(*words)
    assert result.code == 0, result.err
    trials = result.last["results"]["search"]["numbers"]["trials"]
    assert sorted(trial["settings"]["width"] for trial in trials) == [4, 8]
    assert {trial["settings"]["optimizer.lr"] for trial in trials} == {0.01}


def test_help_shows_the_verb_or_the_settings_of_what_is_named(cli: Command) -> None:
    assert "lists the experiments and probes" in " ".join(cli("probe", "--help").out.split())
    shown = cli("probe", "distances", "--help").out
    assert "first coin" in shown
    assert "Cover and Thomas" in shown
    looked = cli("probe", "gradients", "--help").out
    assert "It needs models that are trained by gradients" in looked
    assert "no settings" in looked
    assert (
        "what it learns to tell apart" in cli("probe", "far-field", "--help").out
    )  # the experiment of that name
    assert "random directions" in cli("probe", "toy", "far-field", "--help").out  # the probe
    assert cli("probe", "distances", "--help", "--json").last["settings"][0]["name"] == "p"


@pytest.mark.slow  # every probe
def test_every_probe_that_applies_looks_into_a_run(cli: Command, trained: Path) -> None:
    result = cli("probe", "toy")
    assert result.code == 0, result.err
    found = json.loads((trained / "probes" / "numbers.json").read_text())
    assert {"gradients", "layers", "far-field", "folding"} <= set(found)
    assert set(found["gradients"]) >= {"head.weight", "blocks.0.linear.weight"}
    assert (trained / "probes" / "index.html").is_file()
    assert "far-field: Confidence along rays" in result.out
    for picture in (trained / "probes").glob("*.svg"):
        ElementTree.parse(picture)


def test_a_probe_of_an_output_has_out_for_it_and_to_for_the_folder(cli: Command, trained: Path) -> None:
    words = ["rows=0:2", "background=4", "to=there", "--json"]
    result = cli("probe", "toy", "shap", "out=probability", *words)
    assert result.code == 0, result.err
    assert result.last["results"]["shap"]["numbers"]["output"].startswith("probability of ")
    assert Path(result.last["files"]["page"]) == Path("there/index.html")
    assert Path("there/waterfall.csv").is_file()
    assert cli("probe", "toy", "shap", "out=odds").code == 2


def test_one_probe_is_chosen_by_name_and_takes_settings(cli: Command, trained: Path) -> None:
    assert cli("probe", "toy", "far-field", "out=here", "to=there").code == 2
    result = cli("probe", "toy", "far-field", "rays=3", "--json")
    assert result.code == 0, result.err
    assert len(result.last["results"]["far-field"]["numbers"]["confidence_far"]) == 3
    assert Path(result.last["files"]["page"]).resolve() == trained.resolve() / "probes/far-field/index.html"


@pytest.mark.usefixtures("trained")
def test_a_probe_that_cannot_look_says_why_and_the_others_go_on(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chainrule.core.errors import DataError

    def fail(run: object, data: object, settings: object) -> Outcome:
        raise DataError("the cat sat on it")

    real = probes.get
    broken = Probe("Breaks.", "luck", lambda model, schema: True, fail, NoSettings)
    monkeypatch.setattr(probes, "names", lambda: ("broken", "gradients"))
    monkeypatch.setattr(probes, "get", lambda name: broken if name == "broken" else real(name))
    both = cli("probe", "toy", "--json")
    assert both.code == 0, both.err
    assert both.last["results"]["broken"]["problem"] == "the cat sat on it"
    assert [one["declined"] for one in both.last["results"].values()] == [True, False]
    assert both.last["results"]["gradients"]["numbers"]
    page = Path(both.last["files"]["page"]).read_text()
    assert "the cat sat on it" in page
    assert "This does not apply here." in page
    said = cli("probe", "toy")
    assert said.code == 0
    assert "broken: does not apply here: the cat sat on it" in said.out
    assert "declined 1 of 2 probes do not apply here: broken" in said.out
    alone = cli("probe", "toy", "broken")
    assert alone.code == 3
    assert "the cat sat on it" in alone.err


@pytest.mark.usefixtures("trained")
def test_a_probe_that_breaks_is_named_at_the_end_and_costs_the_others_nothing(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(run: object, data: object, settings: object) -> Outcome:
        raise TypeError("a mouse\nin the machine")

    real = probes.get
    broken = Probe("Breaks.", "luck", lambda model, schema: True, fail, NoSettings)
    monkeypatch.setattr(probes, "names", lambda: ("broken", "gradients"))
    monkeypatch.setattr(probes, "get", lambda name: broken if name == "broken" else real(name))
    both = cli("probe", "toy", "--json")
    assert both.code == 1
    assert both.last["results"]["broken"]["problem"] == "TypeError: a mouse"
    assert not both.last["results"]["broken"]["declined"]
    assert both.last["results"]["gradients"]["numbers"]
    assert "TypeError: a mouse" in Path(both.last["files"]["page"]).read_text()
    said = cli("probe", "toy")
    assert said.code == 1
    assert "1 of 2 probes failed: broken" in said.err
    assert "chainrule probe toy broken --trace" in said.err
    assert "The largest gradient" in said.out


@pytest.mark.usefixtures("trained")
def test_a_text_is_for_every_probe_that_reads_one(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def reads(run: object, data: object, settings: SurprisalSettings) -> Outcome:
        return Outcome([f"It says {settings.text}."], numbers={"length": len(settings.text)})

    real = probes.get
    reader = Probe("Reads.", "eyes", lambda model, schema: True, reads, SurprisalSettings)
    monkeypatch.setattr(probes, "names", lambda: ("reader", "gradients"))
    monkeypatch.setattr(probes, "get", lambda name: reader if name == "reader" else real(name))
    both = cli("probe", "toy", "text=To be", "--json")
    assert both.code == 0, both.err
    assert both.last["results"]["reader"]["findings"] == ["It says To be."]
    assert both.last["results"]["gradients"]["settings"] == {}
    assert "chainrule probe toy &#x27;text=To be&#x27;" in Path(both.last["files"]["page"]).read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["distance"], "'distance' is neither an experiment nor a run (did you mean 'distances'?)"),
        (["nothing-like-it"], "there is no run 'nothing-like-it'"),
        (["distances", "r=0.5"], "unknown setting 'r'"),
        (["distances", "q=2"], "q='2': input should be less than 1"),
        (["distances", "runs=x"], "unknown setting 'runs'"),
        (["distances", "more"], "unexpected word 'more'"),
        (["p=0.5"], "name it: chainrule probe distances"),
        (["toy", "gradeints"], "unknown probe 'gradeints' (did you mean 'gradients'?)"),
        (["toy", "gradients", "more"], "unexpected word 'more'"),
        (["toy", "rays=3"], "settings belong to one probe"),
        (["toy", "text=To be"], "no probe of toy reads a text"),
        (["toy", "shap", "text=To be"], "text: toy reads no text"),
        (["toy", "gradients", "rays=3"], "unknown setting 'rays'"),
    ],
)
@pytest.mark.usefixtures("trained")
def test_a_mistake_is_told_before_anything_is_written(cli: Command, words: list[str], message: str) -> None:
    result = cli("probe", *words)
    assert result.code == 2
    assert message in result.err
    assert not Path("probes").exists()
    assert not Path("runs/toy/probes").exists()


@pytest.mark.usefixtures("trained")
def test_a_probe_that_does_not_apply_says_what_it_needs(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = probes.get("gradients")
    picky = Probe(real.summary, "a cat", lambda model, schema: False, real.examine)
    monkeypatch.setattr(probes, "get", lambda name: picky)
    result = cli("probe", "toy", "gradients")
    assert result.code == 2
    assert "gradients does not apply to toy: it needs a cat" in result.err


def test_options_of_data_have_another_name_in_a_search(cli: Command) -> None:
    result = cli("probe", "search", "data=table.csv", "data.missing=median")
    assert result.code == 2
    assert "unknown setting 'data.missing' (did you mean 'load.missing'?)" in result.err


def test_errors_of_the_data_name_the_options_of_an_experiment(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,x\n2,,y\n3,4,x\n")
    refused = cli("probe", "search", f"data={tmp_path / 't.csv'}", "steps=2")
    assert refused.code == 3
    assert "load.target=none" in refused.err
    assert "load.missing=median" in refused.err
    assert " data.missing" not in refused.err

"""The page of a run: complete in every state, self-contained, and safe whatever names the run carries."""

import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from chainrule import report, train
from chainrule.core.errors import RunError
from chainrule.core.formatting import number
from chainrule.core.palette import DARK, LIGHT
from chainrule.core.pictures import Images, Lines
from chainrule.report.gallery import groups, learning_curves
from chainrule.train import Run
from tests.report.conftest import PAYLOAD, everything, hostile_data

VOID = {"meta", "img", "br", "link", "input", "hr"}
LOADING = {"src", "href", "xlink:href", "srcset", "action", "data", "poster", "background", "formaction"}


class Page(HTMLParser):
    """A page taken apart: its elements with their attributes, its text, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reported") / "moons-mlp-001"
    shutil.copytree(trained, folder)
    return report.write(Run.open(folder))


@pytest.fixture(scope="module")
def hostile_page(hostile: Run) -> Path:
    return report.write(hostile)


def test_the_page_tells_what_was_trained_on_what(page: Path) -> None:
    text = read(page).text
    assert re.search(r"mlp with 42 parameters, trained on moons \( ?200 points in 2 dimensions", text)
    assert "for 30 steps in" in text
    assert "on cpu" in text


def test_headline_numbers_are_the_scores_with_their_errors(page: Path) -> None:
    run = Run.open(page.parent)
    text = read(page).text
    assert "On 20 test examples" in text
    for name, metric in run.score("test").items():
        assert re.split(r"[_.]", name)[0] in text.lower()
        if metric.stderr:
            assert f"± {metric.stderr:.2g}"[:6] in text
        else:
            assert number(metric.value) in text


def test_the_page_has_every_part(page: Path) -> None:
    found = read(page)
    for heading in (
        "Learning",
        "Predictions",
        "Settings",
        "Model",
        "Training",
        "Data",
        "Environment",
        "Again",
    ):
        assert heading in found.words, heading
    for word in ("optimizer.lr", "versions.jax", "Rumelhart", "SHA-256", Run.open(page.parent).data.hash):
        assert word in found.text, word
    assert "Nothing was left out." in found.text
    assert found.count("figure") == found.count("figcaption") + sum(
        not picture.caption for picture in report.pictures(Run.open(page.parent))
    )


def test_the_commands_name_the_run(page: Path) -> None:
    text = read(page).text
    assert f"chainrule train config={page.parent / 'config.yaml'}" in text
    assert f"chainrule resume {page.parent} steps=60" in text
    assert f"cr.Run.open('{page.parent}')" in text
    assert "chainrule sample" not in text, "a perceptron does not sample"


def test_every_picture_lies_beside_the_page_with_its_origin(page: Path) -> None:
    files = sorted((page.parent / "plots").glob("*"))
    assert {file.suffix for file in files} == {".svg"}
    assert {"curve-loss", "confusion-matrix", "reliability", "surface"} <= {file.stem for file in files}
    for file in files:
        (about,) = ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}metadata")
        facts = json.loads(about.text or "")
        assert (facts["run"], facts["step"], facts["seed"]) == ("moons-mlp-001", 30, 0)
        assert facts["settings"]["model"]["name"] == "mlp"


def test_the_page_is_one_file_that_loads_nothing(page: Path) -> None:
    source = page.read_text(encoding="utf-8")
    found = Page(source)
    assert not found.open
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & {
        tag for tag, _ in found.elements
    }
    for tag, attributes in found.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in LOADING:
                assert (value or "").startswith(("#", "data:image/png;base64,")), (tag, name, value)
            for url in re.findall(r"url\(([^)]*)\)", value or ""):
                assert url.startswith("#"), url
    outside = re.sub(r'xmlns(:xlink)?="http://www\.w3\.org/[^"]*"', "", source)
    assert not re.search(r"https?://|@import|//cdn", outside)
    policy = next(a["content"] for _, a in found.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert (policy or "").startswith("default-src 'none'")


def test_the_page_is_light_and_dark(page: Path) -> None:
    source = page.read_text(encoding="utf-8")
    light, dark = source.split("@media screen and (prefers-color-scheme: dark)", 1)
    for role in LIGHT:
        assert f"--cr-{role}:{LIGHT[role]}" in light
        assert f"--cr-{role}:{DARK[role]}" in dark
    assert source.count("var(--cr-1, #1e6db9)") > 5


def test_names_cannot_leave_their_place(hostile_page: Path) -> None:
    source = hostile_page.read_text(encoding="utf-8")
    found = Page(source)
    assert not found.open
    assert not {"script", "img", "b"} & {tag for tag, _ in found.elements}
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    assert "<script" not in source
    assert "onerror=alert(1)>" not in source
    assert "<b>run & 'co'" in found.text
    assert found.text.count(PAYLOAD) >= 2, "shown as it is: the data's name and the file that was left out"


def test_a_model_that_can_do_everything_shows_everything(hostile: Run, hostile_page: Path) -> None:
    found = {group.title: group.pictures for group in groups(hostile)}
    assert list(found) == ["Learning", "Samples", "Predictions", "Inside the model"]
    (samples,) = found["Samples"]
    assert isinstance(samples, Images)
    assert len(samples.images) == len(samples.labels) == 99, "33 of each of three classes"
    assert [picture.name for picture in found["Inside the model"]] == ["../norms"]
    assert (hostile_page.parent / "plots" / "norms.svg").exists()
    assert not (hostile_page.parent / "norms.svg").exists()


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        ("interrupted", "stopped by the user", ["was interrupted at step 30 of 90", "stopped by the user"]),
        (
            "diverged",
            "loss became NaN at step 31",
            ["diverged at step 30 of 90", "loss became NaN", "optimizer.lr=0.0005"],
        ),
        ("failed", "<i>out of memory</i>", ["failed at step 30 of 90", "<i>out of memory</i>"]),
    ],
)
def test_a_run_that_did_not_finish_says_so_and_is_complete(
    copy: Callable[..., Run], status: str, message: str, words: list[str]
) -> None:
    run = copy(status=status, message=message, total=90)
    found = read(report.write(run))
    assert not found.open
    for word in words:
        assert word in found.text, word
    assert "The page describes the checkpoint of step 30." in found.text
    assert found.count("figure") >= 8
    assert found.text.index(words[0]) < found.text.index("Learning")


def test_a_finished_run_has_no_warning(page: Path) -> None:
    assert read(page).count("aside") == 0


def test_a_run_without_a_checkpoint_has_its_curves_and_says_what_is_missing(copy: Callable[..., Run]) -> None:
    run = copy(status="diverged", message="loss became NaN at step 3", best={})
    shutil.rmtree(run.path / "checkpoints")
    found = read(report.write(run))
    assert "No checkpoint was saved." in found.text
    assert "has no checkpoint yet" in found.text
    assert found.count("figure") == len(learning_curves(run)) > 0


def test_a_run_whose_data_are_gone_says_so(hostile: Run, tmp_path: Path) -> None:
    path = tmp_path / "orphan"
    shutil.copytree(hostile.path, path)
    found = read(report.write(Run.open(path, model=everything(hostile.schema))))
    assert "was trained on data built in Python" in found.text
    assert "There are no scores." in found.text
    assert "cr.Run.open(" in found.text
    assert "model=model, data=data)" in found.text
    assert "chainrule resume" not in found.text, "the command line cannot know the class"


def test_a_run_that_never_logged_anything_has_a_page(copy: Callable[..., Run]) -> None:
    run = copy(status="interrupted", step=0, best={})
    shutil.rmtree(run.path / "checkpoints")
    (run.path / "metrics.jsonl").unlink()
    assert "No checkpoint was saved." in read(report.write(run)).text


def test_writing_twice_gives_the_same_page_and_leaves_nothing_behind(copy: Callable[..., Run]) -> None:
    run = copy()
    first = report.write(run).read_bytes()
    names = sorted(file.name for file in run.path.rglob("*"))
    assert report.write(run).read_bytes() == first
    assert sorted(file.name for file in run.path.rglob("*")) == names
    assert not [name for name in names if name.endswith(".tmp")]


def test_a_link_in_place_of_the_plots_is_refused(copy: Callable[..., Run], tmp_path: Path) -> None:
    run = copy()
    (tmp_path / "elsewhere").mkdir()
    (run.path / "plots").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="is a link"):
        report.write(run)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_learning_curves_come_in_order_and_mark_the_best_step(trained: Path) -> None:
    run = Run.open(trained)
    curves = [picture for picture in learning_curves(run) if isinstance(picture, Lines)]
    assert [curve.title for curve in curves] == ["Loss", "Accuracy", "Learning rate", "Gradient norm"]
    ((step, label),) = curves[0].marks
    assert step == run.status["best"]["step"]
    assert number(run.status["best"]["loss"], 3) in label
    for split, name in (("train", "training"), ("val", "validation")):
        np.testing.assert_array_equal(curves[0].series[name], run.curve("loss", split))


def test_what_was_zero_all_the_time_is_left_out(copy: Callable[..., Run]) -> None:
    run = copy()
    lines = [
        json.dumps({"step": i, "split": "train", "loss": 1.0, "clip_rate": 0.0, "cuts": i - 1})
        for i in range(1, 4)
    ]
    (run.path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert [curve.name for curve in learning_curves(run)] == ["curve-loss", "curve-cuts"]


def test_long_curves_are_averaged_and_say_so(copy: Callable[..., Run]) -> None:
    run = copy()
    lines = [json.dumps({"step": i, "split": "train", "loss": float(i % 2)}) for i in range(1, 4001)]
    (run.path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (curve,) = learning_curves(run)
    assert isinstance(curve, Lines)
    steps, values = curve.series["training"]
    assert len(steps) == 1000
    assert steps[-1] == 4000
    np.testing.assert_allclose(values, 0.5)
    assert "mean of 4" in curve.caption


def test_a_user_of_the_library_gets_the_report_with_the_run(tmp_path: Path) -> None:
    import chainrule as cr

    source = hostile_data()
    run = cr.fit(everything(source.schema), source, run=tmp_path / "run", steps=2, batch=4)
    assert isinstance(run, train.Run)
    assert (tmp_path / "run" / "report.html").is_file()

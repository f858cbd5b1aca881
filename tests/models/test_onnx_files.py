"""ONNX files answer as the model does, for any number of examples; what cannot be written is refused."""

import json
import logging
import sys
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.models.onnx_files import _silent
from chainrule.models.protocol import Model


def toy(name: str) -> tuple[Model, data.Data]:
    entry = models.entry(name)
    source = data.load(entry.toy_data)
    return models.build(name, source, **entry.toy), source


@pytest.mark.slow  # the translation takes ten seconds to load
@pytest.mark.parametrize("name", ["mlp", "cnn", "resnet", "vgg", "convnext", "mobilenet", "vit", "reader"])
def test_a_file_answers_as_the_model_does_for_any_number_of_examples(name: str, tmp_path: Path) -> None:
    onnx, runtime = (pytest.importorskip(package) for package in ("onnx", "onnxruntime"))
    pytest.importorskip("jax2onnx")
    model, source = toy(name)
    file = models.export_onnx(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for count in (1, 7):
        x = np.asarray(source.train.batch(np.arange(count)).x)
        (found,) = session.run(None, {session.get_inputs()[0].name: x})
        np.testing.assert_allclose(found, model.predict(jnp.asarray(x)), atol=1e-5)  # type: ignore[attr-defined]
    (stored,) = onnx.load(file).metadata_props
    assert json.loads(stored.value) == list(source.schema.classes)


def test_what_packages_say_while_they_translate_is_not_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("onnx_ir.serde")
    with _silent(), warnings.catch_warnings(record=True) as caught:
        logger.warning("The value type for shape [1] is not known.")
    logger.warning("afterwards")
    assert [record.message for record in caplog.records] == ["afterwards"]
    assert not caught


def test_models_that_do_not_predict_and_other_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CapabilityError, match=r"AR does not predict.*\n.*layout=chainrule"):
        models.export_onnx(toy("ar")[0], tmp_path / "model.onnx")
    with pytest.raises(ArgumentError, match=r"must end in \.onnx"):
        models.export_onnx(toy("mlp")[0], tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_programs_that_need_the_number_of_examples_are_refused(tmp_path: Path) -> None:
    for package in ("onnx", "onnxruntime", "jax2onnx"):
        pytest.importorskip(package)
    x = np.arange(40, dtype=np.float32).reshape(20, 2)
    model = models.build("gp", data.from_arrays(x, x.sum(axis=1), kind="table"), points=5, scale=1.0)
    with pytest.raises(CapabilityError, match=r"how many examples come(.|\n)*layout=chainrule"):
        models.export_onnx(model, tmp_path / "model.onnx")


def test_without_the_extra_the_way_to_get_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax2onnx", None)  # as where it is not installed
    with pytest.raises(CapabilityError, match=r"pip install 'chainrule\[onnx\]'"):
        models.export_onnx(toy("mlp")[0], tmp_path / "model.onnx")

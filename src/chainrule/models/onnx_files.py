"""Predictions as an ONNX file, which other runtimes execute without Python or JAX.

The prediction is traced into JAX's own operations (`jax2onnx` knows none of ours) and translated for any number of
examples. The file is run by ONNX Runtime and compared with the model before it is written.
"""

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from chainrule.core.errors import ArgumentError, CapabilityError, DiskError
from chainrule.data import kinds, targets
from chainrule.data.schema import Schema
from chainrule.models.protocol import CanPredict, Model
from chainrule.nn.native.availability import without_native

TOLERANCE = 1e-5
"""How far answers of the file may be from the model's, as a share of the largest one, or of one."""
_EXAMPLES = 3


def export_onnx(model: Model, path: str | Path) -> Path:
    """Write what a model predicts as an ONNX file, checked with ONNX Runtime; the path of the file.

    What goes in is in model units (`data.train.x` of its data), for any number of examples; what comes out are
    probabilities or values as `predict` gives them. The names of the classes are in the file's metadata. Needs
    `pip install 'chainrule[onnx]'`.
    """
    file = Path(path)
    if file.suffix != ".onnx":
        raise ArgumentError(f"export(out={str(path)!r}): the name of an ONNX file must end in .onnx")
    if not isinstance(model, CanPredict):
        raise CapabilityError(
            f"{type(model).__name__} does not predict: an ONNX file holds the way from an input to a prediction",
            remedy="use layout=chainrule, which writes the weights",
        )
    translator, onnx, runtime = _packages()
    schema: Schema = model.schema  # type: ignore[attr-defined]  # every model that predicts has one
    made = _translated(model, schema, translator, runtime)
    onnx.helper.set_model_props(
        made, {"classes": json.dumps(targets.of(schema).output_names(schema), ensure_ascii=False)}
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        file.write_bytes(made.SerializeToString())
    except OSError as error:
        raise DiskError(f"{file} cannot be written ({error.strerror})", remedy="name another file") from None
    return file


def _translated(model: CanPredict, schema: Schema, translator: Any, runtime: Any) -> Any:
    """The program that answers as the model does."""
    (batch,) = jax.export.symbolic_shape("batch")
    dtype = jnp.int32 if kinds.of(schema).has_tokens else jnp.float32
    x = jax.ShapeDtypeStruct((batch, *schema.shape), dtype)

    def traced(x: Any) -> Any:
        return jaxpr_as_fun(closed)(x)[0]

    problem: Exception | None = None
    with without_native(), _silent():
        try:
            closed = jax.make_jaxpr(model.predict)(x)
        except (TypeError, jax.core.InconclusiveDimensionOperation) as error:
            raise CapabilityError(
                f"{type(model).__name__} cannot be written as ONNX: its program needs to know how many examples come",
                remedy="use layout=chainrule, which writes the weights",
            ) from error
        # The translator knows operations of `jax.lax` and functions of `jax.numpy`, and of some only one of the two.
        for function in (traced, model.predict):
            try:
                made = translator.to_onnx(lambda x: function(x), inputs=[x], model_name=type(model).__name__)  # noqa: B023
                difference = _difference(made, model, schema, dtype, runtime)
            except (
                Exception
            ) as error:  # what is raised for an operation without a translation is up to both packages
                problem = problem or error
                continue
            if difference <= TOLERANCE:
                return made
            problem = problem or ArithmeticError(f"its answers would differ by {difference:.2g}")
    raise CapabilityError(
        f"{type(model).__name__} cannot be written as ONNX: {str(problem).strip().splitlines()[0][:200]}",
        remedy="use layout=torch or layout=chainrule, which write the weights",
    ) from problem


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without what the packages say while they translate: the answers of the file are compared, which says more."""
    loggers = [logging.getLogger(name) for name in ("onnx_ir", "jax2onnx", "onnxruntime")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _difference(made: Any, model: CanPredict, schema: Schema, dtype: Any, runtime: Any) -> float:
    """How far the answers of the file are from the model's, on a few random inputs."""
    noise = np.random.default_rng(0)
    shape = (_EXAMPLES, *schema.shape)
    x = (
        noise.integers(0, len(schema.tokens), shape)
        if jnp.issubdtype(dtype, jnp.integer)
        else noise.random(shape)
    ).astype(dtype)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: x})[0]
    wanted = np.asarray(model.predict(jnp.asarray(x)))
    if found.shape != wanted.shape:
        return float("inf")
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1.0))


def _packages() -> tuple[Any, Any, Any]:
    try:
        import jax2onnx
        import onnx
        import onnxruntime
    except ImportError as error:
        raise CapabilityError(
            f"layout=onnx needs the package {error.name}", remedy="install it: pip install 'chainrule[onnx]'"
        ) from None
    return jax2onnx, onnx, onnxruntime


__all__ = ["TOLERANCE", "export_onnx"]

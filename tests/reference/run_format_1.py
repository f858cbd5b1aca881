"""Makes `run-format-1`: a run folder as the first release writes it, and what its model must predict for ever.

    python -m tests.reference.run_format_1

The folder stands for the runs people have on their disks: later versions of Chainrule must still read it. Once the
first version is released it is never made again.
"""

import json
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from tests.trust.toys import mlp, points, train

RUN = Path(__file__).with_name("run-format-1")
INPUTS = [[0.5, 0.5], [-0.5, 0.5], [2.0, -1.0], [0.0, 0.0]]


def make() -> None:
    """Train the toy perceptron with averaged weights and batch normalisation, and note what it predicts."""
    shutil.rmtree(RUN, ignore_errors=True)
    run = train(RUN, mlp(normalization="batch"), points(), ema=0.9, keep=1)
    (RUN / ".lock").unlink()
    for name, field in (("env.json", "platform"), ("status.json", "host")):
        values = json.loads((RUN / name).read_text())
        (RUN / name).write_text(json.dumps(values | {field: "anywhere"}, indent=1) + "\n")
    predicted = np.asarray(run.model.predict(jnp.array(INPUTS)))  # type: ignore[attr-defined]
    expected = {"step": run.step, "inputs": INPUTS, "predicted": predicted.tolist()}
    (RUN / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    make()

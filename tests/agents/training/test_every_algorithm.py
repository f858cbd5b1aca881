"""Every algorithm's toy: trained, gone on with, scored, reported and examined by every probe that applies."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.agents import AgentRun, algorithms, fit, resume
from chainrule.explain import agent_probes
from chainrule.report import agents as report


@pytest.mark.slow
@pytest.mark.parametrize("name", algorithms.names())
def test_every_toy_goes_through_every_verb(name: str, tmp_path: Path) -> None:
    entry = algorithms.entry(name)
    run = fit(
        name,
        entry.toy_env,
        algorithm_settings=dict(entry.toy),
        run=tmp_path / "toy",
        steps=entry.toy_steps,
        eval_episodes=2,
    )
    assert run.status["status"] == "done"
    more = run.status["total"] + run.learner.steps_per_iteration
    assert resume(run.path, steps=more).status["step"] == more
    opened = AgentRun.open(run.path)
    assert np.isfinite(opened.score(2)["return_mean"].value)
    page = report.write(opened).read_text()
    assert entry.name in page
    assert "There are no" not in page
    applied = agent_probes.applicable(opened)
    assert applied
    for probe in applied:
        found = agent_probes.examine(probe, opened, **agent_probes.get(probe).toy)
        assert found.findings

"""Every algorithm's toy: trained, gone on with, scored, reported and examined by every probe that applies."""

import re
from pathlib import Path

import numpy as np
import pytest

from chainrule.agents import AgentRun, algorithms, envs, fit, resume
from chainrule.agents.envs.spaces import Space
from chainrule.core.errors import ChainruleError
from chainrule.explain import agent_probes
from chainrule.report import agents as report
from tests.agents.worlds import OneStep

ONE_AGENT = [name for name in algorithms.names() if not algorithms.entry(name).of_games]


@pytest.mark.parametrize("name", ONE_AGENT)
@pytest.mark.parametrize(
    "actions",
    [envs.Discrete(3), envs.MultiDiscrete((2, 3)), envs.Box(-1, 1, (2,)), envs.Box(-np.inf, np.inf, (1,))],
    ids=["discrete", "several", "bounded", "unbounded"],
)
def test_an_algorithm_that_cannot_act_names_others_that_can(name: str, actions: Space) -> None:
    world = OneStep(False, actions)

    def built(name: str) -> None:
        entry = algorithms.entry(name)
        entry.build(algorithms.configure(name, **entry.toy), world, entry.toy_steps)

    try:
        built(name)
    except ChainruleError as error:
        others = re.findall(r"\w+", error.remedy.partition("use ")[2].partition(", which")[0])
        assert set(others) & set(ONE_AGENT)
        for other in set(others) & set(ONE_AGENT):
            built(other)


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
    assert all(words in page for words in entry.numbers.values())
    assert "There are no" not in page
    applied = agent_probes.applicable(opened)
    assert applied
    for probe in applied:
        found = agent_probes.examine(probe, opened, **agent_probes.get(probe).toy)
        assert found.findings

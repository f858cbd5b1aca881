"""Rules of tabular learning, step by step against numbers computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.tabular.rules import (
    DoubleQLearning,
    ExpectedSarsa,
    NStepSarsa,
    QLearning,
    Sarsa,
    StepSizes,
    TabularStep,
)
from chainrule.core.errors import ArgumentError

GAMMA, ALPHA = 0.5, 0.1
TABLE = np.array([[1.0, 2.0], [3.0, 5.0], [0.0, 0.0]], np.float32)


def step(state=0, action=0, reward=1.0, after=1, then=0, *, terminated=False, over=None) -> TabularStep:
    whole = [jnp.asarray(one, jnp.int32) for one in (state, action, after, then)]
    return TabularStep(
        whole[0],
        whole[1],
        jnp.asarray(reward),
        jnp.asarray(terminated),
        jnp.asarray(terminated if over is None else over),
        whole[2],
        whole[3],
        jnp.asarray([0.75, 0.25]),
    )


def learn(rule, steps, table=TABLE, power=0.0, tables=1):
    """The tables after some steps, visits counted as the loop does."""
    q = jnp.asarray(np.stack([table] * tables))
    memory, visits = rule.start(3, 2), np.zeros((3, 2), np.float32)
    for number, one in enumerate(steps):
        visits[int(one.state), int(one.action)] += 1
        sizes = StepSizes(ALPHA if power == 0 else 1.0, power, jnp.asarray(visits))
        q, memory, error = rule.learn(jax.random.key(number), q, memory, one, sizes, GAMMA)
    return np.asarray(q), memory, float(error)


@pytest.mark.parametrize(
    ("rule", "ahead"), [(QLearning(), 5.0), (Sarsa(), 3.0), (ExpectedSarsa(), 3.5), (NStepSarsa(1), 3.0)]
)
def test_a_step_moves_one_entry_towards_its_target(rule, ahead) -> None:
    (q,), _, error = learn(rule, [step()])
    assert error == pytest.approx(1 + GAMMA * ahead - 1)
    assert q[0, 0] == pytest.approx(1 + ALPHA * error)
    assert (np.delete(q.ravel(), 0) == np.delete(TABLE.ravel(), 0)).all()


@pytest.mark.parametrize(
    "rule", [QLearning(), Sarsa(), ExpectedSarsa(), NStepSarsa(1), NStepSarsa(3), QLearning(0.5)]
)
def test_nothing_follows_a_true_end_and_a_cut_one_is_valued_by_its_last_state(rule) -> None:
    (ended,), _, error = learn(rule, [step(reward=3.0, terminated=True)])
    assert error == pytest.approx(3 - 1)
    assert ended[0, 0] == pytest.approx(1 + ALPHA * 2)
    (cut,), memory, error = learn(rule, [step(reward=3.0, over=True)])
    assert error > 2 + GAMMA * 2.9
    assert cut[0, 0] > ended[0, 0]
    if isinstance(rule, NStepSarsa):
        assert int(memory.filled) == 0


def test_step_sizes_fall_with_visits() -> None:
    (q,), _, _ = learn(QLearning(), [step(terminated=True, reward=4.0)] * 2, power=0.6)
    # The first visit takes the target as it is; the second has nothing left to learn.
    assert q[0, 0] == 4
    mixed = [step(terminated=True, reward=4.0), step(terminated=True, reward=0.0)]
    (q,), _, _ = learn(QLearning(), mixed, power=0.6)
    assert q[0, 0] == pytest.approx(4 * (1 - 2**-0.6))


def test_one_table_chooses_and_the_other_values() -> None:
    both = jnp.asarray(np.stack([TABLE, [[0.0, 0.0], [7.0, 1.0], [0.0, 0.0]]]), jnp.float32)
    sizes = StepSizes(ALPHA, 0.0, jnp.ones((3, 2)))
    changed = set()
    for seed in range(8):
        q, _, error = DoubleQLearning().learn(jax.random.key(seed), both, (), step(), sizes, GAMMA)
        which = 0 if q[0, 0, 0] != both[0, 0, 0] else 1
        # Table 0 likes action 1, which table 1 values at 1; table 1 likes action 0, which table 0 values at 3.
        ahead, before = ((1.0, 1.0), (3.0, 0.0))[which]
        assert float(error) == pytest.approx(1 + GAMMA * ahead - before)
        assert (q != both).sum() == 1
        changed.add(which)
    assert changed == {0, 1}


def test_a_trace_brings_an_error_to_what_led_up_to_it() -> None:
    trace = 0.8
    steps = [step(0, 0, 0.0, 1, 1), step(1, 1, 2.0, 2, 0, terminated=True)]
    (q,), memory, _ = learn(Sarsa(trace), steps)
    first = 0 + GAMMA * 5 - 1
    second = 2 - 5
    assert q[0, 0] == pytest.approx(1 + ALPHA * first + ALPHA * second * GAMMA * trace)
    assert q[1, 1] == pytest.approx(5 + ALPHA * second)
    assert not np.asarray(memory).any()


def test_q_learning_cuts_its_trace_where_it_explores() -> None:
    greedy, other = (learn(QLearning(0.8), [step(0, 0, 0.0, 1, then)])[1] for then in (1, 0))
    assert np.asarray(greedy)[0, 0] == pytest.approx(0.8 * GAMMA)
    assert not np.asarray(other).any()


def test_a_trace_of_zero_is_no_trace() -> None:
    steps = [step(0, 0, 0.3, 1, 1), step(1, 1, 2.0, 0, 1), step(0, 1, -1.0, 2, 0, terminated=True)]
    for rule in (QLearning, Sarsa, ExpectedSarsa):
        np.testing.assert_allclose(learn(rule(0.0), steps)[0], learn(rule(), steps)[0], rtol=1e-6)


def test_several_steps_are_added_up_and_the_end_settles_the_rest() -> None:
    steps = [step(0, 0, 1.0, 1, 1), step(1, 1, 2.0, 0, 1), step(0, 1, 4.0, 2, 0, terminated=True)]
    (early,), memory, _ = learn(NStepSarsa(2), steps[:1])
    assert (early == TABLE).all()
    assert int(memory.filled) == 1
    (middle,), _, _ = learn(NStepSarsa(2), steps[:2])
    target = 1 + GAMMA * 2 + GAMMA**2 * TABLE[0, 1]
    assert middle[0, 0] == pytest.approx(1 + ALPHA * (target - 1))
    assert (np.delete(middle.ravel(), 0) == np.delete(TABLE.ravel(), 0)).all()
    (late,), memory, _ = learn(NStepSarsa(2), steps)
    assert late[1, 1] == pytest.approx(5 + ALPHA * (2 + GAMMA * 4 - 5))
    assert late[0, 1] == pytest.approx(2 + ALPHA * (4 - 2))
    assert int(memory.filled) == 0


def test_a_number_of_steps_that_is_none_is_refused() -> None:
    with pytest.raises(ArgumentError, match="between 1 and 100"):
        NStepSarsa(0)

"""Derivatives of solutions: products through one factorisation, equilibria and unrolling, banded roots by size.

Products are a hundred forward and a hundred reverse ones through a root that is already known: SciPy gets the Jacobian
in closed form and does `lu_factor` and two hundred `lu_solve`, ours forms it from F by products, checks the implicit
function theorem, and then solves for all directions of a mode at once, as `jacobian` does ("scipy-batched" does that,
too). The dense problem shows what forming costs where a product is as dear as a matrix times a vector.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import Case, Contestant, Growth, Local, Options, Prepared, Report, measure, ratio
from benchmarks.peer import Peer
from benchmarks.workers import implicit_problems as problems
from benchmarks.workers.protocol import steady
from chainrule.derive import implicit

PEERS = ("scipy", "scipy-batched", "optimistix", "jaxopt")
PRODUCTS = ("scipy", "scipy-batched", "optimistix")
EQUILIBRIUM = ("optimistix", "jaxopt")
"""jaxopt has no forward mode, so it takes no part in the products."""
SIZES = (1_000, 4_000, 20_000, 100_000)
UNROLLED = (50, 100, 200, 400)
"""Iterations; the last is the contestant."""


def run(options: Options) -> Report:
    """Measure everything."""
    jax.config.update("jax_enable_x64", True)
    peers = options.chosen(PEERS)
    cases: list[Case] = []
    versions: dict[str, str] = {}

    def case(label: str, contestants: list[Contestant]) -> None:
        made, found = measure(label, contestants, rounds=options.rounds, tolerance=1e-6, watch=options.watch)
        cases.append(made)
        versions.update(found)

    for problem in problems.ROOTS:
        label = f"{problems.DIRECTIONS} + {problems.DIRECTIONS} products, {problem}, n = {problems.SIZE:,}"
        theirs: list[Contestant] = [
            Peer(peer, "implicit_peers", {"peer": peer, "task": "products", "problem": problem})
            for peer in PRODUCTS
            if peer in peers
        ]
        case(label, [_local("chainrule", products(problem)), *theirs])
    theirs = [
        Peer(peer, "implicit_peers", {"peer": peer, "task": "equilibrium"})
        for peer in EQUILIBRIUM
        if peer in peers
    ]
    last = _local(f"unrolled {UNROLLED[-1]}", unrolled(UNROLLED[-1]))
    case(
        f"gradient of an equilibrium, n = {problems.LAYER}",
        [_local("chainrule", equilibrium()), last, *theirs],
    )
    growth = banded(options.rounds)
    notes = [*targets(cases), *unrolling(), nestings()]
    return Report(tuple(cases), growth, tuple(notes), versions)


@final
class Work:
    """A compiled function at fixed arguments."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._function = jax.jit(function)
        self._arguments = arguments

    def __call__(self) -> Any:
        return jax.block_until_ready(self._function(*self._arguments))

    def scratch(self) -> float:
        """Bytes of temporary memory."""
        found: Any = self._function.lower(*self._arguments).compile().memory_analysis()
        return float(found.temp_size_in_bytes)

    def factorisations(self) -> int:
        """As counted in the program."""
        return implicit.count(self._function, *self._arguments).factorisations

    def seconds(self) -> float:
        """For one call, over a turn."""
        return steady(lambda count: [self() for _ in range(count)], 1)


def products(problem: str) -> Work:
    """All products through one root, compiled."""
    data, f, _ = problems.ROOTS[problem]
    given = [jnp.asarray(array) for array in data().values()]
    w, v = jnp.asarray(problems.solution(problem)), jnp.asarray(problems.directions())
    solve = implicit.root(lambda w, *params: f(jnp, w, *params), solver=lambda _f, w0, *_params: w0)

    def everything(*given: Any) -> Any:
        *others, q = given
        _, push = jax.linearize(lambda q: solve(w, *others, q), q)
        pull = jax.linear_transpose(push, q)
        return jax.vmap(push)(v), jax.vmap(lambda u: pull(u)[0])(v)

    return Work(everything, *given)


def equilibrium() -> Work:
    """The gradient through an equilibrium, by Anderson's acceleration and one dense solve."""
    solve = implicit.fixed_point(lambda x, W, q: problems.layer(jnp, x, W, q))
    return _gradient(lambda q, W: solve(jnp.zeros(problems.LAYER), W, q))


def unrolled(steps: int) -> Work:
    """The gradient through as many plain iterations."""

    def iterate(q: Any, W: Any) -> Any:
        step = lambda x, _: (problems.layer(jnp, x, W, q), None)  # noqa: E731
        return jax.lax.scan(step, jnp.zeros(problems.LAYER), length=steps)[0]

    return _gradient(iterate)


def _gradient(solve: Callable[[Any, Any], Any]) -> Work:
    W, q = (jnp.asarray(array) for array in problems.layer_data())
    return Work(jax.grad(lambda q, W: jnp.sum(solve(q, W) ** 2)), q, W)


def _local(name: str, work: Work) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        found = work()
        taken = time.perf_counter() - began
        arrays = found if isinstance(found, tuple) else (found,)
        return Prepared(problems.summary(*(np.asarray(array) for array in arrays)), taken)

    return Local(name, prepare, work.seconds)


def _energy(n: int) -> Callable[[Any], Any]:
    solve = implicit.root(lambda w, q: problems.chain(jnp, w, q), linear="banded")
    return lambda q: jnp.sum(solve(jnp.zeros(n), q) ** 2)


def _slope_and_product(n: int) -> Callable[[Any, Any], Any]:
    gradient = jax.grad(_energy(n))
    return lambda q, v: jax.jvp(gradient, (q,), (v,))


def banded(rounds: int) -> tuple[Growth, ...]:
    """Gradient and Hessian product of a banded root: seconds and scratch memory by size."""
    seconds, scratch = [], []
    for n in SIZES:
        work = Work(_slope_and_product(n), jnp.linspace(0.0, 1.0, n), jnp.ones(n))
        work()
        seconds.append(float(np.median([work.seconds() for _ in range(rounds)])))
        scratch.append(work.scratch())
    sizes = tuple(float(n) for n in SIZES)
    what = "of root, gradient and Hessian product, banded"
    return (
        Growth(f"seconds {what}", "unknowns", sizes, tuple(seconds), sizes),
        Growth(f"scratch bytes {what}", "unknowns", sizes, tuple(scratch), sizes),
    )


def targets(cases: Sequence[Case]) -> list[str]:
    """The target for products beside what was measured."""
    lines = []
    for problem, case in zip(problems.ROOTS, cases, strict=False):
        count = products(problem).factorisations()
        verdict = "met" if count == 1 else "MISSED"
        lines.append(f"{case.label}: factorisations {count}, target 1: {verdict}")
        for theirs in case.times[1:]:
            share = ratio(case.ours, theirs).median
            aim = (
                ""
                if theirs.name != "scipy"
                else f", target at most 1.3: {'met' if share <= 1.3 else 'MISSED'}"
            )
            lines.append(f"{case.label}: time over {theirs.name} {share:.3g}{aim}")
            if theirs.name == "scipy-batched":
                formed = forming(problem).seconds()
                rest = case.ours.summary.median / (theirs.summary.median + formed)
                verdict = "met" if rest <= 1 else "MISSED"
                lines.append(
                    f"{case.label}: time over {theirs.name} and forming A by products ({formed * 1e3:.3g} ms) "
                    f"{rest:.3g}, target at most 1: {verdict}"
                )
    return lines


def forming(problem: str) -> Work:
    """The Jacobian as a matrix, as `jax.jacfwd` makes it: what SciPy is given for nothing."""
    data, f, _ = problems.ROOTS[problem]
    given = [jnp.asarray(array) for array in data().values()]
    w = jnp.asarray(problems.solution(problem))
    return Work(lambda w, *given: jax.jacfwd(lambda w: f(jnp, w, *given))(w), w, *given)


def unrolling() -> list[str]:
    """Error, time and memory of unrolling as its iterations grow, over those of the implicit gradient."""
    exact = equilibrium()
    reference, once = np.asarray(exact()), exact.seconds()
    lines = [f"implicit gradient of the equilibrium: scratch {exact.scratch():,.0f} bytes"]
    for steps in UNROLLED:
        rival = unrolled(steps)
        error = np.linalg.norm(np.asarray(rival()) - reference) / np.linalg.norm(reference)
        lines.append(
            f"unrolled {steps}: relative error {error:.1e}, time over implicit {rival.seconds() / once:.2g}, "
            f"scratch over implicit {rival.scratch() / exact.scratch():.2g}"
        )
    return lines


def nestings() -> str:
    """Whether the four nestings of modes agree on a second derivative of the largest banded root."""
    n = SIZES[-1]
    f, q, v = _energy(n), jnp.linspace(0.0, 1.0, n), jnp.cos(jnp.arange(n))
    forward = lambda g, q: jax.jvp(g, (q,), (v,))[1]  # noqa: E731
    ways = {
        "forward over forward": lambda q: forward(lambda q: forward(f, q), q),
        "forward over reverse": lambda q: v @ forward(jax.grad(f), q),
        "reverse over forward": lambda q: v @ jax.grad(lambda q: forward(f, q))(q),
        "reverse over reverse": lambda q: v @ jax.grad(lambda q: v @ jax.grad(f)(q))(q),
    }
    found = [float(jax.jit(way)(q)) for way in ways.values()]
    spread = (max(found) - min(found)) / abs(found[0])
    return f"banded root, n = {n:,}: four nestings of modes agree to {spread:.1e}"

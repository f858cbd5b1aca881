"""Programs as data: the JAX program of a function, its equations, what they cost and where they were written.

Graphs, tapes, derivative programs and memory timelines all read programs through these few modules, which use only
`jax.core`, `jax.extend.core` and the transformations, so that a new JAX changes nothing here.
"""

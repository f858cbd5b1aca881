"""Jaxprs as data: the JAX program of a function, its equations, their costs and source lines.

Graphs, tapes, derivative programs and memory timelines all read programs through these few modules, which use only
`jax.core`, `jax.extend.core` and the transformations, so that a new JAX changes nothing here.
"""

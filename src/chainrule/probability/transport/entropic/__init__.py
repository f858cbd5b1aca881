"""Entropic transport from the inside: what is iterated, on which costs, and how solutions are differentiated."""

"""Decoding of whatever comes in tokens: rules for the next one, whole rows in one compiled loop, beams.

An engine that knows a model only by its `advance`; models of texts and of music use it alike.
"""

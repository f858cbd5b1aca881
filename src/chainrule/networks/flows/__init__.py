"""Layers of normalizing flows: invertible maps whose change of volume is known."""

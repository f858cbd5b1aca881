"""Denoisers: networks, what may stand around them, and exact ones."""

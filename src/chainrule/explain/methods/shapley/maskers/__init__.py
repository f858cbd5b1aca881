"""Maskers: what an input looks like to a function when some of its features are absent; one file each."""

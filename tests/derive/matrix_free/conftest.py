"""Derivatives are compared in double precision; tests that are about single precision say so themselves."""

from tests.derive.precision import double_precision, quick_compilation

__all__ = ["double_precision", "quick_compilation"]

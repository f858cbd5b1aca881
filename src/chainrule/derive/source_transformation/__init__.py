"""Derivatives as programs: to print, count, simplify, compile, export and differentiate again."""

from chainrule.derive.source_transformation.program import Count, Program, program

__all__ = ["Count", "Program", "program"]

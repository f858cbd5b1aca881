"""Derivatives by source transformation: programs to print, count, simplify, compile, export and differentiate again."""

from chainrule.derive.source_transformation.program import OperationCount, Program, program

__all__ = ["OperationCount", "Program", "program"]

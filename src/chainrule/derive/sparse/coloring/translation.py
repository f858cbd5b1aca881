"""Translation of loops over integer arrays to LLVM text.

Colouring needs loops that no array operation expresses, and a general compiler of Python takes longer to start than
most graphs take to colour in plain Python. These loops use very little of the language: whole numbers, arrays of them,
`for` over a range or an array, `while`, `if`, assignments, comparisons, arithmetic, `len`, `max` and `min`. That much
is translated here, statement by statement; LLVM does the rest. Numbers have 64 bits, and indices are not negative.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

_ARITHMETIC: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "ashr",
}
_COMPARISONS: dict[type, str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "slt",
    ast.LtE: "sle",
    ast.Gt: "sgt",
    ast.GtE: "sge",
}


def translated(function: Callable[..., int], kinds: Sequence[str | None]) -> str:
    """The text of `run`, which does what a function does; `kinds` are "i32" or "i64" for arrays, `None` for numbers.

    An array is passed as its address and its length.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    constants = {name: value for name, value in function.__globals__.items() if isinstance(value, int)}
    names = [argument.arg for argument in tree.args.args]
    return _Text(dict(zip(names, kinds, strict=True)), constants).program(tree.body)


@final
class _Text:
    """The lines of one program, block after block."""

    def __init__(self, kinds: dict[str, str | None], constants: dict[str, int]) -> None:
        self._kinds = kinds
        self._constants = constants
        self._lines: list[str] = []
        self._slots: dict[str, None] = {}
        """Variables, in memory until LLVM puts them in registers."""
        self._count = 0
        self._loops: list[tuple[str, str]] = []
        """Where `continue` and `break` lead."""

    def program(self, body: Sequence[ast.stmt]) -> str:
        parameters = [
            f"i64 %given.{name}" if kind is None else f"ptr %{name}, i64 %len.{name}"
            for name, kind in self._kinds.items()
        ]
        numbers = [name for name, kind in self._kinds.items() if kind is None]
        for name in numbers:
            self._write(f"store i64 %given.{name}, ptr {self._slot(name)}")
        self._statements(body)
        self._write("ret i64 0")
        slots = [f"  {slot} = alloca i64" for slot in self._slots]
        zeros = [f"  store i64 0, ptr {slot}" for slot in self._slots]
        return "\n".join(
            [f"define i64 @run({', '.join(parameters)}) {{", *slots, *zeros, *self._lines, "}", ""]
        )

    def _write(self, line: str) -> None:
        self._lines.append(f"  {line}")

    def _named(self, line: str) -> str:
        """The result of an instruction."""
        self._count += 1
        self._write(f"%t.{self._count} = {line}")
        return f"%t.{self._count}"

    def _slot(self, name: str) -> str:
        slot = f"%var.{name}"
        self._slots[slot] = None
        return slot

    def _labels(self, number: int) -> list[str]:
        self._count += 1
        return [f"block.{self._count}.{one}" for one in range(number)]

    def _begin(self, label: str) -> None:
        """A new block, which the one before runs into unless it has led elsewhere."""
        self._write(f"br label %{label}")
        self._lines.append(f"{label}:")

    def _leave(self, line: str) -> None:
        """Lead elsewhere; what follows in the same block is never reached."""
        self._write(line)
        self._lines.append(f"{self._labels(1)[0]}:")

    # Statements

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, [self._value(one) for one in values], strict=True):
                    self._assign(target, value)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self._value(value))
            case ast.AugAssign(target=ast.Name() | ast.Subscript() as target, op=op, value=value):
                self._assign(target, self._operation(op, self._value(target), self._value(value)))
            case ast.If(test=test, body=body, orelse=orelse):
                yes, no, end = self._labels(3)
                self._branch(test, yes, no)
                self._block(yes, body, end)
                self._block(no, orelse, end)
                self._lines.append(f"{end}:")
            case ast.While(test=test, body=body):
                again, inside, end = self._labels(3)
                self._begin(again)
                self._branch(test, inside, end)
                with self._loop(again, end):
                    self._block(inside, body, again)
                self._lines.append(f"{end}:")
            case ast.For(target=ast.Name(id=name), iter=over, body=body):
                self._for(name, over, body)
            case ast.Break():
                self._leave(f"br label %{self._loops[-1][1]}")
            case ast.Continue():
                self._leave(f"br label %{self._loops[-1][0]}")
            case ast.Return(value=ast.expr() as value):
                self._leave(f"ret i64 {self._value(value)}")
            case ast.Expr(value=ast.Constant(value=str())):
                pass  # a docstring
            case _:
                raise _unknown(node)

    def _block(self, label: str, body: Sequence[ast.stmt], after: str) -> None:
        self._lines.append(f"{label}:")
        self._statements(body)
        self._write(f"br label %{after}")

    @contextmanager
    def _loop(self, again: str, end: str) -> Iterator[None]:
        self._loops.append((again, end))
        yield
        self._loops.pop()

    def _for(self, name: str, over: ast.expr, body: Sequence[ast.stmt]) -> None:
        """Over a range of one or two ends, or over the elements of an array."""
        match over:
            case ast.Call(func=ast.Name(id="range"), args=[stop]):
                first, last, array = "0", self._value(stop), None
            case ast.Call(func=ast.Name(id="range"), args=[start, stop]):
                first, last, array = self._value(start), self._value(stop), None
            case ast.Name(id=array):
                first, last = "0", f"%len.{array}"
            case _:
                raise _unknown(over)
        again, inside, further, end = self._labels(4)
        counter = self._slot(f".{again}")
        self._write(f"store i64 {first}, ptr {counter}")
        self._begin(again)
        at = self._named(f"load i64, ptr {counter}")
        self._write(f"br i1 {self._named(f'icmp slt i64 {at}, {last}')}, label %{inside}, label %{end}")
        self._lines.append(f"{inside}:")
        now = at if array is None else self._element(array, at)
        self._write(f"store i64 {now}, ptr {self._slot(name)}")
        with self._loop(further, end):
            self._statements(body)
        self._begin(further)
        self._write(f"store i64 {self._named(f'add i64 {at}, 1')}, ptr {counter}")
        self._write(f"br label %{again}")
        self._lines.append(f"{end}:")

    def _assign(self, left: ast.expr, value: str) -> None:
        match left:
            case ast.Name(id=name):
                self._write(f"store i64 {value}, ptr {self._slot(name)}")
            case ast.Subscript(value=ast.Name(id=array), slice=index):
                address, kind = self._address(array, self._value(index)), self._kinds[array]
                narrow = value if kind == "i64" else self._named(f"trunc i64 {value} to {kind}")
                self._write(f"store {kind} {narrow}, ptr {address}")
            case _:
                raise _unknown(left)

    # Expressions

    def _value(self, node: ast.expr) -> str:
        """A number: a literal, or the name of a result."""
        match node:
            case ast.Constant(value=int(value)):
                return str(int(value))
            case ast.Name(id=name) if self._is_constant(name):
                return str(int(self._constants[name]))
            case ast.Name(id=name):
                return self._named(f"load i64, ptr {self._slot(name)}")
            case ast.Subscript(value=ast.Name(id=array), slice=index):
                return self._element(array, self._value(index))
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(op, self._value(left), self._value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._named(f"sub i64 0, {self._value(operand)}")
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=array)]):
                return f"%len.{array}"
            case ast.Call(func=ast.Name(id="max" | "min" as which), args=[left, right]):
                a, b = self._value(left), self._value(right)
                first = self._named(f"icmp {'sgt' if which == 'max' else 'slt'} i64 {a}, {b}")
                return self._named(f"select i1 {first}, i64 {a}, i64 {b}")
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._choice(test, body, orelse)
            case _:
                raise _unknown(node)

    def _is_constant(self, name: str) -> bool:
        """Of the module: a name that the function itself does not give a value to."""
        return name in self._constants and name not in self._kinds and f"%var.{name}" not in self._slots

    def _element(self, array: str, index: str) -> str:
        kind = self._kinds[array]
        found = self._named(f"load {kind}, ptr {self._address(array, index)}")
        return found if kind == "i64" else self._named(f"sext {kind} {found} to i64")

    def _address(self, array: str, index: str) -> str:
        return self._named(f"getelementptr inbounds {self._kinds[array]}, ptr %{array}, i64 {index}")

    def _operation(self, op: ast.operator, a: str, b: str) -> str:
        if type(op) in _ARITHMETIC:
            return self._named(f"{_ARITHMETIC[type(op)]} i64 {a}, {b}")
        if not isinstance(op, ast.FloorDiv | ast.Mod):
            raise _unknown(op)
        # Python rounds down, the processor towards zero: they differ where the rest has the divisor's other sign.
        rest = self._named(f"srem i64 {a}, {b}")
        signs = self._named(f"xor i64 {rest}, {b}")
        opposite = self._named(f"icmp slt i64 {signs}, 0")
        some = self._named(f"icmp ne i64 {rest}, 0")
        down = self._named(f"and i1 {some}, {opposite}")
        if isinstance(op, ast.Mod):
            return self._named(f"select i1 {down}, i64 {self._named(f'add i64 {rest}, {b}')}, i64 {rest}")
        quotient = self._named(f"sdiv i64 {a}, {b}")
        return self._named(f"select i1 {down}, i64 {self._named(f'sub i64 {quotient}, 1')}, i64 {quotient}")

    def _choice(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> str:
        yes, no, end = self._labels(3)
        slot = self._slot(f".{end}")
        self._branch(test, yes, no)
        for label, value in ((yes, body), (no, orelse)):
            self._lines.append(f"{label}:")
            self._write(f"store i64 {self._value(value)}, ptr {slot}")
            self._write(f"br label %{end}")
        self._lines.append(f"{end}:")
        return self._named(f"load i64, ptr {slot}")

    def _branch(self, test: ast.expr, yes: str, no: str) -> None:
        """Lead to one of two blocks; what decides nothing any more is not evaluated."""
        match test:
            case ast.BoolOp(op=op, values=[*others, last]):
                for other in others:
                    (following,) = self._labels(1)
                    both = isinstance(op, ast.And)
                    self._branch(other, following if both else yes, no if both else following)
                    self._lines.append(f"{following}:")
                self._branch(last, yes, no)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._branch(operand, no, yes)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                a, b = self._value(left), self._value(right)
                holds = self._named(f"icmp {_COMPARISONS[type(op)]} i64 {a}, {b}")
                self._write(f"br i1 {holds}, label %{yes}, label %{no}")
            case _:
                holds = self._named(f"icmp ne i64 {self._value(test)}, 0")
                self._write(f"br i1 {holds}, label %{yes}, label %{no}")


def _unknown(node: Any) -> TypeError:
    what = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else type(node).__name__
    return TypeError(f"a compiled loop cannot hold {what}")


__all__ = ["translated"]

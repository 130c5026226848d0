"""Kernels of random expressions, each of them safe: no overflow of a Python int, no
division by zero, no conversion out of range. A seeded generator makes them.
"""

import linecache
import math
import random
import types

import numpy as np
from numpy import (
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

from weft import cuda
from weft.pykernel.sim.numbers import math_function

THREADS = 32
_rng = np.random.default_rng(5)


def _whole(dtype, low, high):
    return _rng.integers(low, high, THREADS, dtype=dtype, endpoint=True)


INPUTS = {
    "x": _rng.standard_normal(THREADS).astype(float32),
    "y": (_rng.standard_normal(THREADS) * 100).astype(float32),
    "d": _rng.standard_normal(THREADS),
    "p": _whole(int32, -(2**31), 2**31 - 1),
    "q": _whole(int32, -20, 20),
    "u": _whole(uint32, 0, 2**32 - 1),
    "l": _whole(int64, -(2**62), 2**62),
    "z": _whole(uint64, 0, 2**64 - 1),
    "s": _whole(int16, -300, 300),
    "t": _whole(uint16, 0, 2**16 - 1),
    "c": _whole(int8, -128, 127),
    "b": _whole(uint8, 0, 255),
}
NUMBERS = {"n": 37, "m": -5, "alpha": 0.7, "half": 0.5, "f": float32(1.7)}
OUTPUTS = {
    "out_f": np.float32,
    "out_d": np.float64,
    "out_i": np.int32,
    "out_l": np.int64,
    "out_u": np.uint32,
    "out_b": np.uint8,
}
_FUNCTIONS = {
    "float32": float32,
    "float64": float64,
    "int32": int32,
    "int64": int64,
    "uint32": uint32,
    "int16": int16,
    "uint8": uint8,
}
_MATH = types.SimpleNamespace(
    **{name: math_function(name) for name in ("sqrt", "fabs", "floor", "ceil", "trunc")}
)
LIMIT = 2**31 - 1


class Refused(Exception):
    """An expression that is unsafe, or not the same everywhere."""


class Maker:
    """A generator of expressions as text, with their values for every thread."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lanes = [
            {**{name: array[i] for name, array in INPUTS.items()}, "i": i, **NUMBERS}
            for i in range(THREADS)
        ]

    def expression(self, depth):
        """Return (text, values): the text, in brackets if necessary."""
        for _ in range(200):
            try:
                return self._expression(depth)
            except Refused:
                continue
        return self._leaf()

    def _expression(self, depth):
        if depth == 0 or self.random.random() < 0.1:
            return self._leaf()
        kind = self.random.choice(
            [
                *("+", "-", "*", "+", "-", "*", "/", "//", "%", "&", "|", "^", "<<"),
                *(">>", "min", "max", "abs", "if", "-x", "~x", "**", "cast", "cast"),
                *("math", "compare", "logic", "int", "float"),
            ]
        )
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        if kind in ("<<", ">>"):
            return self._made(f"({{}} {kind} ({{}} & 7))", a, b)
        if kind in ("//", "%", "/"):
            if kind == "/" or self._floats(b):
                return self._made(f"({{}} {kind} (abs({{}}) + 1))", a, b)
            return self._made(f"({{}} {kind} (({{}} & 7) + 1))", a, b)
        if kind in "+-*&|^":
            return self._made(f"({{}} {kind} {{}})", a, b)
        if kind in ("min", "max"):
            return self._made(kind + "({}, {})", a, b)
        if kind == "abs":
            return self._made("abs({})", a)
        if kind == "if":
            c = self._comparison(depth - 1)
            return self._made("({} if {} else {})", a, c, b)
        if kind == "-x":
            return self._made("(-{})", a)
        if kind == "~x":
            return self._made("(~{})", a)
        if kind == "**":
            if self._floats(a):
                raise Refused
            return self._made(f"({{}} ** {self.random.randint(0, 4)})", a)
        if kind == "cast":
            name = self.random.choice(list(_FUNCTIONS))
            return self._made(name + "({})", a)
        if kind == "math":
            name = self.random.choice(["sqrt", "fabs", "floor", "ceil", "trunc"])
            return self._made(
                f"math.{name}(" + ("abs({})" if name == "sqrt" else "{}") + ")", a
            )
        if kind == "int":
            return self._made("int({})", a)
        if kind == "float":
            return self._made("float({})", a)
        return self._made("({} if {} else {})", a, self._comparison(depth - 1), b)

    def _comparison(self, depth):
        a, b = self.expression(depth), self.expression(depth)
        sign = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        comparison = self._made(f"({{}} {sign} {{}})", a, b, boolean=True)
        if self.random.random() < 0.3:
            other = self._comparison(max(depth - 1, 0))
            word = self.random.choice(["and", "or"])
            return self._made(f"({{}} {word} {{}})", comparison, other, boolean=True)
        if self.random.random() < 0.2:
            return self._made("(not {})", comparison, boolean=True)
        return comparison

    def _leaf(self):
        choice = self.random.random()
        if choice < 0.55:
            name = self.random.choice(list(INPUTS))
            return f"{name}[i]", [lane[name] for lane in self.lanes]
        if choice < 0.75:
            name = self.random.choice(["i", *NUMBERS])
            return name, [lane[name] for lane in self.lanes]
        value = self.random.choice(
            [
                *(0, 1, 2, 3, 7, 100, -1, 0.5, 0.1, 2.5, 1e-3, 3.0, 1e10),
                *("float32(0.3)", "int32(3)", "float64(0.1)", "uint32(5)"),
                "float32(2)",
            ]
        )
        text = f"({value})" if not isinstance(value, str) and value < 0 else str(value)
        number = eval(text, dict(_FUNCTIONS))
        return text, [number] * THREADS

    def _floats(self, expression):
        return any(isinstance(v, (float, np.floating)) for v in expression[1])

    def _made(self, form, *parts, boolean=False):
        text = form.format(*[part[0] for part in parts])
        names = [f"v{j}" for j in range(len(parts))]
        code = compile(form.format(*names), "", "eval")
        values = []
        with np.errstate(all="ignore"):
            for lane in zip(*[part[1] for part in parts]):
                scope = {**_FUNCTIONS, "math": _MATH, **dict(zip(names, lane))}
                self._safe(form, lane)
                self._agree(form, lane)
                try:
                    value = eval(code, scope)
                except (ArithmeticError, ValueError, TypeError):
                    raise Refused from None
                values.append(self._checked(value, boolean))
        if len({type(value) for value in values}) != 1:
            raise Refused  # C requires one type
        return text, values

    def _agree(self, form, lane):
        """Reject a choice between types, and int64 with uint64."""
        kinds = [type(v) for v in lane]
        if form.startswith(("min", "max")) and kinds[0] is not kinds[1]:
            raise Refused
        if form == "({} if {} else {})" and kinds[0] is not kinds[2]:
            raise Refused
        signed = any(issubclass(kind, np.signedinteger) for kind in kinds)
        if np.uint64 in kinds and (signed or int in kinds):
            raise Refused

    def _checked(self, value, boolean):
        if isinstance(value, (bool, np.bool_)):
            if not boolean:
                raise Refused
            return value
        if type(value) is int and not -LIMIT <= value <= LIMIT:
            raise Refused
        if isinstance(value, (float, np.floating)) and not math.isfinite(value):
            raise Refused
        return value

    def _safe(self, form, lane):
        """Reject conversions that are out of range."""
        first = lane[0]
        if not isinstance(first, (float, np.floating)):
            if form.startswith(("int32(", "int64(", "uint32(", "int16(", "uint8(")):
                name = form[: form.index("(")]
                info = np.iinfo(name)
                if not info.min <= int(first) <= info.max and type(first) is int:
                    raise Refused
            return
        if form.startswith(("int", "uint", "math.floor", "math.ceil", "math.trunc")):
            name = form[: form.index("(")]
            info = np.iinfo(name if name in _FUNCTIONS else "int32")
            if not info.min < float(first) < info.max:
                raise Refused


def kernels(count, seed=1, stores=4, depth=3):
    """Return `count` kernels in one invented file, so that each has a source."""
    maker = Maker(seed)
    parameters = ", ".join([*OUTPUTS, *INPUTS, *NUMBERS])
    lines = []
    for number in range(count):
        lines += [f"def random{number}({parameters}):", "    i = cuda.threadIdx.x"]
        for j in range(stores):
            text, values = maker.expression(depth)
            out = _output(values)
            at = f"i + {j * THREADS}"
            if maker.random.random() < 0.5:
                lines += [f"    v{j} = {text}", f"    {out}[{at}] = v{j}"]
            else:
                lines.append(f"    {out}[{at}] = {text}")
    text = "\n".join(lines) + "\n"
    name = f"<random kernels {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {**_FUNCTIONS, "math": math, "cuda": cuda, "__name__": "random_kernels"}
    exec(compile(text, name, "exec"), scope)
    return [scope[f"random{number}"] for number in range(count)]


def _output(values):
    """Return an array type that can hold these values."""
    value = values[0]
    if isinstance(value, np.float32):
        return "out_f"
    if isinstance(value, (float, np.floating)):
        return "out_d"
    if isinstance(value, np.uint32):
        return "out_u"
    if isinstance(value, np.uint8):
        return "out_b"
    if isinstance(value, (np.int64, np.uint64)):
        return "out_l" if isinstance(value, np.int64) else "out_d"
    return "out_i" if not isinstance(value, np.uint64) else "out_l"


def arguments(stores=4):
    """Return new outputs, the inputs and the numbers."""
    size = stores * THREADS
    return [
        *(np.zeros(size, dtype) for dtype in OUTPUTS.values()),
        *(array.copy() for array in INPUTS.values()),
        *NUMBERS.values(),
    ]

"""Python kernels from a grammar: valid ones, and ones that no GPU can run."""

import itertools
import linecache
import math

import numpy as np

from weft import cuda

_number = itertools.count()
ARRAYS = ["x", "y", "x", "y", "grid2", "whole"]
NAMES = ["i", "i", "n", "k", "alpha", "LIMIT"]
ODD_NAMES = ["unknown", "TABLE", "cuda", "helper", "shared", "own", "made", "np"]
VALUES = ["0", "1", "-1", "2", "0.5", "3.7", "7", "1.0"]
ODD_VALUES = [
    *("...", "1j", "()", "(1, 2)", "[1, 2]", "{1: 2}", "b'x'", "f'{i}'", "lambda: 1"),
    *("[j for j in range(3)]", "(k := 3)", "x", "grid2[0]", "cuda", "int", "np.pi"),
    *("1e39", "2 ** 40", "True", "None", "'ab'", "10 ** 400"),
]
PATHS = [
    *("cuda.threadIdx.x", "cuda.blockIdx.y", "cuda.blockDim.x", "cuda.gridDim.z"),
    *("cuda.laneid", "cuda.warpsize"),
]
ODD_PATHS = ["cuda.threadIdx", "cuda.threadIdx.w", "x.shape", "x.size", "y.T", "x.foo"]
CALLS = [
    *("cuda.grid(1)", "cuda.gridsize(1)", "cuda.popc({0})", "cuda.clz({0})"),
    *("cuda.fma({0}, {1}, 2.0)", "cuda.selp({0}, {1}, 1)", "min({0}, {1})", "abs({0})"),
    *("max({0}, {1})", "int({0})", "float({0})", "len(x)", "math.sqrt({0})"),
    *("math.floor({0})", "np.float32({0})", "np.int32({0})", "helper({0}, {1})"),
    *("cuda.ballot_sync(0xFFFFFFFF, {0})", "cuda.shfl_sync(0xFFFFFFFF, {0}, 0)"),
    *("cuda.atomic.add(y, i % 8, {0})", "cuda.atomic.max(whole, 0, {0})"),
    *("cuda.all_sync({0}, {1})", "cuda.syncthreads_count({0})"),
]
ODD_CALLS = [
    *("cuda.atomic", "cuda.atomic.foo", "cuda.fp16.hadd", "cuda.shared", "cuda.popcc"),
    *("cuda.shared.array", "cuda.const.array_like", "cuda.synchronize", "cuda.jit"),
    *("cuda.atomic.cas", "cuda.threadfence", "range", "print", "round", "sum", "zip"),
    *("cuda.shfl_down_sync", "math.gcd", "math.foo", "np.sqrt", "np.zeros", "unknown"),
    *("x", "i", "helper", "min", "cuda.grid", "len", "int", "cuda.match_any_sync"),
    *("cuda.laneid", "cuda.threadIdx", "cuda.threadIdx.x", "cuda.warpsize"),
    *("cuda.nanosleep", "cuda.lanemask_lt", "math.pow", "math.sin", "enumerate"),
]
SHAPES = ["4", "(2, 3)", "LIMIT", "8"]
ODD_SHAPES = ["1 << 30", "0", "-1", "n", "2.5", "()", "'a'", "(LIMIT, LIMIT)", "None"]
TYPES = ["float32", "np.int32", "np.float64"]
ODD_TYPES = ["'f4'", "'S4'", "object", "int", "3", "np.float16", "np.complex64", "'M8'"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "<", "==", "!=", ">=", "and", "or"]
ODD_OPERATORS = ["**", "<<", ">>", "&", "|", "^", "@", "is", "in", "not in"]
SINGLE = ["return", "pass", "cuda.syncthreads()", "k = i", "cuda.syncwarp()"]
ODD_SINGLE = [
    *("return {}", "break", "continue", "assert {}", "del k", "print({})", "x = {}"),
    *("raise ValueError({})", "global n", "import math", "k: int = {}", "yield {}"),
    *("cuda.syncthreads", "'text'", "nonlocal k", "i += {}", "await {}"),
]
HEADS = ["if {}:", "if {}:", "for k in range(4):", "for k in range({}, 3):"]
ODD_HEADS = [
    *("for k in {}:", "for k, n in {}:", "with {}:", "def inner(k):", "class Inner:"),
    *("while {}:", "for k in range({}):", "for x[0] in range(2):", "match {}:"),
]
TARGETS = ["k", "k", "n", "alpha"]
ODD_TARGETS = ["x.dtype", "i, k", "(i, (k, n))", "*k, n", "x", "cuda", "LIMIT", "x.foo"]
SIGNS = ["=", "=", "+=", "-=", "*="]
ODD_SIGNS = ["/=", "//=", "%=", "**=", "<<=", "@=", "&="]


def pick(random, usual, odd):
    """Return a usual alternative or, now and then, an odd one."""
    return random.choice(odd if random.randint(0, 14) == 0 else usual)


def kernel(random):
    """Return a function of x, y, grid2, whole, n and alpha, with its source."""
    lines = ["def made(x, y, grid2, whole, n, alpha):"]
    lines += ["    i = cuda.grid(1)"] if random.randint(0, 4) else []
    if random.randint(0, 2) == 0:
        place = random.choice(["shared", "local"])
        shape = pick(random, SHAPES, ODD_SHAPES)
        dtype = pick(random, TYPES, ODD_TYPES)
        name = random.choice(["shared", "own", "own"])
        lines.append(f"    {name} = cuda.{place}.array({shape}, {dtype})")
    for _ in range(random.randint(1, 4)):
        lines += statement(random, 1, 2)
    return _defined("\n".join(lines) + "\n")


def _defined(text):
    name = f"<made kernel {next(_number)}>"
    scope = {
        **{"cuda": cuda, "math": math, "np": np, "float32": np.float32, "LIMIT": 4},
        **{"TABLE": np.arange(4, dtype=np.float32), "__name__": "kernel_grammar"},
        "helper": helper,
    }
    exec(compile(text, name, "exec"), scope)
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    return scope["made"]


def forget(function):
    """Remove the source from the cache."""
    linecache.cache.pop(function.__code__.co_filename, None)


def helper(a, b):
    return a * b + 1


def statement(random, indent, depth):
    """Return the lines of one statement; depth: maximum levels of nested statements."""
    pad = "    " * indent
    kind = random.randint(0, 9 if depth else 6)
    value = expression(random, 2)
    if kind <= 3:
        return [f"{pad}{target(random)} {pick(random, SIGNS, ODD_SIGNS)} {value}"]
    if kind == 4:
        return [f"{pad}{call(random, 2)}"]
    if kind == 5:
        return [pad + pick(random, SINGLE, ODD_SINGLE).format(value)]
    if kind == 6:
        return [f"{pad}k = {value}"]
    inside = [
        line
        for _ in range(random.randint(1, 2))
        for line in statement(random, indent + 1, depth - 1)
    ]
    return [pad + pick(random, HEADS, ODD_HEADS).format(value), *inside]


def target(random):
    """Return the target of an assignment."""
    if random.randint(0, 2):
        return subscript(random, 1)
    return pick(random, TARGETS, ODD_TARGETS)


def subscript(random, depth):
    """Return an element or a slice of an array, or of another object."""
    array = pick(random, ARRAYS, [*NAMES, *ODD_NAMES])
    count = pick(random, [2 if array == "grid2" else 1], [0, 1, 2, 3])
    parts = [index(random, depth) for _ in range(count)]
    return f"{array}[{', '.join(parts) or '()'}]{pick(random, [''], ['[0]'])}"


def index(random, depth):
    """Return an index, mostly in bounds; otherwise anything, including slices."""
    kind = random.randint(0, 9)
    if kind <= 7:
        return random.choice(["i", "0", "i % 4", "cuda.threadIdx.x"])
    if kind == 8:
        return expression(random, depth)
    ends = [random.choice(["", "0", "i", "-1", "2.5", "None"]) for _ in range(3)]
    return pick(random, ["i"], [":".join(ends[: random.randint(2, 3)])])


def call(random, depth):
    """Return a call; now and then of anything with any arguments, even keywords."""
    a, b = expression(random, depth - 1), expression(random, depth - 1)
    if random.randint(0, 14):
        return random.choice(CALLS).format(a, b)
    arguments = [a, b, "i"][: random.randint(0, 3)]
    arguments += [
        pick(random, ["1"], ["dtype=float32", "shape=4", "*x", "**k", "key=i"])
    ]
    return f"{random.choice(ODD_CALLS)}({', '.join(arguments)})"


def expression(random, depth):
    """Return an expression; depth: maximum levels of nested expressions."""
    kind = random.randint(0, 9 if depth > 0 else 2)
    if kind == 0:
        return pick(random, VALUES, ODD_VALUES)
    if kind == 1:
        return pick(random, NAMES, ODD_NAMES)
    if kind == 2:
        return pick(random, PATHS, ODD_PATHS)
    if kind <= 5:
        return subscript(random, depth - 1)
    if kind == 6:
        return call(random, depth)
    a, b = expression(random, depth - 1), expression(random, depth - 1)
    if kind == 7:
        return f"({a} if {expression(random, depth - 1)} else {b})"
    if kind == 8:
        return f"{random.choice(['not ', '-', '-', 'abs'])}({a})"
    return f"({a} {pick(random, OPERATORS, ODD_OPERATORS)} {b})"


def arguments():
    """Return the arguments of a launch."""
    return [
        *(np.zeros(8, np.float32), np.ones(8, np.float32)),
        *(np.ones((4, 4), np.float32), np.arange(8, dtype=np.int32), 5, 0.5),
    ]

"""The separate process of Numba's simulator: `python child.py FD`.

The process receives launches and returns results through the pipe FD. The module
imports nothing from weft, since importing PyTorch alone would take seconds. It corrects
two faults of Numba's simulator. Two shared arrays on one line would be the same array,
and threads that reach a shared array simultaneously could get separate arrays.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import io
import marshal
import os
import pickle
import sys
import threading
import time
import traceback
import types
from multiprocessing import connection

import numpy as np

MOST_SHARED = 48 << 10  # bytes of static shared memory that every GPU provides


class Ended(Exception):
    """Raised to end a thread after its own exception was recorded."""


class Refused(Exception):
    """Raised for a fault of the kernel itself, in any thread."""


class Cuda:
    """A stand-in for Numba's module during a launch, under any name in the kernel."""

    def __init__(self, current, shared):
        self._current, self.shared = current, shared

    def __getattr__(self, name):
        try:
            return getattr(self._current(), name)
        except AttributeError:
            raise Refused(f"Numba's simulator has no cuda.{name}") from None


class Shared:
    """A stand-in for cuda.shared, with one array per place in the code and block."""

    def __init__(self, current):
        self._current = current
        self._lock = threading.Lock()
        self._arrays = {}
        self._owner = None

    def array(self, shape, dtype, *_, **__):
        dtype = np.dtype(dtype)
        current = self._current()
        with self._lock:
            # `current.shared` is a new object for each block of each launch.
            if self._owner is not current.shared:
                self._owner, self._arrays = current.shared, {}
            if shape == 0 or shape == (0,):
                return current.shared.array(0, dtype)
            frame = sys._getframe(1)
            key = frame.f_code, frame.f_lasti
            if key not in self._arrays:
                self._arrays[key] = np.empty(shape, dtype)
                self._check()
            return self._arrays[key]

    def _check(self):
        used = sum(array.nbytes for array in self._arrays.values())
        if used > MOST_SHARED:
            raise Refused(
                f"its shared arrays need {used} bytes, but a block has {MOST_SHARED} "
                f"(a GPU's compiler reports: uses too much shared data); "
                f"cuda.shared.array(0, dtype) with bytes at the launch can be larger"
            )


class Writer(io.TextIOBase):
    """A stream that sends the threads' output in whole lines, without mixing them."""

    def __init__(self, send, which):
        self._send, self._which = send, which
        self._parts = {}

    def writable(self):
        return True

    def write(self, text):
        parts = self._parts.setdefault(threading.get_ident(), [])
        parts.append(text)
        if "\n" in text:
            self._send(("print", self._which, "".join(parts)))
            parts.clear()
        return len(text)

    def rest(self):
        """Send the incomplete lines; call this after all threads have ended."""
        for parts in filter(None, list(self._parts.values())):
            self._send(("print", self._which, "".join(parts)))
        self._parts = {}


def main():
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    pipe = connection.Connection(int(sys.argv[-1]))
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    lock = threading.Lock()

    def send(message):
        with lock:
            pipe.send(message)

    try:
        from numba import cuda
        from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray
        from numba.cuda.simulator.kernel import _get_kernel_context
    except Exception as error:
        send(("failed", f"{type(error).__name__}: {error}"))
        return
    sys.stdout, sys.stderr = Writer(send, 1), Writer(send, 2)
    send(("ready",))
    kernels = {}
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            answer = perform(job, cuda, FakeCUDAArray, _get_kernel_context, kernels)
        except Exception as error:
            answer = fault(error, None, None, False)
        sys.stdout.rest()
        sys.stderr.rest()
        send(answer)


def end_with(parent):
    """End the process once its parent has ended, even during a launch."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def perform(job, cuda, device, current, kernels):
    """Run a launch: return ("done", bytes of each span) or ("fault", ...)."""
    code, grid, block, shared, spans, args = job
    if code not in kernels:
        kernels.clear()
        kernels[code] = make(code, current)
    function = kernels[code]
    memory = [bytearray(span) for span in spans]
    values = [array(memory, *arg[1:]) if arg[0] == "array" else arg[1] for arg in args]
    # The simulator would copy host arrays separately, and they would no longer overlap.
    values = [device(a) if isinstance(a, np.ndarray) and a.ndim else a for a in values]
    faults = []
    # make() has replaced the modules in the kernel, so Numba has none to replace.
    kernel = cuda.jit(watched(function, faults))
    before = threading.active_count()
    with contextlib.suppress(Ended):
        kernel[grid, block, 0, shared](*values)
    if faults:
        error, where, thread = faults[0]  # the first exception ended the other threads
        return fault(error, where, thread, left(before))
    return "done", [bytes(one) for one in memory]


def watched(function, faults):
    """Wrap the kernel so that each exception is recorded with its thread."""

    def kernel(*args):
        with np.errstate(all="ignore"):
            try:
                function(*args)
            except Exception as error:
                thread = threading.current_thread()
                faults.append((error, tuple(thread.blockIdx), tuple(thread.threadIdx)))
                raise Ended from None

    return kernel


def left(before):
    """Return whether threads of a failed launch are still running."""
    end = time.monotonic() + 0.5
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.005)
    return threading.active_count() > before


def fault(error, block, thread, running):
    frames = traceback.extract_tb(error.__traceback__)
    where = [(f.filename, f.lineno, f.name) for f in frames if f.filename != __file__]
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else ""
    name = "ArgumentError" if kind is Refused else name
    text = str(error) if name else f"{kind.__name__}: {error}"
    return "fault", name, text, block, thread, where, running


def array(memory, span, offset, shape, strides, dtype, writable):
    view = np.ndarray(shape, dtype, memory[span], offset, strides)
    view.flags.writeable = writable
    return view


def make(code, current):
    """Rebuild the kernel from the bytes of meaning.serialise_kernel()."""
    parts = pickle.loads(code)
    cuda = Cuda(current, Shared(current))
    functions = []
    for compiled, defaults, _ in parts:
        body = marshal.loads(compiled)
        inside = {"__name__": "kernel", "__builtins__": builtins}
        cells = tuple(types.CellType() for _ in body.co_freevars) or None
        one = types.FunctionType(body, inside, body.co_name, None, cells)
        one.__defaults__, one.__kwdefaults__ = pickle.loads(defaults)
        functions.append(one)
    for function, (_, _, names) in zip(functions, parts):
        values = {name: value(*one, cuda, functions) for name, one in names.items()}
        function.__globals__.update(values)
        free = function.__code__.co_freevars
        for name, cell in zip(free, function.__closure__ or ()):
            cell.cell_contents = values[name]
    return functions[0]


def value(kind, what, cuda, functions):
    if kind == "cuda":
        return Late(cuda, what) if what else cuda
    if kind == "module":
        return importlib.import_module(what)
    return functions[what] if kind == "helper" else pickle.loads(what)


class Late:
    """A name from `from weft.cuda import threadIdx`, looked up again at each use."""

    def __init__(self, cuda, name):
        self._cuda, self._name = cuda, name

    def __getattr__(self, name):
        return getattr(getattr(self._cuda, self._name), name)

    def __call__(self, *args):
        return getattr(self._cuda, self._name)(*args)


if __name__ == "__main__":
    main()

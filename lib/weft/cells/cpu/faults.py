"""Turn failed launches on the CPU into exceptions: one sentence each, with advice.

The module also makes two checks that g++ lacks.

list_called() finds the host's system functions that a kernel of a cell calls. On a GPU,
they do not exist, and NVRTC refuses them, whereas g++ accepts them from any
header. A kernel could use them to end the session, close its files or leave its stack,
and no signal handler could prevent that.

find_unset() reports local variables that are read before they are written. The watch
build fills local variables with a pattern (GCC 12 and later). As a float the pattern is
-1.69e38, so large that adding ordinary numbers leaves every bit unchanged. If an array
contains it after a launch, and none did before, a thread has stored such a variable.
Integers go undetected, as do operations that change the pattern, such as max().
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...base.errors import KernelFault, Short
from ...csource import scanner
from ...csource.diagnostics import CELL, Diagnostic, diagnose
from ...csource.signature import Param
from ...report.model import Finding
from ...report.places import read_section
from ...toolchain import build
from ..arguments import Array
from ..structs import CScalar
from . import arena
from .arena import Arena, Reached

if TYPE_CHECKING:
    from .launch import Prepared


NULL_PAGES = 64 << 10  # an address below this is that of a null pointer
NOBODY = 2**32 - 1  # the index if no single thread caused the fault
LAUNCH, ADDRESS, STACK, ARITHMETIC, ILLEGAL, ASSERT, TRAP = range(1, 8)
EXCEPTION, TIMEOUT, INTERRUPT, DEADLOCK = range(8, 12)
AS_BEFORE = ". Its arrays are as they were."
GUARD = ": guard the access with an if, or check the sizes of the launch"


class Stopped(Short, KeyboardInterrupt):
    """The exception for a launch stopped with Ctrl-C or the stop button."""


@dataclass(frozen=True)
class Fault:
    """The SIMT runtime's report on a failed launch (struct simt_fault)."""

    kind: int
    error: int
    address: int
    write: int  # 1: a store, 0: a load, -1: unknown
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    text: str


@dataclass(frozen=True)
class FaultScene:
    """The failed launch, with the names and places that explain an address."""

    kernel: str
    params: tuple[Param, ...]
    types: tuple[CScalar | None, ...]
    bound: Sequence[object]
    # The addresses of the pointers among `bound`, then of the reached arrays.
    addresses: Sequence[int]
    arena: Arena | None
    timeout: float
    reached: Reached | None = None

    def pointers(self) -> list[tuple[Param, CScalar | None, Array | None, int]]:
        """Return the pointers: parameters, types, arrays and the kernel's addresses."""
        bound_params = zip(self.params, self.types, self.bound)
        pointers = [(p, kind, value) for p, kind, value in bound_params if p.pointer]
        if (reached := self.reached) is not None:
            pointers += zip(reached.params, reached.types, reached.arrays)
        return [
            (p, kind, value if isinstance(value, Array) else None, address)
            for (p, kind, value), address in zip(pointers, self.addresses)
        ]


def explain(fault: Fault, scene: FaultScene) -> KernelFault:
    """Return the exception for a failed launch."""
    thread = f"thread {_write_index(fault.thread)} of block {_write_index(fault.block)}"
    texts = {
        ADDRESS: f"{thread} {_describe_address(fault, scene)}",
        STACK: f"{thread} used up its stack of 64 KB: make its local arrays smaller, "
        f"or end the recursion",
        ARITHMETIC: f"{thread} divided an integer by zero, or the smallest one by -1 "
        f"(a GPU would continue with an arbitrary number): check the divisor",
        ILLEGAL: f"{thread} reached code that is marked as unreachable: look for a "
        f"missing return or an undefined index",
        ASSERT: fault.text.replace(f"{CELL}:", "line "),
        TRAP: f"{thread} called __trap()",
        TIMEOUT: f"it ran longer than {scene.timeout:g} s and was stopped: look for a "
        f"loop that does not end, or allow more time with timeout= (--timeout)",
    }
    text = texts.get(fault.kind, fault.text).removeprefix(f"{scene.kernel}: ")
    message = f"{scene.kernel}: {text}{_describe_state(scene)}"
    places = (at if at[0] != NOBODY else None for at in (fault.block, fault.thread))
    error = KernelFault(message, scene.kernel, *places)
    error.kind = fault.kind
    return error


def make_stray_fault(address: int, scene: FaultScene) -> KernelFault:
    """Return the exception for an overwritten canary, which is found after a launch."""
    text = f"a thread wrote {_describe_nearest(address, scene)}{GUARD}"
    message = f"{scene.kernel}: {text}{_describe_state(scene)}"
    return KernelFault(message, scene.kernel)


def read_only(kernel: str, param: Param) -> KernelFault:
    """Return the exception for a store into a read-only array through a cast."""
    claim = f"it wrote into {param} through a cast that removes const"
    cause = f"but the array is read-only: pass a copy{AS_BEFORE}"
    return KernelFault(f"{kernel}: {claim}, {cause}", kernel)


def _describe_state(scene: FaultScene) -> str:
    if scene.arena is None:
        return ". It worked in place: its arrays may be partly written."
    return AS_BEFORE


def _describe_address(fault: Fault, scene: FaultScene) -> str:
    verb = {1: "wrote", 0: "read"}.get(fault.write, "touched")
    if fault.address < NULL_PAGES:
        nulls = [str(p) for p, _, a, _ in scene.pointers() if a is None]
        hint = f": None was passed for {', '.join(nulls)}" if nulls else ""
        return f"{verb} through a null pointer (address 0x{fault.address:x}){hint}"
    return f"{verb} {_describe_nearest(fault.address, scene)}{GUARD}"


def _describe_nearest(address: int, scene: FaultScene) -> str:
    """Describe an address: `out[1030], 6 elements past the end of its 1024`."""
    nearest: tuple[int, str] | None = None
    for param, kind, array, start in scene.pointers():
        if array is None:
            continue
        size = kind.size if kind else array.itemsize
        count = array.nbytes // size
        index = (address - start) // size
        beyond = index - count
        distance = max(-index, beyond + 1, 0)
        if scene.arena is not None and distance * size > (1 << 30):
            continue
        name = f"{param.name or 'an array'}[{index}]"
        if index < 0:
            text = f"{name}, {_count_elements(-index)} before its start"
        elif beyond >= 0:
            past = f"{_count_elements(beyond)} past" if beyond else "just past"
            text = f"{name}, {past} the end of its {count}"
        else:
            text = f"{name} of {count}, which is not allowed"
        if nearest is None or distance < nearest[0]:
            nearest = distance, text
    if nearest is None or (scene.arena is None and nearest[0] > 1 << 20):
        return f"address 0x{address:x}, which is in none of its arrays"
    return nearest[1]


def _count_elements(count: int) -> str:
    return f"{count} element{'s' * (count != 1)}"


def _write_index(index: tuple[int, int, int]) -> str:
    return "({},{},{})".format(*index)


# ---- faults that g++ does not find ---------------------------------------------------


_NAMES = """
abort exit _exit _Exit quick_exit atexit _ZSt9terminatev __assert_fail
raise kill killpg tgkill signal sigaction sigprocmask sigaltstack alarm setitimer
setjmp _setjmp __sigsetjmp longjmp siglongjmp __longjmp_chk getcontext setcontext
fork vfork execl execle execlp execv execve execvp execvpe fexecve system popen
posix_spawn posix_spawnp clone wait waitpid ptrace syscall prctl setsid
pthread_create pthread_exit pthread_kill pthread_cancel pthread_join
pthread_mutex_lock pthread_cond_wait pthread_barrier_wait pthread_rwlock_wrlock
sem_wait pthread_sigmask thrd_create mtx_lock
open creat close dup dup2 dup3 fcntl ioctl pipe socket read write select poll
fopen fclose freopen fflush setvbuf fputs fwrite remove unlink rename truncate
mmap munmap mprotect mremap madvise brk sbrk shmat shmdt
setrlimit prlimit setuid chdir chroot setenv unsetenv putenv clearenv setlocale
fesetround fesetenv feupdateenv feenableexcept fesetexceptflag
sleep usleep nanosleep clock_nanosleep pause sched_setaffinity nice
dlopen dlclose dlsym
"""
_HOST = frozenset(_NAMES.split())


def list_called(library: bytes) -> list[str]:
    """List the functions of _HOST that a shared library calls."""
    strings = read_section(library, b".dynstr")
    table = read_section(library, b".dynsym")
    names = set()
    # Each entry is an Elf64_Sym.
    for start, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", table):
        if section == 0:  # the library does not define this symbol
            names.add(strings[start : strings.index(b"\0", start)].decode())
    return sorted(_HOST & names)


def refuse_call(name: str, source: str) -> Diagnostic:
    """Return the error for a cell that calls `name`, with the place of the call."""
    called = "std::terminate" if name == "_ZSt9terminatev" else name
    code = scanner.blank_comments(source)
    for function in scanner.list_functions(code, scanner.DEVICE):
        if function.brace is None:
            continue
        body = code[function.brace : scanner.find_close(code, function.brace)]
        if call := re.search(rf"\b{called.split('::')[-1]}\s*\(", body):
            text = f"{function.name}() calls {called}(), which only the host has"
            return diagnose(source, function.brace + call.start(), text)
    text = f"a kernel calls {called}(), which only the host has"
    return Diagnostic("", 0, 0, "error", text)


_FLOAT, _DOUBLE = 0xFEFEFEFE, 0xFEFEFEFEFEFEFEFE
_PATTERN = np.uint32(_FLOAT).view(np.float32)
FLOATS = ("float32", "float64")


@functools.cache
def unset_flags() -> tuple[str, ...]:
    """Return the flags that make g++ fill local variables; () if g++ has none."""
    version = re.search(r"(\d+)\.\d+\.\d+", build.version_of(build.find_tool("g++")))
    is_new = version is not None and int(version[1]) >= 12
    return ("-ftrivial-auto-var-init=pattern",) if is_new else ()


def find_unset(
    launch: Prepared, kernel: str, texts: Mapping[str, str]
) -> list[Finding]:
    """Return one finding for each array in which a launch stored an unset variable.

    texts: the cell and its headers, by name.
    """
    findings: list[Finding] = []
    for (param, _, array, _), written in zip(launch.scene.pointers(), launch.written):
        if not written or array is None or array.dtype not in FLOATS:
            continue
        indices = _list_indices(launch.scene.arena.memory_of(array), array.dtype)
        if not indices.size:
            continue
        if any(map(_had_pattern, launch.arrays)):
            return []
        file, line, column, names = _find_declared(kernel, texts)
        first = int(indices[0])
        text = (
            f"{param.name}[{first}] got {_PATTERN:g}, the watch build's initial value "
            f"of local variables: {names or 'one'} is read before it is written"
        )
        cure = "give it a value where it is declared, as in float a[4][4] = {};"
        place = {"array": param.name, "index": (first, 0, 0)}
        facts = {**place, "count": int(indices.size), "cure": cure}
        findings.append(Finding("uninitialised", text, file, line, column, **facts))
    return findings


def _had_pattern(array: Array | None) -> bool:
    """Return whether an array on the host contained the pattern before the launch."""
    if array is None or array.dtype not in FLOATS:
        return False
    data = arena.view_memory(array.address, array.nbytes)
    return _list_indices(data, array.dtype).size > 0


def _list_indices(data: memoryview, dtype: str) -> np.ndarray:
    """Return the indices at which an array's content is the pattern."""
    if dtype == "float32":
        return np.flatnonzero(np.frombuffer(data, np.uint32) == _FLOAT)
    values = np.frombuffer(data, np.uint64)
    # The kernel may have converted a float with the pattern to double.
    as_double = values.view(np.float64) == float(_PATTERN)
    return np.flatnonzero((values == _DOUBLE) | as_double)


# ---- which variable --------------------------------------------------------------

_DECLARATION = re.compile(
    r"(?<=[;{})])\s*(?P<type>(?:\w[\w:]*(?:<[^;<>]*>)?\s+)+)(?P<names>[A-Za-z_][^;=(){}]*);"
)
_OTHERS = {
    *("return", "goto", "using", "typedef", "struct", "class", "delete", "throw"),
    *("else", "case", "__shared__", "__device__", "__constant__", "extern", "static"),
    *("const", "constexpr", "namespace", "friend", "public", "private", "break"),
    *("int", "unsigned", "signed", "char", "short", "long", "bool", "dim3", "size_t"),
    *("int2", "int3", "int4", "uint2", "uint3", "uint4", "uint"),
}


def _find_declared(kernel: str, texts: Mapping[str, str]) -> tuple[str, int, int, str]:
    """Return the place at which the kernel declares locals without a value.

    The result is (file, line and column of the first, names of all). If there are none,
    it is ("", 0, 0, "").
    """
    for file, text in texts.items():
        code = scanner.blank_directives(scanner.blank_comments(text))
        places = list(_list_locals(code, kernel))
        if places:
            names = ", ".join(name for name, _ in places)
            names = f"one of {names}" if len(places) > 1 else names
            first = diagnose(text, places[0][1], "")
            return file, first.line, first.column - 1, names
    return "", 0, 0, ""


def _list_locals(code: str, kernel: str) -> Iterator[tuple[str, int]]:
    span = scanner.find_definition(code, kernel)
    for match in _DECLARATION.finditer(code, *span) if span else ():
        if _OTHERS & set(re.findall(r"\w+", match["type"])):
            continue
        for name in re.finditer(r"(?:^|,)\s*(\w+)", match["names"]):
            yield name[1], match.start("names") + name.start(1)

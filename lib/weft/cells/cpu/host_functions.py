"""Functions of the host's system that a kernel of a cell may not call.

On a GPU they do not exist, and NVRTC refuses them. g++ takes them from any header, and
then a kernel could end the session, close its files or leave its stack: no handler of
signals helps against that.
"""

from __future__ import annotations

import re
import struct

from ...csource import signature
from ...csource.diagnostics import Diagnostic
from ...report import symbols

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
_DEVICE_FUNCTION = re.compile(
    r"__(?:global|device)__[^;{}]*?\b(?!__launch_bounds__)(\w+)\s*\([^;{}]*\{"
)


def list_called(library: bytes) -> list[str]:
    """Those that a shared library calls."""
    strings = symbols.read_section(library, b".dynstr")
    table = symbols.read_section(library, b".dynsym")
    names = set()
    for start, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", table):  # Elf64_Sym
        if section == 0:  # defined elsewhere
            names.add(strings[start : strings.index(b"\0", start)].decode())
    return sorted(_HOST & names)


def refuse_call(name: str, source: str) -> Diagnostic:
    """The error for a cell that calls one, at its first call in device code."""
    shown = "std::terminate" if name == "_ZSt9terminatev" else name
    code, what = signature.blank_comments(source), f"{shown}(), a function of the host"
    for head in _DEVICE_FUNCTION.finditer(code):
        body = code[head.end() : signature.close(code, head.end() - 1)]
        if call := re.search(rf"\b{shown.split('::')[-1]}\s*\(", body):
            at = head.end() + call.start()
            line = code.count("\n", 0, at) + 1
            text = f"{head[1]}() calls {what}: no GPU has it"
            return Diagnostic("", line, at - code.rfind("\n", 0, at), "error", text)
    return Diagnostic("", 0, 0, "error", f"a kernel calls {what}: no GPU has it")

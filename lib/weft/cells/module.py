"""A cell's kernels as Python callables: module.add[grid, block](out, a, b, n)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..base.errors import ArgumentError, KernelError
from ..csource import signature
from ..csource.diagnostics import CompileError, Diagnostic
from ..csource.signature import Param, Signature
from ..report.text import how_many
from ..toolchain import launch_config
from . import checks, headers, isolated, trial_launches
from .arguments import first_array
from .cpu import compiler as cpu
from .cpu.faults import Stopped
from .cpu.watched import keep_report, tell
from .gpu import loader as gpu
from .structs import find_scalar
from .variables import VariableState

CACHED_CONFIGS = 256  # launch shapes kept per kernel
# The attributes of a Kernel itself; all other names are variables of the source.
_OF_A_KERNEL = {"module", "signature", "expression", "params"}


class Module:
    """The kernels of one source, as attributes; returned by load_cuda().

    The source's __device__ and __constant__ variables are attributes, too: reading
    module.filt downloads the variable filt, and assigning to it uploads (see
    variables.VariableState). Further attributes are `report` (one line on the
    compilation), `warnings` (from the compiler), `source` (the text) and `signatures`
    (its parsed declarations). A kernel with one of these names takes precedence.
    """

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def __getattr__(self, name: str) -> Any:
        if name == "_cell":  # a new copy has no _cell yet
            raise AttributeError(name)
        kernels = self._cell.kernels
        if name in kernels:
            return kernels[name]
        if name in self._cell.state.variables:
            return self._cell.state.read(name)
        if name in ("report", "warnings", "source", "signatures"):
            return getattr(self._cell, name)
        names = ", ".join(kernels) or "none"
        raise AttributeError(f"this source has no kernel '{name}'; it has {names}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_cell":
            object.__setattr__(self, name, value)
        else:
            self._cell.state.write(name, value)

    def __dir__(self) -> list[str]:
        own = (*self._cell.kernels, *self._cell.state.variables, "report", "warnings")
        return [*super().__dir__(), *own]

    def __getitem__(self, key: Any) -> Any:
        """Return module[grid, block] as the only kernel's [grid, block]."""
        return select_only_kernel(self)[key]

    def __repr__(self) -> str:
        return f"<{self._cell.name}: {self._cell.report}>"


def select_only_kernel(kernel: Any) -> Any:
    """Return the kernel, or a Module's only kernel; raise ArgumentError for several."""
    if not isinstance(kernel, Module):
        return kernel
    kernels = kernel._cell.kernels
    if len(kernels) != 1:
        names, example = ", ".join(kernels) or "none", next(iter(kernels), "name")
        text = f"this source has {len(kernels)} kernels ({names})"
        raise ArgumentError(f"{text}: choose one, e.g. module.{example}")
    return next(iter(kernels.values()))


class Cell:
    """A source, with its options for compilation and launch, and the results."""

    def __init__(
        self,
        source: str,
        *,
        target: str | None,
        flags: Sequence[str],
        name: str,
        timeout: float | None = None,
        inplace: bool = False,
        isolated: bool = False,
        check: bool = False,
        time: bool = False,
        watched: bool = False,
        compile_only: str = "",
        folder: Path | None = None,
    ) -> None:
        """Check and compile a source; raise CompileError if there are errors.

        compile_only: architecture ("sm_90") to compile for, without a GPU.
        folder: folder of the source's file, if there is one.

        All other parameters are those of load_cuda().
        """
        self.source, self.name, self.flags = source, name, tuple(flags)
        self.folder = folder
        self.timeout, self.inplace, self.isolated = timeout, inplace, isolated
        self.check, self.time, self.watched = check, time, watched
        self.rehearsed = False  # whether a watched launch precedes each launch on a GPU
        self.target, self.compile_only = target, compile_only
        self.default = target or ("cuda" if torch.cuda.is_available() else "cpu")
        self._compiled: dict[tuple[str, tuple[str, ...], bool], Any] = {}
        self.state = VariableState(self)
        self.shown_findings: set[Any] = set()  # keys of findings already shown
        self.finding_count = 0  # findings of the last --check
        self._load()

    def _load(self) -> None:
        self.version = headers.version
        self.headers = headers.select_used(self.source, self.folder)
        texts = [self.source, *self.headers.values()]
        parsed = [s for text in texts for s in signature.parse(text)]
        if errors := checks.check(self.source, parsed):
            raise CompileError(errors, self.source, self.name)
        self.signatures = {s.name: s for s in parsed}
        self._compiled.clear()
        self.state.reload()
        begin = time.perf_counter()
        if self.compile_only:
            inputs = self.compile_only, self.ordinary(), self.name, self.flags
            compiled = gpu.compile_only(self.source, *inputs, self.headers)
        else:
            compiled = self.compiled(self.default, self.ordinary(), self.watched)
        milliseconds = (time.perf_counter() - begin) * 1e3
        origin = "from the cache" if compiled.cached else "compiled"
        self.report = f"{compiled.report} · {origin} in {milliseconds:.0f} ms"
        notes = checks.find_doubles(self.source)
        self.warnings: list[Diagnostic] = [*compiled.warnings, *notes]
        self.kernels = {name: Kernel(self, s) for name, s in self.signatures.items()}

    def text(self) -> str:
        """Return the source and the headers that it includes, as one text."""
        return "\n".join([self.source, *self.headers.values()])

    def ordinary(self) -> tuple[str, ...]:
        """Return the C++ names of the kernels that need no template arguments."""
        return tuple(
            s.instantiate([])[0]
            for s in self.signatures.values()
            if all(p.default for p in s.template)
        )

    def compiled(
        self, target: str, expressions: tuple[str, ...], checked: bool = False
    ) -> Any:
        """Return the source compiled for a target: a CpuLibrary or a GpuModule.

        checked: whether to use the watch build's flags; ignored for the GPU.
        """
        checked = checked and target == "cpu"
        key = target, expressions, checked
        if key not in self._compiled:
            compiler: Any = gpu if target == "cuda" else cpu
            inputs = self.source, self.name, self.flags, expressions, self.headers
            options = {"checked": True} if checked else {}
            self._compiled[key] = compiler.compile(*inputs, **options)
        return self._compiled[key]

    def compiled_for(self, target: str, expression: str, checked: bool = False) -> Any:
        """Return the library with the kernel `expression`, and set its variables."""
        compiled = self.compiled(target, self._together(expression), checked)
        self.state.enter(compiled)
        return compiled

    def _together(self, expression: str) -> tuple[str, ...]:
        ordinary = self.ordinary()
        return ordinary if expression in ordinary else (expression,)

    def launcher(
        self,
        target: str,
        expression: str,
        params: tuple[Param, ...],
        checked: bool = False,
    ) -> Callable[..., None]:
        """Return the launcher of one kernel on one target; compile it if necessary."""
        compiled = self.compiled_for(target, expression, checked)
        if self.isolated and not checked:
            expressions = self._together(expression)
            return isolated.make_launcher(self, target, expressions, expression, params)
        options = {"timeout": self.timeout, "inplace": self.inplace}
        return compiled.launcher(expression, params, **options)

    def refresh(self) -> None:
        """Compile again if an included header of the session has changed."""
        self.version = headers.version
        if headers.select_used(self.source, self.folder) != self.headers:
            self._load()


class Kernel:
    """A __global__ function; kernel[grid, block, shared, stream] is a Launch.

    A template takes its arguments first: fill["float", 16][grid, block](...). If all of
    them have defaults, fill[grid, block] uses the defaults, unless the grid and the
    block could be template arguments. fill[()][grid, block] is never ambiguous.
    """

    def __init__(
        self,
        module: Cell,
        kind: Signature,
        instance: tuple[str, tuple[Param, ...]] | None = None,
    ) -> None:
        self.module, self.signature = module, kind
        # The version of the headers that the kernel was compiled with.
        self._version = module.version
        self.__name__, self.__doc__ = kind.name, str(kind)
        self._is_template = bool(kind.template) and instance is None
        self.expression, self.params = instance or self._by_default()
        # The indices of parameters that may be arrays; structs may contain arrays.
        kinds = [p.pointer or find_scalar(p.type) is None for p in self.params]
        self._pointers = [i for i, holds in enumerate(kinds) if holds]
        self._configs: dict[Any, Launch] = {}
        self._instances: dict[Any, Kernel] = {}
        self._launchers: dict[tuple[str, bool], Callable[..., None]] = {}
        self._seen: Any = None  # the last watched launch

    def __getattr__(self, name: str) -> Any:
        """Return a variable of the source, like the attribute of a Module.

        A %%cuda cell defines only its kernels in the notebook, not the Module.
        """
        if name.startswith("_") or name == "module":
            raise AttributeError(name)
        if name in self.module.state.variables:
            return self.module.state.read(name)
        raise AttributeError(f"{self.__name__} has no '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or name in _OF_A_KERNEL:
            object.__setattr__(self, name, value)
        else:
            self.module.state.write(name, value)

    def __getitem__(self, key: Any) -> Any:
        __tracebackhide__ = True
        if self._version != headers.version:
            self._refresh()
        try:
            launch_or_kernel = self._configs[key]
            # [4.0, 256] finds the entry of [4, 256], so the key must be checked. Two
            # ints, the usual key, are recognised quickly.
            ints = key[0].__class__ is int is key[1].__class__ and len(key) == 2
            if ints or launch_config.is_whole(key):
                return launch_or_kernel
        # The key is new. A list has no hash, and other keys may raise anything.
        except Exception:
            pass
        kernel = self._choose_instance(key)
        if kernel is not self:
            return kernel
        try:
            shape = launch_config.parse(self.expression, key)
        except ArgumentError as error:
            raise error.with_traceback(None) from None
        launch = self._launch(shape)
        with contextlib.suppress(Exception):
            if len(self._configs) < CACHED_CONFIGS:
                self._configs[key] = launch
        return launch

    def at(self, key: Any) -> Launch | Kernel:
        """Return the Launch for [grid, block], or the template's instance for `key`."""
        if self._version != headers.version:
            self._refresh()
        kernel = self._choose_instance(key)
        if kernel is not self:
            return kernel
        return Launch(self, launch_config.parse(self.expression, key))

    @property
    def _needs_arguments(self) -> bool:
        """Whether the kernel is a template with parameters that lack defaults."""
        template = self.signature.template
        return self._is_template and not all(param.default for param in template)

    def _by_default(self) -> tuple[str, tuple[Param, ...]]:
        """Return the C++ name and the parameters if no template arguments are given."""
        if all(param.default for param in self.signature.template):
            return self.signature.instantiate([])
        return self.signature.name, self.signature.params

    def _choose_instance(self, key: Any) -> Kernel:
        """Return the template's instance for `key`.

        Return the kernel itself if it is not a template, or if `key` is [grid, block]
        and all template arguments have defaults.
        """
        if not self._is_template:
            return self
        try:
            return self._instantiate(key)
        except ArgumentError:
            if self._needs_arguments:
                raise
            with contextlib.suppress(ArgumentError):
                launch_config.parse(self.__name__, key)
                return self
            raise

    def _launch(self, shape: launch_config.LaunchConfig) -> Callable[..., None]:
        """Return the callable for [grid, block]; on a GPU it tries the quick path."""
        launch, module = Launch(self, shape), self.module
        slow = module.check or module.time or module.isolated or module.rehearsed
        plain = not (slow or module.state.variables)
        if module.default == "cuda" and plain and shape.stream is None:
            at = self.launcher("cuda").at  # type: ignore[attr-defined]
            return at(shape.grid, shape.block, shape.shared, launch.launch)
        return launch

    def _refresh(self) -> None:
        # Another kernel may already have refreshed the module.
        if self.module.version != headers.version:
            self.module.refresh()
        self._version = headers.version
        self.signature = self.module.signatures.get(self.__name__, self.signature)
        self._launchers.clear()
        self._configs.clear()
        self._instances.clear()
        if not self.signature.template or self._is_template:
            self.expression, self.params = self._by_default()

    def forget_launches(self) -> None:
        """Make later launches use the cell's current options."""
        for kernel in (self, *self._instances.values()):
            kernel._configs.clear()

    def _instantiate(self, key: Any) -> Kernel:
        args = key if isinstance(key, tuple) else (key,)
        instance = self.signature.instantiate(args)
        if instance[0] not in self._instances:
            kernel = Kernel(self.module, self.signature, instance)
            kernel.launcher(self.module.default)  # a compilation error is raised here
            self._instances[instance[0]] = kernel
        return self._instances[instance[0]]

    def launcher(self, target: str, checked: bool | None = None) -> Callable[..., None]:
        """Return the launcher on a target, compiled on first use.

        checked: whether to use the watch build (CPU only); None: the module's setting.
        """
        if checked is None:
            checked = self.module.watched
        checked = checked and target == "cpu"
        launch = self._launchers.get((target, checked))
        if launch is None:
            launch = self.module.launcher(target, self.expression, self.params, checked)
            if checked:
                launch.watch = self._watch  # type: ignore[attr-defined]
            self._launchers[target, checked] = launch
        elif self.module.state.variables:
            self.module.compiled_for(target, self.expression, checked)
        return launch

    def _watch(self, launch: Any) -> None:
        self._seen = launch
        keep_report(launch)

    @property
    def report(self) -> Any:
        """The Report of the last watched launch; None if there is none."""
        return self._seen.report if self._seen is not None else None

    def target_of(self, args: Sequence[Any]) -> str:
        """Return the target of the arrays among the arguments: "cpu" or "cuda".

        Raises ArgumentError if the cell was compiled for the other target.
        """
        for i in self._pointers:
            value = args[i] if i < len(args) else None
            kind = type(value)
            if kind is torch.Tensor:
                device = "cuda" if value.is_cuda else "cpu"
            elif kind is np.ndarray:
                device = "cpu"
            else:
                try:
                    array = first_array(value)
                except ArgumentError as error:
                    text = f"{self.__name__}: {self.params[i]}: {error}"
                    raise ArgumentError(text) from None
                if array is None:
                    continue
                device = array.device_type
            target = self.module.target
            if target and device != target:
                names = {"cpu": "the CPU", "cuda": "the GPU"}
                place = f"{self.__name__}: {self.params[i]} is on {names[device]}"
                cause = f"and the cell was compiled for {names[target]}"
                cure = "move it, or leave the choice to the arrays"
                raise ArgumentError(f"{place}, {cause}: {cure}")
            return device
        return self.module.default

    def __call__(self, *args: Any) -> None:
        cure = f"launch it with {self.__name__}[grid, block](...)"
        raise ArgumentError(f"{self.__name__} is a kernel: {cure}")

    def __repr__(self) -> str:
        return f"<kernel {self.signature}>"


class Launch:
    """A kernel with its grid and block; call it with the kernel's arguments."""

    __slots__ = ("block", "grid", "kernel", "shared", "stream")

    def __init__(self, kernel: Kernel, shape: launch_config.LaunchConfig) -> None:
        self.kernel = kernel
        self.grid, self.block = shape.grid, shape.block
        self.shared, self.stream = shape.shared, shape.stream

    def __call__(self, *args: Any) -> None:
        __tracebackhide__ = True  # IPython ends the traceback at the user's line
        self.launch(args)

    def launch(self, args: tuple[Any, ...], rooms: Any = None) -> None:
        """Launch on the target of the arrays. rooms: free memory, see gpu/launch.py."""
        __tracebackhide__ = True
        module = self.kernel.module
        try:
            if module.check or module.time:
                self._launch_with_trial(args)
            else:
                self.run(args, rooms)
        except (KernelError, CompileError) as error:
            raise error.with_traceback(None) from None
        except KeyboardInterrupt:
            raise Stopped(f"{self.kernel.__name__} was stopped") from None

    def _launch_with_trial(self, args: Sequence[Any]) -> None:
        """Launch with --check before the launch and --time after it."""
        kernel, module = self.kernel, self.kernel.module
        expected = trial_launches.check(kernel, self, args) if module.check else None
        self.run(args, shown=module.check)
        if expected is not None and kernel.target_of(args) == "cuda":
            trial_launches.compare(kernel, args, expected)
        if module.check:
            text = f"checked in {len(trial_launches.ORDERS)} orders of threads"
            print(f"{kernel.__name__}: {text}: {how_many(module.finding_count)}")
        if module.time:
            print(trial_launches.time_launches(kernel, self, args))

    def run(self, args: Sequence[Any], rooms: Any = None, shown: bool = False) -> None:
        """Launch without --check and --time.

        shown: whether the findings have been shown already.
        """
        kernel, module = self.kernel, self.kernel.module
        target = kernel.target_of(args)
        if module.rehearsed and target == "cuda":
            trial_launches.rehearse(self, args, shown=True)
        extra = (rooms,) if target == "cuda" and rooms is not None else ()
        launcher = kernel.launcher(target)
        launcher(self.grid, self.block, self.shared, self.stream, args, *extra)
        if target == "cpu" and module.watched and not shown:
            tell(module, kernel._seen)

"""The content of a `%%xla_jit` cell and how it is run: Python that ends in a tensor or a function,
HLO, or a JAX call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from IPython.core.interactiveshell import InteractiveShell

from xlanb.boundary import filtered_traceback
from xlanb.errors import ArgumentError, FeedError
from xlanb.explorer.live import Compilation
from xlanb.frontends.jax import is_jax, jax_module, refers_to_jax
from xlanb.frontends.stablehlo import parse_text
from xlanb.graph.foreign import graph_of, is_foreign, is_jit_compiled
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.rewrite import needed_by
from xlanb.hlo import HloModule
from xlanb.notebook.cell import LastCall, run_cell, run_cell_to_call, run_cell_to_inner_run
from xlanb.notebook.shell import evaluated
from xlanb.runtime.functions import tuple_module
from xlanb.runtime.graph_program import inputs_of
from xlanb.runtime.jit import Jit
from xlanb.runtime.opt import arguments_for
from xlanb.runtime.program import to_module
from xlanb.runtime.session import Session
from xlanb.tf2xla.const_analysis import constant_inputs
from xlanb.tracing import unobserved

_HLO = re.compile(r"\s*(HloModule\s|ENTRY\s|module\s*[@{]|module attributes\s*\{|func\.func\s)")
"""Matches the start of a cell of HLO or StableHLO text."""


def holds_hlo(lang: str, cell: str) -> bool:
    """Whether a cell is HLO or StableHLO text."""
    return lang == "hlo" or (lang == "auto" and _HLO.match(cell) is not None)


@dataclass(frozen=True)
class CellProgram:
    """A program to compile: `compilation` starts it, `arguments` are passed to the compiled code.

    `assemble` converts its results. For a graph, the arguments are fed to a session, which the
    compilation runs: `arguments` is then None.
    """

    compilation: Callable[[], Compilation]
    arguments: tuple[Any, ...] | None = None
    assemble: Callable[[Any], Any] = lambda value: value

    def run(self, compilation: Compilation | None = None) -> Any:
        """Compile to the end and run; the result."""
        compilation = compilation or self.compilation()
        made = compilation.finish()
        if self.arguments is None:
            return self.assemble(made)
        compilation.trace.inputs = self.arguments
        return self.assemble(made.flat(*self.arguments))


@dataclass(frozen=True)
class CellValue:
    """The value of a cell that is not a program.

    `why_uncompiled` says why a JAX function called at its end was not compiled.
    """

    value: Any
    why_uncompiled: str = ""


def read_cell(
    shell: InteractiveShell, cell: str, *, lang: str, function: str | None, args: str | None, stepped: bool = False
) -> CellProgram | CellValue:
    """Read a cell; run its Python up to the tensor, function or call at its end.

    `stepped`: it is not run at once; then a call of Session.run or of a function of `xlanb.jit` is
    a program too, and so is a call of Session.run at the end of the last `with` and loop.

    Raises:
        XlanbError: the HLO is malformed, or there is nothing to feed.
        BaseException: the cell's exception.
    """
    __tracebackhide__ = True
    if holds_hlo(lang, cell):
        given = evaluated(shell, args)
        return _hlo(parse_text("\n" + cell, as_tuple(given)), given)
    why = ""
    value = _run(shell, cell, lang, function, stepped=stepped)
    if function:
        found = shell.user_ns.get(function)
        if not callable(found):
            raise ArgumentError(f"-f {function}: the cell does not define this function")
        return _function(found, as_tuple(evaluated(shell, args)), {}, lang)
    if isinstance(value, LastCall):
        if stepped and (found_call := _stepped_call(value)) is not None:
            return found_call
        program = _call(value, None if args is None else as_tuple(evaluated(shell, args)), lang)
        if isinstance(program, CellProgram):
            return program
        why, value = program, value.make()
    if lang == "jax" or (args is not None and is_jax(value)):
        return _function(value, as_tuple(evaluated(shell, args)), {}, "jax")
    if isinstance(value, Tensor):
        return _tensor(shell, value, evaluated(shell, args))
    if callable(value) and is_foreign(value):
        return _foreign(shell, value, evaluated(shell, args))
    return CellValue(value, why)


def _run(shell: InteractiveShell, cell: str, lang: str, function: str | None, *, stepped: bool) -> Any:
    __tracebackhide__ = True
    if lang == "tf" or function:
        return run_cell(shell, cell)
    return run_cell_to_inner_run(shell, cell, _with_open_session) if stepped else run_cell_to_call(shell, cell)


def _with_open_session(call: LastCall) -> LastCall:
    """Return a call of Session.run for another session with the same variables.

    The cell's own session is closed by its `with` block.
    """
    session = getattr(call.function, "__self__", None)
    if not isinstance(session, Session):
        return call
    other = Session(session.graph, session.config)
    other.variables = session.variables
    return LastCall(getattr(other, call.function.__name__), call.args, call.named)


def _hlo(module: HloModule, args: Any) -> CellProgram:
    given = tuple(arguments_for(module, None)) if args is None else as_tuple(args)
    return CellProgram(lambda: Compilation(module), given)


def _stepped_call(call: LastCall) -> CellProgram | None:
    """Return the program of a call of Session.run or of a function of `xlanb.jit`; None for
    others.
    """
    session = getattr(call.function, "__self__", None)
    if isinstance(session, Session) and call.function.__name__ == "run":
        given = signature(Session.run).bind(session, *call.args, **call.named).arguments
        fetches, feeds = given["fetches"], given.get("feed_dict") or {}
        return CellProgram(lambda: Compilation(fetches, feeds, session=session))
    if isinstance(call.function, Jit):
        return _function(call.function.function, call.args, call.named, "auto")
    return None


def _call(call: LastCall, given: tuple[Any, ...] | None, lang: str) -> CellProgram | str:
    """Return the program of the call at a cell's end, or a reason why it is not compiled.

    The reason is "" for functions other than JAX's.
    """
    __tracebackhide__ = True
    args, named = (call.args, call.named) if given is None else (given, {})
    if lang == "jax" or is_jax(call.function):
        return _function(call.function, args, named, "jax")
    if not args or not refers_to_jax(call.function):
        return ""
    try:
        return _function(call.function, args, named, "jax")
    except Exception as error:  # noqa: BLE001 - what JAX cannot trace (it prints, reads a file, plots) is called, and raises what it raises
        name = getattr(call.function, "__name__", "the function")
        return f"JAX cannot trace {name}, which was called as is: {type(error).__name__}: {error}"


def _function(function: Any, args: tuple[Any, ...], named: dict[str, Any], lang: str) -> CellProgram:
    """A function over arrays, of JAX or xlanb.tf, called with these."""
    __tracebackhide__ = True
    with filtered_traceback(), unobserved():  # making the module is not yet compiling it
        module = _module(function, args, named, lang)
    calling = module.calling
    if calling is None:
        return CellProgram(lambda: Compilation(module), tuple(np.asarray(a) for a in args))

    def assemble(result: Any) -> Any:
        return calling.assemble(result if isinstance(result, tuple) else (result,), args, named)

    return CellProgram(lambda: Compilation(module), tuple(calling.flatten(args, named)), assemble)


def _module(function: Any, args: tuple[Any, ...], named: dict[str, Any], lang: str) -> HloModule:
    """The module of a function, which its compilation verifies."""
    __tracebackhide__ = True
    if lang == "jax":
        return jax_module(function, *args, **named)
    return to_module(function, *args, **named) if is_foreign(function) else tuple_module(function, args, named)


def _tensor(shell: InteractiveShell, tensor: Tensor, given: Mapping[Any, Any] | None) -> CellProgram:
    """Run a tensor with feeds from --args or variables of the placeholders' names.

    Uninitialized variables are initialized first.
    """
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentError(
            f"for a cell that ends in a tensor, --args must be a dict of feeds, got a {type(given).__name__}"
        )
    session = Session(tensor.graph)
    feeds = {session.fed_tensor(k): v for k, v in (given or {}).items()}
    variables = []
    for source in inputs_of([tensor]):
        if source.op.type in ("VariableV2", "Variable", "VarHandleOp"):
            variables.append(source.op)
        elif source not in feeds:
            feeds[source] = _value_for(shell, source)
    if not feeds and not variables:
        feeds = _arrays(tensor)
    _initialize(session, variables)
    return CellProgram(lambda: Compilation([tensor], feeds, session=session), assemble=lambda values: values[0])


def _arrays(tensor: Tensor) -> dict[Tensor, Any]:
    """Return the constant arrays that a tensor depends on, as feeds.

    Otherwise the whole program would be folded. Scalars remain constants, and so do arrays that
    must be compile-time constants: shapes, axes.
    """
    ops = needed_by([tensor.op])
    fixed = {op.inputs[n] for op in ops for n in constant_inputs(op)}
    constants = [op.outputs[0] for op in tensor.graph if op in ops and op.type == "Const"]
    values = {t: np.asarray(t.op.get_attr("value")) for t in constants if t is not tensor and t not in fixed}
    return {t: v for t, v in values.items() if v.ndim and v.dtype.kind != "O"}


def _foreign(shell: InteractiveShell, program: Any, given: Any) -> CellProgram:
    """Run a TensorFlow model or function with arguments from --args or variables of its inputs'
    names.
    """
    if given is None:
        graph = graph_of(program)
        given = tuple(_value_for(shell, t) for t in graph.inputs)
    arguments = as_tuple(given)
    if is_jit_compiled(program):
        return _function(program, arguments, {}, "auto")
    return CellProgram(
        lambda: Compilation(program, *arguments), assemble=lambda values: values[0] if len(values) == 1 else values
    )


def _value_for(shell: InteractiveShell, placeholder: Tensor) -> Any:
    name = placeholder.op.name
    value = shell.user_ns.get(name)
    if value is None or isinstance(value, Tensor | Operation):
        raise FeedError(
            f"no value to feed to placeholder {name!r} ({placeholder.dtype.name}{placeholder.shape}) with: "
            f"set a variable {name} to an array, or give --args '{{{name!r}: ...}}'"
        )
    return value


def _initialize(session: Session, variables: Sequence[Operation]) -> None:
    """Run the variables' initializers; reading a variable without one raises."""
    initializers = [
        user for op in variables for t in op.outputs for user in t.uses if user.type in ("Assign", "AssignVariableOp")
    ]
    first = {op.inputs[0].op: op for op in reversed(initializers)}
    if first:
        session.run(list(first.values()))


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return the arguments of --args as a tuple: a tuple, a list, or a single one."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, tuple | list) else (value,)

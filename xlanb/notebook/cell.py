"""Run a cell's Python as IPython does, with observers, and name its lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from xlanb.errors import ArgumentError
from xlanb.graph.scopes import name_sources

_IN_NO_SOURCE = re.compile("[\0\ud800-\udfff]")
_IN_WORDS = {"\0": "a null character"}
_REACHED = "_xlanb_reached"


def run_cell(shell: InteractiveShell, source: str) -> Any:
    """Run Python in the user's namespace; return the value of a last expression, or None.

    Line magics and shell escapes work; exceptions of the cell are raised unchanged, with tracebacks
    into the cell.
    """
    __tracebackhide__ = True
    name, tree = _parsed(shell, source)
    last = tree.body[-1] if tree.body else None
    namespace = shell.user_ns
    if not isinstance(last, ast.Expr):
        exec(compile(tree, name, "exec"), shell.user_global_ns, namespace)
        return None
    exec(compile(ast.Module(tree.body[:-1], tree.type_ignores), name, "exec"), shell.user_global_ns, namespace)
    return eval(compile(ast.Expression(last.value), name, "eval"), shell.user_global_ns, namespace)


@dataclass(frozen=True)
class LastCall:
    """The call that a cell ends in, not made yet."""

    function: Any
    args: tuple[Any, ...]
    named: dict[str, Any]

    def make(self) -> Any:
        """Call the function."""
        __tracebackhide__ = True
        return self.function(*self.args, **self.named)


def run_cell_to_call(shell: InteractiveShell, source: str) -> Any:
    """Run Python up to the call at the cell's end, and return it as a `LastCall`.

    The value of another last expression is returned.
    """
    __tracebackhide__ = True
    name, tree = _parsed(shell, source)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
        return run_cell(shell, source)
    whole = ast.fix_missing_locations(ast.copy_location(ast.Tuple(_parts(last.value), ast.Load()), last.value))
    exec(compile(ast.Module(tree.body[:-1], tree.type_ignores), name, "exec"), shell.user_global_ns, shell.user_ns)
    function, args, named = eval(compile(ast.Expression(whole), name, "eval"), shell.user_global_ns, shell.user_ns)
    return LastCall(function, args, named)


def _parts(call: ast.Call) -> list[ast.expr]:
    """Return the function of a call, its arguments as a tuple, and those by name as a dict."""
    names: list[ast.expr | None] = [None if k.arg is None else ast.Constant(k.arg) for k in call.keywords]
    return [call.func, ast.Tuple(call.args, ast.Load()), ast.Dict(names, [k.value for k in call.keywords])]


class _Reached(BaseException):
    """The call was reached: it ends the cell, and is not the cell's own exception."""

    def __init__(self, call: LastCall) -> None:
        self.call = call


def run_cell_to_inner_run(shell: InteractiveShell, source: str, keep: Callable[[LastCall], LastCall]) -> Any:
    """Run Python up to the call of a method `run` that ends the cell's last `with` and loops.

    The call is returned as a `LastCall`, after `keep`, which is called before the `with` blocks
    end. A cell that ends otherwise is run as `run_cell_to_call` runs it.
    """
    __tracebackhide__ = True
    name, tree = _parsed(shell, source)
    body = tree.body
    while body and isinstance(body[-1], ast.With | ast.For | ast.While):
        body = body[-1].body
    last = body[-1] if body and body is not tree.body else None
    if not (isinstance(last, ast.Expr) and isinstance(call := last.value, ast.Call) and _is_run(call)):
        return run_cell_to_call(shell, source)

    def reached(function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        __tracebackhide__ = True
        raise _Reached(keep(LastCall(function, args, named)))

    body[-1] = ast.fix_missing_locations(
        ast.copy_location(ast.Expr(ast.Call(ast.Name(_REACHED, ast.Load()), _parts(call), [])), last)
    )
    shell.user_ns[_REACHED] = reached
    try:
        exec(compile(tree, name, "exec"), shell.user_global_ns, shell.user_ns)
    except _Reached as end:
        return end.call
    finally:
        del shell.user_ns[_REACHED]
    return None


def _is_run(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "run"


def _parsed(shell: InteractiveShell, source: str) -> tuple[str, ast.Module]:
    """Return the name of the cell's source, and its tree; line 1 is the magic's, as readers
    count.
    """
    transformed = "\n" + shell.transform_cell(source)
    if found := _IN_NO_SOURCE.search(transformed):
        line = transformed.count("\n", 0, found.start()) + 1
        raise ArgumentError(
            f"line {line} of the cell has {_IN_WORDS.get(found[0], f'the half {found[0]!r} of a surrogate pair')}, "
            "which Python source cannot contain: write its escape"
        )
    name = shell.compile.cache(transformed, cell_number(shell), raw_code=source)
    return name, shell.transform_ast(shell.compile.ast_parse(transformed, name))


def name_cells(shell: InteractiveShell) -> None:
    """From now on nodes made in a cell say "In [3]" for their file, not IPython's temporary one."""

    def cell_name(file: str) -> str | None:
        known = shell.compile.format_code_name(file)
        return known[1].replace("In[", "In [") if known is not None else None

    name_sources(cell_name)


def cell_title(shell: InteractiveShell) -> str:
    """Return the name of the running cell: "In [3]"."""
    return f"In [{cell_number(shell)}]"


def cell_number(shell: InteractiveShell) -> int:
    """Return the running cell's number, from the history.

    IPython's count is that of this cell or of the next one, depending on its version.
    """
    history = shell.history_manager
    stored = len(history.input_hist_parsed) - 1 if history is not None else 0
    return stored if stored > 0 else shell.execution_count

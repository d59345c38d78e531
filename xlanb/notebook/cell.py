"""Running a cell's Python as IPython itself would, with observers around it."""

from __future__ import annotations

import ast
from typing import Any

from IPython.core.interactiveshell import InteractiveShell


def run_cell(shell: InteractiveShell, source: str) -> Any:
    """Run Python in the user's namespace; the value of a last expression, None if there is none.

    Line magics and shell escapes work; what the cell raises comes out as it is, its traceback pointing into the cell.
    """
    __tracebackhide__ = True
    transformed = shell.transform_cell(source)
    name = shell.compile.cache(transformed, shell.execution_count, raw_code=source)
    tree = shell.transform_ast(shell.compile.ast_parse(transformed, name))
    last = tree.body[-1] if tree.body else None
    namespace = shell.user_ns
    if not isinstance(last, ast.Expr):
        exec(compile(tree, name, "exec"), shell.user_global_ns, namespace)
        return None
    exec(compile(ast.Module(tree.body[:-1], tree.type_ignores), name, "exec"), shell.user_global_ns, namespace)
    return eval(compile(ast.Expression(last.value), name, "eval"), shell.user_global_ns, namespace)

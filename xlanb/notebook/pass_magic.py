"""`%%xla_pass`: a user's pass, written in a cell."""

from __future__ import annotations

import ast

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.display import display

from xlanb.errors import ArgumentError, PassError
from xlanb.explorer.user_pass import HELPERS, as_module, join_pipeline, leave_pipeline, make_pass, try_pass
from xlanb.notebook.cell import run_cell
from xlanb.notebook.saved import in_notebook
from xlanb.notebook.shell import options_of, shell_of, unquoted


@magics_class
class PassMagics(Magics):
    """The magics on passes."""

    @no_var_expand
    @cell_magic
    @magic_arguments()
    @argument("-n", "--name", help="the pass's name (default: that of the function or class, with - for _)")
    @argument(
        "--after", metavar="PASS", help="run after each pass with this name (default: at the end of the HLO passes)"
    )
    @argument(
        "--try",
        dest="trial",
        metavar="VAR",
        help="apply it to the module in a variable, and compare the results using the reference interpreter; a "
        "pass that changes them is not added to the pipeline",
    )
    @argument("--no-join", action="store_true", help="define it without adding it to a pipeline")
    @argument("-o", "--output", metavar="VAR", help="store the trial, or otherwise the pass, in a variable")
    @argument("-q", "--quiet", action="store_true", help="say nothing")
    def xla_pass(self, line: str, cell: str) -> None:
        """Define a pass for the default pipeline of later compilations.

        The pass is the cell's last function (of a module) or subclass of HloPass. HloModule,
        HloOpcode, HloPass, Builder (makes instructions in place of another) and match (patterns)
        are predefined. The verifier runs after the pass; errors of the pass point into the cell.

            %%xla_pass --after algsimp
            def no_double_negation(module):
                for c in module.post_order():
                    for i in c.post_order():
                        x = i.operands[0] if i.operands else i
                        if i.opcode is HloOpcode.NEGATE and x.opcode is HloOpcode.NEGATE:
                            c.replace(i, x.operands[0])
        """
        __tracebackhide__ = True
        options = options_of(self.xla_pass, line)
        shell = shell_of(self)
        for name, value in HELPERS.items():
            shell.user_ns.setdefault(name, value)
        run_cell(shell, cell)
        made = make_pass(shell.user_ns[_last_definition(cell)], options.name or "")
        trial = None
        if options.trial:
            trial = try_pass(made, as_module(_value(shell, unquoted(options.trial))))
            display(trial)
            if trial.numerics is not None and not trial.keeps_the_result:
                raise PassError(f"{trial}; it was not added to the pipeline")
        if not options.no_join:
            join_pipeline(made, options.after)
        if options.output:
            shell.user_ns[options.output] = trial if trial is not None else made
        if not options.quiet:
            where = f"after {options.after}" if options.after else "at the end of the HLO passes"
            told = f"runs {where} in later compilations; %xla_unpass {made.name} removes it"
            verdict = [str(trial)] if trial is not None and in_notebook() else []  # a terminal printed it
            text = "\n".join([*verdict, f"pass {made.name}: {'defined' if options.no_join else told}"])
            display({"text/plain": text}, raw=True)

    @line_magic
    def xla_unpass(self, line: str) -> None:
        """%xla_unpass NAME: remove a user's pass from the default pipeline."""
        leave_pipeline(line.strip())


def _value(shell: InteractiveShell, expression: str) -> object:
    try:
        value: object = shell.ev(expression)
    except NameError as error:
        raise ArgumentError(f"--try {expression}: {error}") from None
    return value


def _last_definition(cell: str) -> str:
    """The name of the last function or class that a cell defines.

    Raises:
        ArgumentError: it defines none.
    """
    found = [n.name for n in ast.parse(_without_magics(cell)).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    if not found:
        raise ArgumentError("the cell does not define a pass: write a function of a module, or a subclass of HloPass")
    return found[-1]


def _without_magics(cell: str) -> str:
    return "\n".join("" if line.lstrip()[:1] in ("%", "!") else line for line in cell.splitlines())

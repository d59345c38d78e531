"""`%%xla_jit`: run a cell with XLA compilation on, and see every compilation that it causes."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand, output_can_be_silenced
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from xlanb.debug_options import flags
from xlanb.dump import read_hlo
from xlanb.errors import ArgumentError, FeedError, XlanbError
from xlanb.explorer.diff import diff_modules, diff_traces, last_module
from xlanb.explorer.dump_directory import DumpDirectory, read_dump
from xlanb.explorer.live import Compilation
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.trace import Trace
from xlanb.graph.operation import Operation, Tensor
from xlanb.hlo import HloModule
from xlanb.hlo.records import ModuleRecord
from xlanb.notebook.cell import run_cell
from xlanb.notebook.observation import Observation, observation
from xlanb.notebook.widget import StepWidget
from xlanb.runtime.opt import random_value
from xlanb.runtime.program import inputs_of
from xlanb.runtime.session import Session
from xlanb.tracing import observing
from xlanb.view.page import write_page
from xlanb.view.timing import figure

_GENERATIONS = count(1)


@magics_class
class XlaMagics(Magics):
    """The magics of xlanb."""

    @no_var_expand
    @output_can_be_silenced
    @cell_magic
    @magic_arguments()
    @argument("-s", "--step", action="store_true", help="show the step widget: every stage of every compilation")
    @argument("-t", "--time", action="store_true", help="show how long each stage took, as a figure")
    @argument("-o", "--output", metavar="VAR", help="put what was seen into a variable: its traces, the cell's result")
    @argument("-n", "--name", help="a name for the compilation")
    @argument("-f", "--function", metavar="FN", help="compile this function of the cell, called with --args")
    @argument(
        "--args",
        metavar="EXPR",
        help="a dict of feeds for a cell that ends in a tensor, or a tuple of arguments for -f and --lang hlo",
    )
    @argument("-F", "--force", action="store_true", help="compile anew, whatever was compiled before")
    @argument("--only", metavar="RE", help="show only compilations whose name matches")
    @argument("--disable", metavar="P,..", default="", help="HLO passes to leave out")
    @argument(
        "--min-cluster-size",
        type=int,
        default=1,
        help="operations that a cluster must have (TensorFlow's own default is 4)",
    )
    @argument(
        "--export", metavar="FILE.html", help="write the step view as one page that works with no kernel and no network"
    )
    @argument(
        "--lang", choices=("tf", "hlo"), default="tf", help="what the cell holds: Python with xlanb.tf, or HLO text"
    )
    @argument("-q", "--quiet", action="store_true", help="no summary")
    def xla_jit(self, line: str, cell: str) -> Any:
        """Run the cell as Python, with sessions compiling through XLA, and observe every compilation.

        The cell's output, errors and variables are as without the magic. A cell that only builds a graph and ends in a tensor is
        run: placeholders are fed from variables of the same names, or by --args.
        """
        __tracebackhide__ = True
        options = parse_argstring(self.xla_jit, line)
        recorder = Recorder()
        begin = time.perf_counter()
        try:
            with ExitStack() as stack:
                stack.enter_context(observing(recorder))
                stack.enter_context(flags(**_flags(options)))
                result = self._run(options, cell)
        except BaseException:
            # what was compiled before the failure is worth seeing, and the failed stage most of all
            self._show(options, observation(_chosen(recorder, options), None, time.perf_counter() - begin))
            raise
        seen = observation(_chosen(recorder, options), result, time.perf_counter() - begin)
        self._show(options, seen)
        if options.output:
            self._shell.user_ns[options.output] = seen
        return result

    @line_magic
    @magic_arguments()
    @argument("directory", help="what --xla_dump_to or TF_DUMP_GRAPH_PREFIX wrote")
    @argument("-m", "--module", help="step through this module (default: the table of all, and the main program)")
    @argument("-o", "--output", metavar="VAR", help="put the dump directory into a variable")
    def xla_open(self, line: str) -> Any:
        """Open a dump directory of the real XLA: which file is my program, and what became of it."""
        __tracebackhide__ = True
        options = parse_argstring(self.xla_open, line)
        dump = read_dump(_unquoted(options.directory))
        if options.output:
            self._shell.user_ns[options.output] = dump
        if options.module:
            return StepWidget([dump[_unquoted(options.module)]])
        return None if options.output else dump

    @line_magic
    @magic_arguments()
    @argument("before", help="a dump directory, an HLO file, or an expression: a trace, a module, a dump")
    @argument("after", help="the same")
    @argument("-p", "--after-pass", metavar="PASS", help="of two traces: compare after this pass")
    @argument("-o", "--output", metavar="VAR", help="put the difference into a variable")
    def xla_diff(self, line: str) -> Any:
        """Compare two compilations or two modules by structure: names and places do not matter."""
        __tracebackhide__ = True
        options = parse_argstring(self.xla_diff, line)
        before, after = (self._comparable(_unquoted(word)) for word in (options.before, options.after))
        if isinstance(before, Trace) and isinstance(after, Trace):
            both = diff_traces(before, after)
            found: Any = both.at(options.after_pass) if options.after_pass else both
        else:
            records = [last_module(x) if isinstance(x, Trace) else x for x in (before, after)]
            found = diff_modules(records[0], records[1], (options.before, options.after))
        if options.output:
            self._shell.user_ns[options.output] = found
        return found

    def _comparable(self, word: str) -> Trace | ModuleRecord:
        """What a word of %xla_diff stands for."""
        path = Path(word).expanduser()
        if path.is_dir():
            return read_dump(path)[0]
        if path.is_file():
            return read_hlo(path).record()
        try:
            value = self._shell.ev(word)
        except (NameError, SyntaxError) as error:
            raise ArgumentError(f"{word!r} is no directory, no file and no variable ({error})") from None
        if isinstance(value, DumpDirectory):
            return value[0]
        if isinstance(value, Trace | ModuleRecord):
            return value
        trace = getattr(value, "trace", None)
        if isinstance(trace, Trace):
            return trace
        module = value if isinstance(value, HloModule) else getattr(value, "hlo_module", None)
        if isinstance(module, HloModule):
            return module.record()
        raise ArgumentError(f"{word!r} is a {type(value).__name__}: %xla_diff takes traces, modules and dumps")

    @property
    def _shell(self) -> InteractiveShell:
        if self.shell is None:
            raise XlanbError("the magics of xlanb are not registered in a shell: %load_ext xlanb")
        return self.shell

    def _run(self, options: Any, cell: str) -> Any:
        __tracebackhide__ = True
        if options.lang == "hlo":
            return self._run_hlo(cell, self._evaluated(options.args))
        value = run_cell(self._shell, cell)
        if options.function:
            function = self._shell.user_ns.get(options.function)
            if not callable(function):
                raise ArgumentError(f"-f {options.function}: the cell defines no such function")
            arguments = _tuple(self._evaluated(options.args))
            return Compilation(function, *arguments).finish()(*arguments)
        if isinstance(value, Tensor):
            return self._run_tensor(value, self._evaluated(options.args))
        return value

    def _evaluated(self, expression: str | None) -> Any:
        return (
            None
            if expression is None
            else self._shell.ev(expression.strip("\"'") if expression[:1] in "\"'" else expression)
        )

    def _run_hlo(self, text: str, args: Any) -> Any:
        compilation = Compilation(text)
        executable = compilation.finish()
        if args is None:
            parameters = executable.hlo_module.entry_computation.parameters
            return executable(*(random_value(p.shape, i) for i, p in enumerate(parameters)))
        return executable(*_tuple(args))

    def _run_tensor(self, tensor: Tensor, given: Any) -> Any:
        """Run a tensor: feeds by --args, else from variables of the placeholders' names; uninitialised variables are initialised first."""
        session = Session(tensor.graph)
        feeds = {session.fed_tensor(k): v for k, v in (given or {}).items()}
        variables = []
        for source in inputs_of([tensor]):
            if source.op.type in ("VariableV2", "Variable", "VarHandleOp"):
                variables.append(source.op)
            elif source not in feeds:
                feeds[source] = self._value_for(source)
        _initialize(session, variables)
        return session.run(tensor, feeds)

    def _value_for(self, placeholder: Tensor) -> Any:
        name = placeholder.op.name
        value = self._shell.user_ns.get(name)
        if value is None or isinstance(value, Tensor | Operation):
            raise FeedError(
                f"nothing to feed placeholder {name!r} ({placeholder.dtype.name}{placeholder.shape}) with: "
                f"set a variable {name} to an array, or give --args '{{{name!r}: ...}}'"
            )
        return value

    def _show(self, options: Any, seen: Observation) -> None:
        if options.export and seen.traces:
            write_page(list(seen.traces), options.export)
        if options.step and seen.traces:
            display(StepWidget(list(seen.traces)))
        elif not options.quiet:
            display(seen)
        if options.time and seen.traces:
            display(figure(seen.trace))


def _flags(options: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "tf_xla_auto_jit": 2,
        "tf_xla_cpu_global_jit": True,
        "tf_xla_min_cluster_size": options.min_cluster_size,
        "xla_disable_hlo_passes": tuple(filter(None, options.disable.split(","))),
    }
    if options.force:
        values["xlanb_generation"] = next(_GENERATIONS)
    return values


def _chosen(recorder: Recorder, options: Any) -> list[Trace]:
    try:
        wanted = re.compile(options.only or "")
    except re.error as error:
        raise XlanbError(f"--only {options.only!r} is no regular expression: {error}") from None
    traces = [t for t in recorder.traces if wanted.search(t.name)]
    if options.name and traces:
        traces[0].name = options.name
    return traces


def _initialize(session: Session, variables: list[Operation]) -> None:
    """Run the initialisers of these variables; what a graph does not initialise says so when it is read."""
    initializers = [
        user for op in variables for t in op.outputs for user in t.uses if user.type in ("Assign", "AssignVariableOp")
    ]
    first = {op.inputs[0].op: op for op in reversed(initializers)}
    if first:
        session.run(list(first.values()))


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word


def _tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext xlanb`."""
    shell.register_magics(XlaMagics)

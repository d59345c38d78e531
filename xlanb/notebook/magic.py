"""`%%xla_jit`: run a cell with XLA compilation on, and see every compilation that it causes."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from itertools import count
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class, no_var_expand, output_can_be_silenced
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.display import display

from xlanb.debug_options import flags
from xlanb.errors import ArgumentError, XlanbError, nearest
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.running import inputs_for
from xlanb.explorer.trace import Trace
from xlanb.gpu.devices import gpu_device
from xlanb.notebook.cell import name_cells
from xlanb.notebook.completion import complete_magics, pass_names
from xlanb.notebook.dump_magics import DumpMagics
from xlanb.notebook.flag_magic import FlagMagics
from xlanb.notebook.observation import Observation, observation
from xlanb.notebook.pass_magic import PassMagics
from xlanb.notebook.program import CellProgram, CellValue, read_cell
from xlanb.notebook.progress import cell_progress
from xlanb.notebook.reports import check_report_options, show_reports
from xlanb.notebook.shared_code import share_code
from xlanb.notebook.shell import options_of, shell_of
from xlanb.notebook.target_cell import check_targets, target_traces
from xlanb.notebook.tensorflow_magic import TensorflowMagics
from xlanb.notebook.widget import StepWidget
from xlanb.peers.targets.compare import TargetComparison, names_of
from xlanb.tracing import observing
from xlanb.view.page import write_page

_GENERATIONS = count(1)


@magics_class
class XlaMagics(Magics):
    """The cell magic."""

    @no_var_expand
    @output_can_be_silenced
    @cell_magic
    @magic_arguments()
    @argument(
        "-a",
        "--annotate",
        action="store_true",
        help="show the cell's lines tinted by cost, each with its HLO, LLVM IR and assembly",
    )
    @argument("-s", "--step", action="store_true", help="show the step widget: every stage of every compilation")
    @argument(
        "--live",
        action="store_true",
        help="show the step widget before compiling; Next in the widget runs exactly one more pass",
    )
    @argument(
        "-d", "--diff", metavar="A:B", help="show what differs between the HLO after two stages, by name or position"
    )
    @argument("-t", "--time", action="store_true", help="show how long each stage took, as a figure")
    @argument(
        "-r",
        "--repeat",
        type=int,
        metavar="N",
        default=0,
        help="run the compiled program N more times, and show the time per run",
    )
    @argument(
        "-o", "--output", metavar="VAR", help="store the observation in a variable: its traces, the cell's result"
    )
    @argument("-n", "--name", help="a name for the compilation")
    @argument("-f", "--function", metavar="FN", help="compile this function of the cell, called with --args")
    @argument(
        "--args",
        metavar="EXPR",
        help="a dict of feeds for a cell that ends in a tensor, or a tuple of arguments for -f, HLO and JAX functions",
    )
    @argument("-F", "--force", action="store_true", help="recompile, ignoring caches")
    @argument("--only", metavar="RE", help="show only compilations whose name matches")
    @argument("--until", metavar="PASS", help="stop compiling at this pass (or kind of stage), without running")
    @argument("--disable", metavar="P,..", default="", help="HLO passes to disable")
    @argument(
        "--check",
        metavar="RTOL",
        nargs="?",
        const="",
        help="compare the results with those of the reference interpreter; a difference is an error",
    )
    @argument(
        "--against",
        choices=("evaluator", "xla"),
        help="compare the results as --check does, with those of the reference interpreter or of the real XLA "
        "(through JAX)",
    )
    @argument("--bisect", action="store_true", help="find the pass that changed the numbers")
    @argument(
        "--why", metavar="A,B", help="explain why two instructions or nodes were or were not fused, clustered or merged"
    )
    @argument(
        "--target",
        metavar="T,..",
        help="compile with the real XLA for other hardware, without running: h100, a100:8, 'tpu v5e:2x2', "
        "FILE.txtpb; xlanb.targets() lists them. for 'xlanb a100', xlanb itself compiles",
    )
    @argument(
        "--gpu",
        metavar="T",
        default="",
        help="give the cell's sessions a GPU that is emulated on the CPU: a100, h100, ...; XLA clusters are "
        "compiled for it, down to PTX",
    )
    @argument("--shardings", metavar="EXPR", help="with --target: PartitionSpecs or NamedShardings of the arguments")
    @argument(
        "--mesh", metavar="EXPR", help="with --target: the sizes of the mesh's axes, as in {'data': 2, 'model': 4}"
    )
    @argument("--max-nodes", type=int, metavar="N", help="the maximum number of nodes drawn at once")
    @argument(
        "--min-cluster-size",
        type=int,
        default=1,
        help="minimum number of operations in a cluster (TensorFlow's own default is 4)",
    )
    @argument("--export", metavar="FILE.html", help="write the step view as one self-contained HTML page")
    @argument(
        "--lang",
        choices=("auto", "tf", "hlo", "jax"),
        default="auto",
        help="content of the cell: Python with xlanb.tf, HLO text, or Python that ends in a JAX function or "
        "call; detected by default",
    )
    @argument("-q", "--quiet", action="store_true", help="no summary")
    def xla_jit(self, line: str, cell: str) -> Any:
        """Run the cell as Python, with sessions compiling through XLA, and observe every
        compilation.

        The cell's output, errors and variables are as without the magic. If a cell only builds a
        graph and ends in a tensor, the tensor is run: placeholders are fed from variables of the
        same names, or by --args. If a cell ends in a call of a JAX function, the function is
        compiled by xlanb and run.
        """
        __tracebackhide__ = True
        options = options_of(self.xla_jit, line)
        if options.target is not None:
            return self._for_targets(options, cell)
        check_report_options(options)
        recorder = Recorder()
        begin = time.perf_counter()
        try:
            with ExitStack() as stack:
                stack.enter_context(observing(recorder))
                stack.enter_context(flags(**_flags(options)))
                stack.enter_context(cell_progress(recorder))
                made = self._run(options, cell, recorder)
        except BaseException:
            # stages before the failure are useful, and the failed stage most of all
            if recorder.traces:
                self._show(options, observation(_chosen(recorder, options), None, time.perf_counter() - begin), cell)
            raise
        seen = observation(_chosen(recorder, options), made.value, time.perf_counter() - begin, made.why_uncompiled)
        if options.output:
            shell_of(self).user_ns[options.output] = seen
        self._show(options, seen, cell)
        return made.value

    def _for_targets(self, options: Any, cell: str) -> None:
        __tracebackhide__ = True
        names = check_targets(options)
        begin = time.perf_counter()
        made = target_traces(shell_of(self), options, cell, names)
        seen = Observation(tuple(made), None, time.perf_counter() - begin)
        if options.output:
            shell_of(self).user_ns[options.output] = seen
        if len(made) > 1 and not options.quiet:
            display(TargetComparison(tuple(made), tuple(names_of(made))))
        self._show(options, seen, cell)

    def _run(self, options: Any, cell: str, recorder: Recorder) -> CellValue:
        __tracebackhide__ = True
        found = read_cell(
            shell_of(self),
            cell,
            lang=options.lang,
            function=options.function,
            args=options.args,
            stepped=options.live or bool(options.until),
        )
        if not isinstance(found, CellProgram):
            if options.until or options.live:
                raise ArgumentError(
                    "--until and --live need a cell that ends in a tensor, a call of Session.run (also within "
                    "with and for) or of a JAX function, -f, or HLO"
                )
            return found
        compilation = found.compilation()
        if options.live:
            compilation.step()
            display(StepWidget(lambda: compilation.traces, compilation=compilation, max_nodes=options.max_nodes))
            return CellValue(None)
        if options.until:
            compilation.run_to(options.until)
            return CellValue(None)
        result = found.run(compilation)
        for trace in recorder.traces[-1:] if found.arguments is not None else ():
            trace.inputs = found.arguments or ()
        return CellValue(result)

    def _show(self, options: Any, seen: Observation, cell: str) -> None:
        if options.export and seen.traces:
            write_page(list(seen.traces), options.export)
        if options.repeat:
            _repeat(seen, options.repeat)
        if options.step and not options.live and seen.traces:
            display(StepWidget(list(seen.traces), max_nodes=options.max_nodes))
        elif not options.quiet and not options.live:
            display(seen)
        if options.time and seen.traces:
            display(seen.trace.plot())
        show_reports(shell_of(self), options, seen, cell)


def _repeat(seen: Observation, times: int) -> None:
    for trace in seen.traces:
        if trace.program is None:
            continue
        arrays = inputs_for(trace)
        for _ in range(times):
            begin = time.perf_counter()
            trace.program.flat(*arrays)
            trace.runs.append(time.perf_counter() - begin)


def _flags(options: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "tf_xla_auto_jit": 2,
        "tf_xla_cpu_global_jit": True,
        "tf_xla_min_cluster_size": options.min_cluster_size,
    }
    off = tuple(filter(None, (name.strip() for name in options.disable.split(","))))
    known = pass_names()
    for name in off:
        if name not in known:
            raise ArgumentError(f"--disable {name}: no such pass{nearest(name, known)}")
    if off:
        values["xla_disable_hlo_passes"] = off
    if options.gpu:
        values["xlanb_gpu"] = gpu_device(options.gpu).key
    if options.force:
        values["xlanb_generation"] = next(_GENERATIONS)
    return values


def _chosen(recorder: Recorder, options: Any) -> list[Trace]:
    try:
        wanted = re.compile(options.only or "")
    except re.error as error:
        raise XlanbError(f"--only {options.only!r} is not a regular expression: {error}") from None
    traces = [t for t in recorder.traces if wanted.search(t.name)]
    if options.name and traces:
        traces[0].name = options.name
    return traces


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics, for `%load_ext xlanb`.

    They are `%%xla_jit`, `%%xla_pass`, `%xla_open`, `%xla_diff`, `%xla_flags`, `%xla_unpass`, with
    completion. Nodes made in a cell name it as their file.
    """
    shell.register_magics(XlaMagics, DumpMagics, PassMagics, FlagMagics, TensorflowMagics)
    name_cells(shell)
    complete_magics(shell)
    share_code(shell)

"""`%xla_open` and `%xla_diff`: dump directories, and differences of two compilations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from xlanb.dump import read_hlo
from xlanb.dump.dot import read_dot
from xlanb.errors import ArgumentError
from xlanb.explorer.diff import diff_modules, diff_traces, last_module
from xlanb.explorer.dump_directory import DumpDirectory, read_dump
from xlanb.explorer.trace import Trace
from xlanb.files import at_home, is_file, is_folder
from xlanb.hlo import HloModule
from xlanb.hlo.records import ModuleRecord
from xlanb.notebook.shell import options_of, shell_of, unquoted
from xlanb.notebook.widget import StepWidget


@magics_class
class DumpMagics(Magics):
    """Line magics on existing dumps and traces."""

    @line_magic
    @magic_arguments()
    @argument("directory", help="a directory written by --xla_dump_to or TF_DUMP_GRAPH_PREFIX, or one .dot file")
    @argument("-m", "--module", help="step through this module (default: the table of all, and the main program)")
    @argument("-o", "--output", metavar="VAR", help="store the dump directory in a variable")
    def xla_open(self, line: str) -> Any:
        """Open a dump directory of the real XLA: its main program, and what the passes did to
        it.
        """
        __tracebackhide__ = True
        options = options_of(self.xla_open, line)
        place = unquoted(options.directory)
        if place.removesuffix(".gz").endswith((".dot", ".gv")) and is_file(at_home(Path(place))):
            return read_dot(at_home(Path(place)))
        dump = read_dump(place)
        if options.output:
            shell_of(self).user_ns[options.output] = dump
        if options.module:
            return StepWidget([dump[unquoted(options.module)]])
        return None if options.output else dump

    @line_magic
    @magic_arguments()
    @argument("before", help="a dump directory, an HLO file, or an expression: a trace, a module, a dump")
    @argument("after", help="the same")
    @argument("-p", "--after-pass", metavar="PASS", help="compare two traces after this pass")
    @argument("-o", "--output", metavar="VAR", help="store the difference in a variable")
    def xla_diff(self, line: str) -> Any:
        """Compare two compilations or two modules by structure: names and places do not matter."""
        __tracebackhide__ = True
        options = options_of(self.xla_diff, line)
        before, after = (self._comparable(unquoted(word)) for word in (options.before, options.after))
        if isinstance(before, Trace) and isinstance(after, Trace):
            both = diff_traces(before, after)
            found: Any = both.at(options.after_pass) if options.after_pass else both
        else:
            records = [last_module(x) if isinstance(x, Trace) else x for x in (before, after)]
            found = diff_modules(records[0], records[1], (options.before, options.after))
        if options.output:
            shell_of(self).user_ns[options.output] = found
        return found

    def _comparable(self, word: str) -> Trace | ModuleRecord:
        """Return the trace or module that an argument of %xla_diff names."""
        path = at_home(Path(word))
        if is_folder(path):
            return read_dump(path)[0]
        if is_file(path):
            return read_hlo(path).record()
        try:
            value = shell_of(self).ev(word)
        except (NameError, SyntaxError, ValueError) as error:  # ValueError: characters that no source has
            raise ArgumentError(f"{word!r} is not a directory, a file or a variable ({error})") from None
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
        raise ArgumentError(f"{word!r} is of type {type(value).__name__}: %xla_diff takes traces, modules and dumps")

"""`xlanb aot`: an object file and a C++ class, with the options of TensorFlow's tfcompile."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from xlanb.cli.programs import module_of
from xlanb.cli.result import CommandResult
from xlanb.errors import ArgumentError

_TRIPLE = "x86_64-pc-linux"


def add_commands(commands: Any) -> None:
    """Add the command of this file to the command line."""
    aot = commands.add_parser(
        "aot",
        help="compile ahead of time, as tfcompile does: an object file and the header of a C++ class",
    )
    aot.add_argument("file", nargs="?", help="HLO, StableHLO or FILE.py:NAME (alternatively: --graph with --config)")
    aot.add_argument("--args", default="", help="a tuple of arguments for FILE.py:NAME")
    _option(aot, "graph", type=Path, help="a GraphDef, .pb or .pbtxt")
    _option(aot, "config", type=Path, help="the graph's tf2xla.Config: feeds, fetches, variables")
    _option(
        aot,
        "dump-fetch-nodes",
        action="store_true",
        help="print the nodes of the fetches, separated by commas, without compiling",
    )
    _option(aot, "target-triple", default=_TRIPLE, help=f"target triple, as for clang's -target (default: {_TRIPLE})")
    _option(aot, "target-cpu", default="", help="target CPU, as for clang's -mcpu")
    _option(aot, "target-features", default="", help="target features, as in +avx2,+fma")
    _option(aot, "entry-point", default="entry", help="the symbol of the function (default: entry)")
    _option(aot, "cpp-class", help="the C++ class, as in foo::bar::MatMul")
    _option(aot, "out-function-object", type=Path, default=Path("out_model.o"), help="out_model.o")
    _option(aot, "out-header", type=Path, default=Path("out.h"), help="out.h")
    aot.set_defaults(command=_aot)


def _option(parser: argparse.ArgumentParser, name: str, **how: Any) -> None:
    """An option by its own name and by tfcompile's, with underscores."""
    parser.add_argument(*dict.fromkeys((f"--{name}", f"--{name.replace('-', '_')}")), **how)


def _aot(options: argparse.Namespace) -> CommandResult:
    from xlanb.codegen.cross import target_named
    from xlanb.runtime import aot

    if (options.file is None) == (options.graph is None):
        raise ArgumentError("expected a program, or --graph with --config")
    if options.graph is not None and options.config is None:
        raise ArgumentError("--graph: expected --config too, which names the feeds and fetches")
    if options.graph is not None:
        config = aot.read_config(options.config)
        if options.dump_fetch_nodes:
            nodes = aot.fetched_nodes(config)
            return CommandResult(",".join(nodes), nodes)
        from xlanb.graph.graph import Graph

        program = aot.aot_program(Graph.from_graphdef(options.graph), config, options.graph.stem)
    else:
        program = aot.module_program(module_of(options.file, options.args))
    if not options.cpp_class:
        raise ArgumentError("--cpp-class: expected the name of the class, as in foo::bar::MatMul")
    target = target_named(options.target_triple, options.target_cpu, options.target_features)
    code, header = aot.compile_ahead(program, target, options.entry_point, options.cpp_class)
    options.out_function_object.write_bytes(code.data)
    options.out_header.write_text(header, encoding="utf-8")
    files = [str(options.out_function_object), str(options.out_header)]
    data = {
        "object": files[0], "header": files[1], "class": options.cpp_class, "entry": code.name,
        "target": target.triple, "arguments": [str(s.shape) for s in code.arguments],
        "results": [str(s.shape) for s in code.results], "bytes": len(code.data),
        "libraries": list(code.routines),
    }  # fmt: skip
    text = (
        f"{files[0]}: {len(code.data):,} bytes for {target.triple}, function {code.name}\n"
        f"{files[1]}: class {options.cpp_class}, {code.signature.text}"
    )
    return CommandResult(text, data)

"""How modules import each other: never by a string that leads upwards, never in a circle."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import xlanb

ROOT = Path(xlanb.__file__).parents[1]
FILES = sorted((ROOT / "xlanb").rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(p): p for p in FILES}
TEXTS = {module: path.read_text() for module, path in MODULES.items()}


def names_imported_by_string(tree: ast.Module) -> Iterator[str]:
    """Yield the literal beginnings of names passed to `import_module` and `__import__`."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if called in {"import_module", "__import__"}:
            name = call.args[0]
            first = name.values[0] if isinstance(name, ast.JoinedStr) else name
            if isinstance(first, ast.Constant):
                yield str(first.value)


def test_strings_import_only_from_their_own_package() -> None:
    # The face resolves its names lazily. A registry imports the modules of its own package, which
    # register themselves.
    upward = {
        module: names
        for module, path in MODULES.items()
        if module != "xlanb"
        and re.search("import_module|__import__", TEXTS[module])  # to parse them all takes seconds
        and (
            names := [
                n
                for n in names_imported_by_string(ast.parse(TEXTS[module]))
                if n.split(".")[0] == "xlanb" and not f"{n}.".startswith(f"{module_name(path.parent / '__init__.py')}.")
            ]
        )
    }
    assert not upward, "declare a Hook instead, see xlanb/hooks.py"


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Yield the modules of xlanb that a file imports at run time, inside functions too.

    Imports for annotations only are excluded.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            yield from imported_modules(node)


def test_no_import_closes_a_cycle() -> None:
    # An import inside a function may be late to save time, not to hide a cycle.
    imports = {
        module: {m for m in imported_modules(ast.parse(text)) if m in MODULES and m != module}
        for module, text in TEXTS.items()
    }
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"{' <- '.join(error.args[1])}: move what both need to a lower module, or declare a Hook")


# Imports of xlanb's modules inside functions, with reasons; none may close a cycle (see above).
LATE = {
    **dict.fromkeys(
        [
            "xlanb.cli.aot",
            "xlanb.cli.comparison",
            "xlanb.cli.execution",
            "xlanb.cli.faults",
            "xlanb.cli.hardware",
            "xlanb.cli.passes",
            "xlanb.cli.programs",
        ],
        "a command imports what it needs: `xlanb --help` answers at once",
    ),
    "xlanb.buffers.buffer_assignment": "a report is rarely read",
    "xlanb.codegen.math": "most programs have no function that needs doubles",
    "xlanb.codegen.mixed_precision": "most programs compute in one type",
    "xlanb.cpu.codegen.kernel": "few fusions are means",
    "xlanb.cpu.compiler": "most programs run on one device, and are not read from a cache nor written to a file",
    "xlanb.cpu.emitters.matmul.gemm": "most products are not large",
    "xlanb.cpu.emitters.reductions": "few reductions are of pairs",
    "xlanb.cpu.emitters.vector_plan": "few reductions are of pairs",
    "xlanb.cpu.executable": "saving, exporting, profiling, several devices and calls of Python are rare",
    "xlanb.debug_options": "flags are rarely unknown",
    "xlanb.explorer.bisection": "a bisection of a program for the CPU needs no passes of a GPU",
    "xlanb.explorer.branches": "most compilations that are stepped are for the CPU",
    "xlanb.explorer.live": "most compilations that are stepped are for the CPU",
    "xlanb.explorer.trace": "a question to a trace imports what answers it",
    "xlanb.frames": "pandas is slow to import",
    "xlanb.frontends.stablehlo": "HLO text, the usual case, needs no rules of StableHLO",
    "xlanb.gpu": "who reads the table of devices needs no passes",
    "xlanb.graph.foreign": "SavedModels need protobuf",
    "xlanb.hlo.text.parse_attributes": "most programs are for one device",
    "xlanb.hlo.text.parse_instruction": "most programs are for one device and without asynchronous operations",
    "xlanb.hlo.verifier": "most programs are for one device",
    "xlanb.pjrt": "JAX imports the entry points of all plugins when it starts",
    "xlanb.runtime.compiler": "nothing is dumped or profiled, as a rule",
    "xlanb.runtime.emulated": "most clusters are compiled for the CPU",
    "xlanb.cpu.devices": "programs for one device need nothing that merges those of several",
    "xlanb.runtime.compile": "most programs are compiled for the CPU",
    "xlanb.runtime.functions": "most functions are over JAX",
    "xlanb.runtime.jit": "most functions are over JAX",
    "xlanb.runtime.program": "HLO, the usual case, needs none of TensorFlow's ops",
    "xlanb.spmd.shardy_xla": "most programs name no mesh",
    "xlanb.transforms.algebraic_simplifier.facts": "most programs have nothing to fold",
    "xlanb.transforms.dynamic.dynamic_padder": "most programs have no arrays of dynamic size",
    "xlanb.transforms.fusion.attention_fusion": "most programs have no softmax",
    "xlanb.transforms.layout.layout_assignment": "only XLA:GPU has wishes",
    "xlanb.transforms.simplifiers.hlo_constant_folding": "most programs have nothing to fold",
    "xlanb.teach": "a lesson without tables needs no view",
    "xlanb.view.plots.figures": "its class extends plotly's, which is slow to import and may be missing",
}


def test_modules_of_xlanb_are_imported_at_the_top() -> None:
    # Slow libraries (pandas, plotly, JAX, ...) may be imported inside functions anywhere.
    late = {
        module
        for module, text in TEXTS.items()
        if re.search(r"^[ \t]+(?:from|import) +[.\w]", text, re.MULTILINE)  # to parse them all takes seconds
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        if any(m in MODULES for m in imported_modules(function))
    }
    assert late == set(LATE)


# What who compiles for the CPU does not wait for.
_NOT_FOR_THE_CPU = ("xlanb.gpu.compiler", "xlanb.gpu.executable", "xlanb.gpu.emulator.machine", "pandas", "plotly", "jax", "tensorflow")  # fmt: skip


@pytest.mark.parametrize(
    "statement", ["from xlanb import compile", "import xlanb.tf", "from xlanb import trace", "import xlanb.view.reprs"]
)
def test_the_face_loads_nothing_of_other_targets(statement: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(run.stdout.split()) & set(_NOT_FOR_THE_CPU)


_HLO = "HloModule m\nENTRY e { a = f32[4] parameter(0) ROOT n = f32[4] negate(a) }"


def test_compiling_hlo_loads_no_graphs_and_no_passes_that_do_not_run() -> None:
    run = subprocess.run(
        [sys.executable, "-c", f"import xlanb\nxlanb.compile({_HLO!r})\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(run.stdout.split())
    assert "xlanb.transforms.algebraic_simplifier.algebraic_simplifier" in loaded
    assert not loaded & {"xlanb.graph.graph", "xlanb.spmd.devices.merging", "xlanb.transforms.expanders.qr_expander"}


def test_compiling_hlo_imports_no_slow_modules_of_python() -> None:
    code = f"import numpy, ml_dtypes, sys\nbefore = set(sys.modules)\nimport xlanb\nxlanb.compile({_HLO!r})\n"
    code += "print(*(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "xlanb.cpu.compiler" in loaded
    assert not loaded & {"asyncio", "hashlib", "inspect", "logging", "pkgutil", "tempfile"}


def test_a_product_imports_neither_passes_nor_kernels_that_it_has_no_opcodes_for() -> None:
    program = """
import sys
import xlanb

text = "HloModule m\\nENTRY e {\\n  a = f32[8,8] parameter(0)\\n  ROOT d = f32[8,8] dot(a, a), "
xlanb.compile(text + "lhs_contracting_dims={1}, rhs_contracting_dims={0}\\n}")
print(*sorted(m for m in sys.modules if m.startswith("xlanb.")))
"""
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = made.stdout.split()
    assert "xlanb.cpu.emitters.matmul.gemm" in imported
    rare = ("cpu.emitters.linalg", "cpu.emitters.fft", "cpu.emitters.sorting", "cpu.emitters.attention")
    rare += ("transforms.loops.while_loop_simplifier", "transforms.calls.conditional_simplifier", "gpu", "notebook")
    assert [m for m in imported if m.startswith(tuple(f"xlanb.{r}" for r in rare))] == []

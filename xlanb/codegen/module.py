"""The module that functions are collected in, and its text.

It holds symbols, globals, declarations and debug locations.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from xlanb.codegen.costs import Costs
from xlanb.codegen.function import PARALLEL, Function, Parameter
from xlanb.codegen.polling import ATTENTION, CHECK
from xlanb.patterns import pattern

# An HLO instruction may be called "log" or "memcpy": its kernel must not take the name of the C
# library's function.
_C_LIBRARY = frozenset(
    f"{name}{suffix}"
    for name in "acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf exp expm1 fmod log log1p pow sin sinh sqrt "
    "tan tanh".split()
    for suffix in ("", "f")
) | {"memcpy", "memset", "memmove"}

_PLAIN = pattern(r"[^A-Za-z0-9_.\-]")


class CodegenTarget(Protocol):
    """The properties of a machine that code generation needs."""

    @property
    def triple(self) -> str:
        """LLVM's name of the platform."""

    @property
    def data_layout(self) -> str:
        """LLVM's description of sizes and alignments."""

    @property
    def vector_bits(self) -> int:
        """Bits of the vector registers that code should use."""

    @property
    def explicit_vectors(self) -> bool:
        """Whether loops are emitted with vectors; otherwise LLVM's passes vectorize them."""

    @property
    def vector_registers(self) -> int:
        """The number of vector registers."""

    @property
    def enabled(self) -> frozenset[str]:
        """Names of the machine's features, as in LLVM."""

    def __hash__(self) -> int:
        """Hash; equal targets have equal hashes."""

    @property
    def costs(self) -> Costs:
        """The cost table of this machine."""

    @property
    def threads(self) -> int:
        """Threads that share a loop."""

    @property
    def polls(self) -> bool:
        """Whether loops poll (see polling.py)."""

    @property
    def has_c_library(self) -> bool:
        """Whether code may call the functions of C's <math.h>."""

    @property
    def debug_locations(self) -> str:
        """LLVM's emission kind of a module with line numbers."""


def identifier(name: str) -> str:
    """A name that LLVM accepts without quotes."""
    return _PLAIN.sub("_", name)


class ModuleBuilder:
    """Collects functions, globals and declarations; returns the text of the LLVM module.

    `named_by` are the symbols that a global, or a function among the declarations, refers to.
    `made` are the symbols of shared items, by key (see routines.py). `contents` are the contents of
    globals: bytes, or 64-bit words as for `routines.table`. With `line_of` (instruction name ->
    1-based line of the HLO module's text) each function is a DISubprogram and each instruction has
    a DILocation with that line.
    """

    def __init__(
        self, name: str, target: CodegenTarget, line_of: dict[str, int] | None = None, reserved: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.target = target
        self.debug = line_of is not None
        self.line_of = line_of or {}
        self.declarations: dict[str, str] = {}
        self.globals: dict[str, str] = {}
        self.named_by: dict[str, Collection[str]] = {}
        self.contents: dict[str, bytes | tuple[int | str, ...]] = {}
        self.made: dict[object, str] = {}
        self.functions: list[Function] = []
        self.kernels: dict[str, str] = {}
        self._metadata: list[str] = []
        self._locations: dict[tuple[int, int], int] = {}
        self._taken = {PARALLEL, ATTENTION, CHECK, *reserved, *_C_LIBRARY}
        if self.debug:
            self._metadata += [
                '!DIFile(filename: "' + name.replace("\\", "\\5C").replace('"', "\\22") + '.hlo", directory: "")',
                (
                    'distinct !DICompileUnit(language: DW_LANG_C, file: !0, producer: "xlanb", isOptimized: true, '
                    f"runtimeVersion: 0, emissionKind: {target.debug_locations})"
                ),
                "!DISubroutineType(types: !3)",
                "!{null}",
                '!{i32 2, !"Debug Info Version", i32 3}',
                '!{i32 7, !"Dwarf Version", i32 5}',
            ]

    def unique(self, wanted: str) -> str:
        """A symbol that is unique in the module."""
        wanted = identifier(wanted)
        name, n = wanted, 0
        while name in self._taken:
            n += 1
            name = f"{wanted}.{n}"
        self._taken.add(name)
        return name

    def declare(self, result: str, name: str, parameters: str) -> None:
        """Declare an external function or an intrinsic, once."""
        self.declarations[name] = f"declare {result} @{name}({parameters})"

    def function(
        self,
        name: str,
        parameters: Sequence[Parameter],
        attributes: str,
        instruction: str,
        linkage: str = "internal",
    ) -> Function:
        """Add a function `void name(parameters)` that computes an HLO instruction."""
        name = self.unique(name)
        scope = self.subprogram(name, instruction, linkage)
        built = Function(self, name, parameters, attributes, scope, linkage, instruction)
        if self.debug:
            built.locate(instruction)
        self.functions.append(built)
        if instruction:
            self.kernels[name] = instruction
        return built

    def subprogram(self, name: str, instruction: str, linkage: str) -> int | None:
        """The metadata number of a function's DISubprogram.

        None without debug locations, or for a routine that is not an instruction's. In a function
        that has one, LLVM requires a location at each call that it may inline.
        """
        if not self.debug or not instruction:
            return None
        line = self.line_of.get(instruction, 0)
        local = "DISPFlagLocalToUnit | " if linkage == "internal" else ""
        return self._node(
            f'distinct !DISubprogram(name: "{name}", scope: !0, file: !0, line: {line}, type: !2, '
            f"unit: !1, spFlags: {local}DISPFlagDefinition | DISPFlagOptimized)"
        )

    def location(self, line: int, scope: int) -> int:
        """The metadata number of a DILocation."""
        found = self._locations.get((line, scope))
        if found is None:
            found = self._locations[line, scope] = self._node(f"!DILocation(line: {line}, column: 1, scope: !{scope})")
        return found

    def _node(self, text: str) -> int:
        self._metadata.append(text)
        return len(self._metadata) - 1

    @property
    def head(self) -> str:
        """The lines that name the target."""
        return f'target datalayout = "{self.target.data_layout}"\ntarget triple = "{self.target.triple}"'

    def text(self) -> str:
        """The text of the whole module."""
        parts = [
            f"; ModuleID = '{self.name}'",
            self.head,
            "",
            *self.globals.values(),
        ]
        for f in self.functions:
            parts += ["", *f.text()]
        parts += ["", *self.declarations.values(), ""]
        if self.debug:
            parts += ["!llvm.dbg.cu = !{!1}", "!llvm.module.flags = !{!4, !5}", ""]
            parts += [f"!{k} = {m}" for k, m in enumerate(self._metadata)]
        return "\n".join(parts) + "\n"

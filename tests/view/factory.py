"""A trace as a real compilation leaves it, made of real records but without a compiler."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from xlanb.buffers.records import BufferAllocation, BufferAssignmentRecord, BufferValue
from xlanb.cpu.records import CacheRecord, CodeRecord, ExecutionRecord, KernelTime
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.trace import Trace
from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo import HloOpcode, parse
from xlanb.stage import Stage
from xlanb.tracing import (
    CompilationStarted,
    Decision,
    Predicate,
    StageFinished,
    because,
    current_cause,
    emit,
    observing,
)

EVIL = "<img src=x onerror=\"document.title='owned'\">"

HLO = """HloModule cluster_0, entry_computation_layout={(f32[100]{0}, f32[100]{0}, f32[], f32[])->(f32[], f32[])}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add.0 = f32[] add(%a, %b)
}

%square (s: f32[100]) -> f32[100] {
  %s = f32[100]{0} parameter(0)
  ROOT %multiply.9 = f32[100]{0} multiply(%s, %s)
}

ENTRY %cluster_0 (x: f32[100], y: f32[100], w: f32[], b.1: f32[]) -> (f32[], f32[]) {
  %x = f32[100]{0} parameter(0), metadata={op_type="Placeholder" op_name="x_observed" source_file="cell.py" source_line=3}
  %y = f32[100]{0} parameter(1), metadata={op_type="Placeholder" op_name="y_observed" source_file="cell.py" source_line=6}
  %w = f32[] parameter(2), metadata={op_type="VariableV2" op_name="weights" source_file="cell.py" source_line=1}
  %b.1 = f32[] parameter(3), metadata={op_type="VariableV2" op_name="bias" source_file="cell.py" source_line=2}
  %one = f32[] constant(1)
  %w.one = f32[] multiply(%w, %one), metadata={op_type="Identity" op_name="weights/read"}
  %broadcast = f32[100]{0} broadcast(%w.one), dimensions={}, metadata={op_type="Mul" op_name="mul"}
  %multiply = f32[100]{0} multiply(%broadcast, %x), metadata={op_type="Mul" op_name="mul" source_file="cell.py" source_line=4}
  %broadcast.1 = f32[100]{0} broadcast(%b.1), dimensions={}, metadata={op_type="Add" op_name="add"}
  %add = f32[100]{0} add(%multiply, %broadcast.1), metadata={op_type="Add" op_name="add" source_file="cell.py" source_line=4}
  %subtract = f32[100]{0} subtract(%add, %y), metadata={op_type="Sub" op_name="sub" source_file="cell.py" source_line=7}
  %call = f32[100]{0} call(%subtract), to_apply=%square, metadata={op_type="Square" op_name="Square" source_file="cell.py" source_line=7}
  %zero = f32[] constant(0)
  %reduce = f32[] reduce(%call, %zero), dimensions={0}, to_apply=%sum, metadata={op_type="Mean" op_name="Mean" source_file="cell.py" source_line=7}
  %hundred = f32[] constant(100)
  %divide = f32[] divide(%reduce, %hundred), metadata={op_type="Mean" op_name="Mean" source_file="cell.py" source_line=7}
  %two = f32[] constant(2)
  %broadcast.2 = f32[100]{0} broadcast(%two), dimensions={}
  %grad = f32[100]{0} multiply(%broadcast.2, %subtract), metadata={op_type="Mul" op_name="gradients/Square_grad/Mul_1"}
  %gradx = f32[100]{0} multiply(%grad, %x), metadata={op_type="Mul" op_name="gradients/mul_grad/Mul"}
  %reduce.1 = f32[] reduce(%gradx, %zero), dimensions={0}, to_apply=%sum, metadata={op_type="Sum" op_name="gradients/mul_grad/Sum"}
  %rate = f32[] constant(0.025)
  %step = f32[] multiply(%reduce.1, %rate), metadata={op_type="ApplyGradientDescent" op_name="GradientDescent/update_weights"}
  %w.new = f32[] subtract(%w.one, %step), metadata={op_type="ApplyGradientDescent" op_name="GradientDescent/update_weights"}
  ROOT %tuple = (f32[], f32[]) tuple(%divide, %w.new)
}
"""

LLVM = """; ModuleID = 'cluster_0'
target triple = "x86_64-unknown-linux-gnu"

define void @fusion(ptr noalias %0, ptr noalias %1) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr inbounds float, ptr %0, i64 %i
  %v = load <16 x float>, ptr %p, align 64
  %m = fmul <16 x float> %v, %v ; multiply
  %a = fadd <16 x float> %m, %v
  store <16 x float> %a, ptr %1, align 64
  %next = add nuw nsw i64 %i, 16
  %done = icmp eq i64 %next, 96
  br i1 %done, label %exit, label %loop
exit:
  ret void
}
"""

ASM = """\t.text
\t.globl\tfusion
fusion:
\tvmovups\t(%rdi), %zmm0
\tvmulps\t%zmm0, %zmm0, %zmm1
\tvaddps\t%zmm0, %zmm1, %zmm1
\tvmovups\t%zmm1, (%rsi)
\tvzeroupper
\tretq
"""


def graph_record(*, clustered: bool = False) -> GraphRecord:
    """The linear regression of the tutorial, as a graph."""
    rows: list[tuple[str, str, tuple[str, ...], str]] = [
        ("weights", "VariableV2", (), "f32_ref[]"),
        ("bias", "VariableV2", (), "f32_ref[]"),
        ("weights/read", "Identity", ("weights",), "f32[]"),
        ("bias/read", "Identity", ("bias",), "f32[]"),
        ("x_observed", "Placeholder", (), "f32[?]"),
        ("y_observed", "Placeholder", (), "f32[?]"),
        ("mul", "Mul", ("weights/read", "x_observed"), "f32[?]"),
        ("add", "Add", ("mul", "bias/read"), "f32[?]"),
        ("sub", "Sub", ("add", "y_observed"), "f32[?]"),
        ("Square", "Square", ("sub",), "f32[?]"),
        ("Const", "Const", (), "s32[1]"),
        ("Mean", "Mean", ("Square", "Const"), "f32[]"),
        ("gradients/Square_grad/Mul_1", "Mul", ("sub",), "f32[?]"),
        ("gradients/mul_grad/Mul", "Mul", ("gradients/Square_grad/Mul_1", "x_observed"), "f32[?]"),
        ("gradients/mul_grad/Sum", "Sum", ("gradients/mul_grad/Mul", "Const"), "f32[]"),
        ("GradientDescent/learning_rate", "Const", (), "f32[]"),
        (
            "GradientDescent/update_weights",
            "ApplyGradientDescent",
            ("weights", "GradientDescent/learning_rate", "gradients/mul_grad/Sum"),
            "f32_ref[]",
        ),
        ("GradientDescent", "NoOp", ("^GradientDescent/update_weights",), ""),
        ("Print", "PrintV2", ("Mean",), ""),
    ]
    outside = {"weights", "bias", "x_observed", "y_observed", "Print", "GradientDescent"}
    nodes = []
    for line, (name, op, inputs, shape) in enumerate(rows, 1):
        inside = clustered and name not in outside
        reason = "No registered 'PrintV2' OpKernel for XLA_CPU_JIT" if clustered and op == "PrintV2" else ""
        nodes.append(
            NodeRecord(
                name,
                op,
                inputs,
                {"value": "0.025"} if name.endswith("rate") else {},
                (shape,) if shape else (),
                "",
                "cluster_0" if inside else "",
                reason,
                "cell.py",
                line,
            )
        )
    return GraphRecord("train", tuple(nodes))


def encapsulated_record() -> GraphRecord:
    """The same graph with the cluster as a function."""
    full = graph_record(clustered=True)
    inside = [n for n in full.nodes if n.cluster]
    arguments = [NodeRecord(f"arg_{k}", "_Arg", (), {"index": str(k)}, ("f32[?]",)) for k in range(3)]
    names = {"weights/read": "arg_0", "x_observed": "arg_1", "y_observed": "arg_2"}
    body = [
        replace(n, cluster="", inputs=tuple(names.get(i, i) for i in n.inputs)) for n in inside if n.name not in names
    ]
    result = NodeRecord("retval_0", "_Retval", ("Mean",), {"index": "0"})
    function = GraphRecord("cluster_0", (*arguments, *body, result))
    kept = [n for n in full.nodes if not n.cluster]
    kept = [replace(n, inputs=("cluster_0",)) if n.name == "Print" else n for n in kept]
    call = NodeRecord("cluster_0", "cluster_0", ("weights", "x_observed", "y_observed"), {}, ("f32[]",))
    return GraphRecord("train", (*kept, call), (function,))


class FakeCompiler:
    """Emits the events of a compilation, a stage at each call of `step`."""

    def __init__(self, name: str = "linear regression", *, evil: bool = False, fail: bool = False) -> None:
        self.recorder = Recorder()
        self.module = parse(HLO)
        self.evil = evil
        self.fail = fail
        self.name = name
        self._stages = self._run()

    @property
    def traces(self) -> list[Trace]:
        return self.recorder.traces

    def step(self) -> Any:
        """One more stage; None at the end."""
        with observing(self.recorder):
            found = next(self._stages, None)
        return None if found is None else self.traces[0].stages[-1]

    def finish(self) -> Trace:
        while self.step() is not None:
            pass
        return self.traces[0]

    def _run(self) -> Any:
        emit(CompilationStarted(1, self.name))
        graph = graph_record()
        if self.evil:
            graph = GraphRecord(
                graph.name,
                (
                    *graph.nodes,
                    NodeRecord(EVIL, EVIL, ("Mean",), {"k": EVIL}, (EVIL,), EVIL, "", EVIL),
                ),
            )
        yield self._finished("tf_graph", "graph", None, graph, 0.0004)
        yield self._finished("optimize", "constant folding", graph, graph, 0.0002)
        marked = graph_record(clustered=True)
        for n in marked.nodes:
            held = bool(n.cluster)
            emit(
                Decision(
                    current_cause(),
                    "cluster",
                    (n.name,),
                    held,
                    (
                        Predicate("has a kernel for XLA_CPU_JIT", held, n.op),
                        Predicate("cluster large enough", True, "13 >= 1"),
                    ),
                )
            )
        yield self._finished("mark_for_compilation", "mark_for_compilation", graph, marked, 0.0011)
        inside = encapsulated_record()
        yield self._finished("encapsulate_subgraphs", "encapsulate_subgraphs", marked, inside, 0.0009)
        launch = replace(
            inside,
            nodes=tuple(
                replace(n, op="XlaLaunch", attributes={"function": "cluster_0"}) if n.name == "cluster_0" else n
                for n in inside.nodes
            ),
        )
        yield self._finished("build_xla_ops", "build_xla_ops", inside, launch, 0.0003)
        yield self._finished("tf2xla", "tf2xla", None, self.module.record(), 0.0031)
        yield from self._passes()
        if not self.fail:
            yield from self._backend()

    def _passes(self) -> Any:
        entry = self.module.entry_computation
        find = entry.find
        outer = ("optimization", "simplification")
        yield self._pass("call-inliner", outer, self._inline)
        yield self._pass("tuple-simplifier", outer, lambda: None)

        def simplify() -> None:
            parts = (("root", "w.one"), ("a", "w"))
            pattern = EVIL if self.evil else "multiply(a, 1)"
            with because(rule="A * 1 => A", where="multiply.py:41", pattern=pattern, parts=parts, keeps="exact"):
                entry.replace(find("w.one"), find("w"))
            with because(rule="A / C => A * (1 / C)", where="divide.py:22"):
                new = entry.add(HloOpcode.MULTIPLY, [find("reduce"), entry.constant(np.float32(0.01))])
                entry.replace(find("divide"), new)

        yield self._pass("algsimp", outer, simplify)
        yield self._pass("dce", outer, lambda: None)
        if self.fail:
            record = self.module.record()
            yield self._finished(
                "hlo_pass",
                "fusion",
                record,
                record,
                0.001,
                outer,
                error="PassError: fusion broke the module\n  %x = f32[100] parameter(0)",
            )
            return
        yield self._pass("fusion", ("after layout",), self._fuse)
        yield self._pass("copy-insertion", ("after layout",), lambda: None)

    def _inline(self) -> None:
        entry = self.module.entry_computation
        call = entry.find("call")
        assert call is not None
        new = entry.add(HloOpcode.MULTIPLY, [call.operands[0], call.operands[0]], name="multiply.9")
        entry.replace(call, new)
        self.module.remove_unused_computations()

    def _fuse(self) -> None:
        entry = self.module.entry_computation
        x, w, b, y = (entry.find(n) for n in ("x", "w", "b.1", "y"))
        inner = self.module.add_computation("fused_computation")
        p = [inner.add(HloOpcode.PARAMETER, [], shape=i.shape, parameter_number=k) for k, i in enumerate((x, w, b, y))]
        shape = x.shape
        first = inner.add(
            HloOpcode.MULTIPLY,
            [inner.add(HloOpcode.BROADCAST, [p[1]], shape=shape, dimensions=()), p[0]],
        )
        second = inner.add(
            HloOpcode.ADD,
            [first, inner.add(HloOpcode.BROADCAST, [p[2]], shape=shape, dimensions=())],
        )
        inner.set_root(inner.add(HloOpcode.SUBTRACT, [second, p[3]]))
        names = ["broadcast", "multiply", "broadcast.1", "add", "subtract"]
        for producer, consumer in pairwise(names):
            emit(
                Decision(
                    current_cause(),
                    "fuse",
                    (producer, consumer),
                    True,
                    (
                        Predicate("producer is fusible", True, "multiply"),
                        Predicate("fits in registers", True, "2 of 32"),
                    ),
                )
            )
        emit(
            Decision(
                current_cause(),
                "fuse",
                ("subtract", "reduce"),
                False,
                (
                    Predicate("producer is fusible", True),
                    Predicate("producer has one user", False, "2 users: multiply.9, grad"),
                ),
            )
        )
        subtract = entry.find("subtract")
        fusion = entry.add(HloOpcode.FUSION, [x, w, b, y], shape=shape, kind="kLoop", calls=inner, name="fusion")
        entry.replace(subtract, fusion)

    def _backend(self) -> Any:
        record = self.module.record()
        values = (
            BufferValue("fusion", (), "f32[100]", 0, 400, 5, 11),
            BufferValue("grad", (), "f32[100]", 448, 400, 9, 12),
            BufferValue("reduce", (), "f32[]", 896, 4, 10, 11),
        )
        later = (BufferValue("gradx", (), "f32[100]", 0, 400, 12, 14),)
        order = tuple(i.name for i in record.entry_computation.instructions)
        allocations = (
            BufferAllocation(0, "parameter", 400, (BufferValue("x", (), "f32[100]", 0, 400, 0, 18),), 0),
            BufferAllocation(1, "output", 16, (BufferValue("tuple", (), "(f32[], f32[])", 0, 16, 17, 18),)),
            BufferAllocation(2, "temp", 960, values + later),
        )
        yield self._finished(
            "buffer_assignment",
            "buffer_assignment",
            None,
            BufferAssignmentRecord("cluster_0", order, allocations, 804),
            0.0006,
        )
        ir = CodeRecord("llvm", LLVM, ("fusion",), {"fusion": "fusion"}, {11: "multiply", 12: "add"})
        yield self._finished("llvm_ir", "emit LLVM IR", None, ir, 0.0021)
        optimized = CodeRecord(
            "llvm",
            LLVM.replace("; multiply", ""),
            ("fusion",),
            {"fusion": "fusion"},
            {11: "multiply"},
        )
        yield self._finished("llvm_ir_optimized", "optimize LLVM IR", ir, optimized, 0.0182)
        yield self._finished(
            "assembly",
            "assembly",
            optimized,
            CodeRecord("asm", ASM, ("fusion",), {"fusion": "fusion"}, {5: "multiply"}),
            0.0071,
        )
        kernels = (
            KernelTime("fusion", "fusion", 4.1e-6, 1600, 300, "sub", limit=2.05e-6, bound="memory"),
            KernelTime("reduce", "reduce", 1.2e-6, 404, 100, "Mean"),
        )
        yield self._finished(
            "execution",
            "run",
            None,
            ExecutionRecord(7.5e-6, kernels, (("f32[]", "0.1042"), ("f32[]", "2.013"))),
            7.5e-6,
        )
        yield self._finished(
            "compilation_cache",
            "second run",
            None,
            CacheRecord("f32[100] f32[100] f32[] f32[]", True, 1, 1, 1, 5e-6),
            5e-6,
        )

    def _pass(self, name: str, pipeline: tuple[str, ...], change: Any) -> Any:
        before = self.module.record()
        with because(pass_name=name):
            change()
        return self._finished("hlo_pass", name, before, self.module.record(), 0.0002 + 0.0001 * len(name), pipeline)

    def _finished(
        self,
        kind: str,
        name: str,
        before: Any,
        after: Any,
        seconds: float | None,
        pipeline: tuple[str, ...] = (),
        error: str | None = None,
    ) -> bool:
        emit(StageFinished(1, Stage(kind, name, before, after, pipeline, seconds=seconds, error=error)))
        return True


def make_trace(name: str = "linear regression", **options: bool) -> Trace:
    """A whole compilation of the tutorial's program."""
    return FakeCompiler(name, **options).finish()

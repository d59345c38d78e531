"""Data flow between the modules of one dump: exact by TensorFlow's graphs, possible by shapes."""

from __future__ import annotations

from pathlib import Path

import xlanb

MODULE = """HloModule NAME

ENTRY main {
  x = f32[PARAMETER]{0} parameter(0)
  s = f32[] parameter(1)
  ROOT t = (f32[RESULT]{0}, f32[]) custom-call(x, s), custom_call_target="f"
}
"""
TYPE = 'attr { key: "T" value { type: DT_FLOAT } }'
KERNEL = 'attr { key: "_XlaCompiledKernel" value { b: true } } attr { key: "_XlaNumConstantArgs" value { i: 1 } }'
INDEX = ' attr { key: "index" value { i: 0 } }'
FUNCTION = """function { signature { name: "NAME"
  input_arg { name: "c" type: DT_FLOAT } input_arg { name: "a" type: DT_FLOAT } output_arg { name: "r" type: DT_FLOAT } }
  ret { key: "r" value: "a" } }
"""


def node(name: str, op: str, *inputs: str, attrs: str = TYPE) -> str:
    return f'node {{ name: "{name}" op: "{op}" {" ".join(f"input: {i!r}" for i in inputs)} {attrs} }}\n'.replace(
        "'", '"'
    )


ARGS = "".join(node(n, "_Arg", attrs=TYPE + f' attr {{ key: "index" value {{ i: {k} }} }}') for k, n in enumerate("ab"))
LIBRARY = "library {" + "".join(FUNCTION.replace("NAME", f"cluster_{k}") for k in (0, 1)) + "}\n"


def write_modules(folder: Path) -> None:
    for number, name, parameter, result in ((4, "cluster_0", 8, 16), (9, "cluster_1", 16, 4)):
        whole = f"{name}__XlaCompiledKernel_true__XlaNumConstantArgs_1_.5"
        text = MODULE.replace("NAME", whole).replace("PARAMETER", str(parameter)).replace("RESULT", str(result))
        (folder / f"module_{number:04d}.{whole}.before_optimizations.txt").write_text(text)


def test_calls_of_clusters_say_what_flows(tmp_path: Path) -> None:
    write_modules(tmp_path)
    graph = ARGS + node("cluster_0", "cluster_0", "a", "b", attrs=KERNEL) + node("hand", "Identity", "cluster_0")
    graph += node("mul", "cluster_1", "a", "hand", "^b", attrs=KERNEL) + node(
        "out", "_Retval", "mul", attrs=TYPE + INDEX
    )
    (tmp_path / "encapsulate_subgraphs_after.pbtxt").write_text(graph + LIBRARY)
    flows = xlanb.read_dump(tmp_path).dataflow
    first, second = "cluster_0 (module_0004)", "cluster_1 (module_0009)"
    assert [(f.source, f.output, f.target, f.parameter, f.kind) for f in flows] == [
        ("a", 0, first, 0, "constant"),
        ("b", 0, first, 1, "data"),
        ("a", 0, second, 0, "constant"),
        (first, 0, second, 1, "data"),
        ("b", -1, second, -1, "control"),
        (second, 0, "out", 0, "data"),
    ]
    assert [(f.source, f.target) for f in flows.between_clusters] == [(first, second)]


def test_todays_pair_of_nodes_is_one_cluster(tmp_path: Path) -> None:
    compiled = (
        'attr { key: "function" value { func { name: "cluster_K" } } } attr { key: "Tconstants" value { list {} } }'
    )
    compiled += ' attr { key: "Targs" value { list { type: DT_FLOAT } } } attr { key: "Nresources" value { i: 0 } }'
    compiled += ' attr { key: "must_compile" value { b: false } }'
    run = 'attr { key: "Targs" value { list { type: DT_FLOAT } } } attr { key: "Tresults" value { list { type: DT_FLOAT } } }'
    graph = ARGS
    for k, taken in ((0, "a"), (1, "c0/merge")):
        graph += node(f"c{k}/xla_compile", "_XlaCompile", taken, attrs=compiled.replace("K", str(k)))
        graph += node(f"c{k}/xla_run", "_XlaRun", taken, f"c{k}/xla_compile", attrs=run)
        graph += node(f"c{k}/call", "Neg", taken)
        graph += node(f"c{k}/merge", "_XlaMerge", f"c{k}/call", f"c{k}/xla_run")
    (tmp_path / "build_xla_ops.pbtxt").write_text(graph)
    flows = xlanb.read_dump(tmp_path).dataflow
    assert ("cluster_0", 0, "cluster_1", 0) in [(f.source, f.output, f.target, f.parameter) for f in flows]
    assert {(f.source, f.target) for f in flows.between_clusters} == {("cluster_0", "cluster_1")}


def test_without_a_graph_shapes_say_what_is_possible(tmp_path: Path) -> None:
    write_modules(tmp_path)
    flows = xlanb.read_dump(tmp_path).dataflow
    assert [(f.source, f.output, f.target, f.parameter, f.type, f.kind) for f in flows] == [
        (
            "cluster_0__XlaCompiledKernel_true__XlaNumConstantArgs_1_.5 (module_0004)",
            0,
            "cluster_1__XlaCompiledKernel_true__XlaNumConstantArgs_1_.5 (module_0009)",
            0,
            "f32[16]",
            "possible",
        )
    ]
    assert "by its shape alone: f32[16] (possible)" in str(flows)


def test_a_dump_without_modules_has_no_flows(tmp_path: Path) -> None:
    assert len(xlanb.read_dump(tmp_path).dataflow) == 0

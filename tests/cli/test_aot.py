"""`xlanb aot`: the class around an object file, compiled by the C++ compiler and run."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from xlanb import tf
from xlanb.cli import main
from xlanb.errors import UnknownOpError
from xlanb.graph.op_library import call
from xlanb.runtime.graph_program import extract_module

CONFIG = """
feed { id { node_name: "x" } shape { dim { size: 2 } dim { size: 3 } } name: "x_in" }
feed { id { node_name: "scope/y" } shape { dim { size: 3 } dim { size: 2 } } name: "scope/y" }
fetch { id { node_name: "t" } name: "out" }
fetch { id { node_name: "acc" } }
variable { node_name: "v" shape { dim { size: 2 } dim { size: 2 } } type: DT_FLOAT }
"""
USER = """
#include <cstdio>
#include "made.h"
int main() {
  using foo::bar::MatMul;
  MatMul m;
  for (int i = 0; i < m.arg0_count(); ++i) m.arg_x_in_data()[i] = i;
  for (int i = 0; i < m.arg1_count(); ++i) m.arg_scope_y_data()[i] = 1;
  m.arg0(0, 1) = 10;
  m.var_v(1, 1) = 100;
  if (!m.Run() || !m.Run()) return 1;
  std::printf("%g %g %g\\n", m.result0(0, 0), m.result_out(1, 1), m.result1(1, 0));
  std::printf("%g %g\\n", m.var_v(0, 0), m.var_v(1, 1));
  std::printf("%d %d %d %d\\n", m.arg0_size(), m.result0_count(), MatMul::LookupArgIndex("v"),
              MatMul::LookupResultIndex("none"));
  float x[6] = {1, 1, 1, 1, 1, 1}, y[6] = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f}, v[4] = {};
  MatMul n(MatMul::AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
  n.set_arg0_data(x);
  n.set_arg_scope_y_data(y);
  const bool ran = n.Run();
  std::printf("%d %s\\n", ran, n.error_msg().c_str());
  n.set_var_v_data(v);
  if (!n.Run()) return 1;
  std::printf("%g %g\\n", n.result1(0, 1), v[1]);
  return 0;
}
"""
HOST = f"{platform.machine()}-linux-gnu"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        with tf.name_scope("scope"):
            y = tf.placeholder(tf.float32, [3, 2], name="y")
        v = tf.Variable(tf.zeros([2, 2]), name="v")
        product = tf.matmul(x, y)
        tf.tanh(product, name="t")
        tf.assign_add(v, product, name="acc")
    graph.save("g.pb")
    Path("c.pbtxt").write_text(CONFIG)
    return tmp_path


def aot(*words: str) -> int:
    return main(["aot", "--graph=g.pb", "--config=c.pbtxt", *words])


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++: not installed")
@pytest.mark.usefixtures("folder")
def test_the_class_of_a_graph_has_the_methods_of_tfcompile() -> None:
    names = ["--cpp_class=foo::bar::MatMul", f"--target_triple={HOST}"]
    assert aot(*names, "--out_function_object=made.o", "--out_header=made.h") == 0
    Path("user.cc").write_text(USER)
    warnings = ["-std=c++11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["g++", *warnings, "user.cc", "made.o", "-o", "user"], check=True)
    out = subprocess.run(["./user"], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == [
        "1 1 24",
        "24 124",
        "24 4 2 -1",
        "0 argument 2 is not set",
        "1.5 1.5",
    ]


@pytest.mark.usefixtures("folder")
def test_what_is_made_is_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert aot("--cpp-class=M", "--target-triple=riscv64-linux-gnu", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["arguments"] == ["f32[2,3]{1,0}", "f32[3,2]{1,0}", "f32[2,2]{1,0}"]
    assert told["target"] == "riscv64-linux-gnu"
    assert Path("out_model.o").stat().st_size == told["bytes"]


def test_a_variable_that_only_tfcompile_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tf.Graph().as_default() as graph:
        handle = call("_XlaAotOnlyVarHandleOp", dtype=tf.float32, shape=[2, 3], name="v")
        doubled = call("ReadVariableOp", handle, dtype=tf.float32) * 2.0
        tf.identity(doubled, name="t")
        graph.save(tmp_path / "g.pb")
        with pytest.raises(UnknownOpError, match="for ahead-of-time compilation only"):
            extract_module([call("VariableShape", handle)])
    config = tmp_path / "c.pbtxt"
    config.write_text(
        'fetch { id { node_name: "t" } }\nvariable { node_name: "v" shape { dim { size: 2 } dim { size: 3 } } }'
    )
    out = [f"--out-header={tmp_path / 'm.h'}", f"--out-function-object={tmp_path / 'm.o'}"]
    assert main(["aot", f"--graph={tmp_path / 'g.pb'}", f"--config={config}", "--cpp-class=M", "--json", *out]) == 0
    assert json.loads(capsys.readouterr().out)["arguments"] == ["f32[2,3]{1,0}"]
    assert "var_v(size_t dim0, size_t dim1)" in (tmp_path / "m.h").read_text()


@pytest.mark.usefixtures("folder")
def test_the_nodes_of_the_fetches_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert aot("--dump_fetch_nodes") == 0
    assert capsys.readouterr().out == "t,acc\n"


def test_a_module_has_a_class_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.hlo").write_text("HloModule m\nENTRY e { x = f32[4] parameter(0)\n ROOT r = f32[4] add(x, x) }")
    header = tmp_path / "m.h"
    words = ["--cpp-class=M", f"--out-header={header}", f"--out-function-object={tmp_path / 'm.o'}"]
    assert main(["aot", str(tmp_path / "m.hlo"), *words]) == 0
    assert "float& arg_x(size_t dim0)" in header.read_text()


@pytest.mark.parametrize(
    ("change", "words", "said"),
    [
        (("size: 3", "size: -1"), [], "expected a shape with all sizes"),
        (('"t"', '"tt"'), [], "'tt'"),
        (("fetch", "fetches"), [], "is not a tf2xla.Config: 4:1"),
        (("DT_FLOAT", "DT_INT32"), [], "variable 'v' has type float32, not int32"),
        (("DT_FLOAT", "DT_FLOAT readonly: true"), [], "readonly, but the program writes it"),
        (('} name: "scope/y"', '} name: "x_in"'), [], "would both be x_in in C++"),
        (("", ""), ["--cpp-class=a::new"], "is a C or C++ keyword"),
        (("", ""), ["--entry-point=9"], "not a C identifier"),
        (("", ""), ["--cpp-class="], "--cpp-class: expected the name of the class"),
        (("", ""), ["--target-triple=nowhere"], "LLVM has no target nowhere"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_compiled_says_why(
    change: tuple[str, str], words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("c.pbtxt").write_text(CONFIG.replace(*change, 1) if change[0] else CONFIG)
    assert aot("--cpp-class=M", *words) == 1
    assert said in capsys.readouterr().err

"""An unknown name raises an error that suggests the nearest one, wherever a name is given."""

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.debug_options import flags
from xlanb.errors import PassError, XlanbError, close_names, nearest
from xlanb.explorer.workbench import Workbench
from xlanb.gpu import devices

TEXT = """HloModule m
ENTRY e {
  rows = f32[4,8] parameter(0)
  weights = f32[8,4] parameter(1)
  product = f32[4,4] dot(rows, weights), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT bent = f32[4,4] tanh(product)
}
"""


@pytest.fixture(scope="module")
def trace():
    return xlanb.trace(TEXT)


@pytest.fixture(scope="module")
def graph():
    made = tf.Graph()
    with made.as_default():
        x = tf.placeholder(tf.float32, [4, 4], name="layer/observed")
        tf.get_variable("weights", shape=[4, 4])
        tf.tanh(x, name="bent")
    return made


@pytest.mark.parametrize(
    ("ask", "near"),
    [
        (lambda t: t["fusoin"], "fusion"),
        (lambda t: t.why("prodct"), "product"),  # codespell:ignore
        (lambda t: t.why("product", "bnt"), "bent"),
        (lambda t: t.why("product", "wieghts"), "weights"),  # codespell:ignore
        (lambda t: t.lineage("wieghts"), "weights"),  # codespell:ignore
        (lambda t: t.diff("fusoin", "dce"), "fusion"),
        (lambda t: Workbench(lambda: [t]).toggle("fusoin"), "fusion"),
        (lambda _: xlanb.cpu.pipeline().without("fusoin"), "fusion"),
        (lambda _: xlanb.cpu.pipeline().until("fusoin"), "fusion"),
        (lambda _: xlanb.cpu.pipeline("defalt"), "default"),  # codespell:ignore
        (lambda _: xlanb.transforms.PASSES["fusoin"], "fusion"),
        (lambda _: xlanb.Compilation(TEXT).run_to("fusoin"), "fusion"),
        (lambda _: devices.gpu_device("h10"), "h100"),
    ],
)
def test_of_a_compilation(trace, ask, near):
    with pytest.raises(XlanbError, match=rf"did you mean (.* or )?'{near}'"):
        ask(trace)


@pytest.mark.parametrize(
    ("ask", "near"),
    [
        (lambda g: g.get_operation_by_name("bennt"), "bent"),
        (lambda g: g.get_tensor_by_name("layer/obsrved:0"), "layer/observed"),
        (lambda g: tf.Session(graph=g).run("bennt:0"), "bent"),
        (lambda g: tf.Session(graph=g).run("bent:0", {"layer/obsrved:0": np.zeros((4, 4))}), "layer/observed"),
        (lambda g: tf.Session(graph=g).read_variable("wieghts"), "weights"),  # codespell:ignore
        (lambda g: xlanb.cluster(g).why("bennt"), "bent"),
        (lambda g: g.subgraph("laier/"), "layer/"),
    ],
)
def test_of_a_graph(graph, ask, near):
    with pytest.raises(XlanbError, match=f"did you mean '{near}'"):
        ask(graph)


def test_of_a_name_that_is_there_nothing_was_decided(trace):
    assert "no pass made a decision" in str(trace.why("rows"))


def test_why_wants_a_name(trace):
    with pytest.raises(XlanbError, match="names of one or two"):
        trace.why()


def test_a_known_pass_that_a_pipeline_does_not_have_is_left_out_without_a_word():
    short = xlanb.cpu.pipeline().until("dce")
    assert "fusion" not in short.names
    assert short.without("fusion").names == short.names


def test_a_flag_may_switch_off_what_is_not_in_the_pipeline():
    """As in XLA: one flag serves programs with different pipelines."""
    with flags(xla_disable_hlo_passes=("no-such-pass", "fusion")):
        assert "fusion" not in [s.name for s in xlanb.trace(TEXT).changed]


def test_what_is_said_where_nothing_is_near():
    assert nearest("x", ["alpha", "beta"]) == "; known: alpha, beta"
    assert nearest("x", []) == "; none exist"
    assert nearest("x", map(str, range(100, 200))) == " among 100"
    assert close_names("beta1", ["beta", "alpha", "beta"]) == ["beta"]


def test_a_branch_says_which_pass_it_cannot_move():
    compilation = xlanb.Compilation(TEXT)
    compilation.step()
    with pytest.raises(PassError, match=r"did you mean (.* or )?'fusion'"):
        compilation.fork(at=0, move={"fusoin": "dce"})

"""cuDNN convolutions with row-major arrays."""

from xlanb.gpu.devices import gpu_device
from xlanb.gpu.pipelines import _named
from xlanb.hlo import HloOpcode, parse

FORWARD = """HloModule m
ENTRY e {
  x = f32[2,8,8,4]{LAYOUT} parameter(0)
  k = f32[3,3,4,16]{KERNEL} parameter(1)
  c = (f32[2,8,8,16]{LAYOUT}, u8[0]{0}) custom-call(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, custom_call_target="__cudnn$convTARGET"
  ROOT r = f32[2,8,8,16]{LAYOUT} get-tuple-element(c), index=0
}"""


def _normalized(layout: str, kernel: str, target: str = "Forward"):
    text = FORWARD.replace("LAYOUT", layout).replace("KERNEL", kernel).replace("TARGET", target)
    module = parse(text)
    _named("layout_normalization@gpu", gpu_device("a100")).run(module)
    module.verify()
    return module


def _calls(module):
    return [i for i in module.entry_computation if i.opcode is HloOpcode.CUSTOM_CALL]


def test_dimensions_are_numbered_as_the_layouts_say() -> None:
    module = _normalized("2,1,3,0", "1,0,2,3")
    (call,) = _calls(module)
    assert "dim_labels=bf01_oi01->bf01" in str(call)
    assert [str(o.shape) for o in call.operands] == ["f32[2,4,8,8]{3,2,1,0}", "f32[16,4,3,3]{3,2,1,0}"]
    assert str(call.shape) == "(f32[2,16,8,8]{3,2,1,0}, u8[0]{0})"
    assert str(module.entry_computation.root.shape) == "f32[2,8,8,16]{2,1,3,0}"


def test_a_row_major_convolution_stays_and_dead_bitcasts_are_left() -> None:
    module = _normalized("3,2,1,0", "3,2,1,0")
    (call,) = _calls(module)
    assert "dim_labels=b01f_01io->b01f" in str(call)
    dead = [i for i in module.entry_computation if i.is_dead]
    assert [i.opcode for i in dead] == [HloOpcode.BITCAST] * 2


def test_other_calls_keep_their_layouts() -> None:
    module = _normalized("2,1,3,0", "1,0,2,3", "Mystery")
    (call,) = _calls(module)
    assert str(call.shape) == "(f32[2,8,8,16]{2,1,3,0}, u8[0]{0})"

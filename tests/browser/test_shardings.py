"""Shardings in a page from disk: stripes on nodes, mesh and arrays on cards, highlighted on hover.

The keyboard highlights them too.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.hlo import parse
from xlanb.spmd.shardy_xla import ShardyXla
from xlanb.tracing import Decision, observing

sys.path.insert(0, str(Path(__file__).parent))
from stepper import Stepper

WHOLE = r"""HloModule program, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}, num_partitions=8

ENTRY main {
  x = f32[64,32]{1,0} parameter(0), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"data\"}, {}]>"}
  w = f32[32,16]{1,0} parameter(1), sharding={devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\"model\"}]>"}
  ROOT y = f32[64,16]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[4,2]<=[8]}
}
"""


@pytest.fixture
def stepper(context, tmp_path):
    record = parse(WHOLE).record()
    path = tmp_path / "program.html"
    Trace("program", [Stage("tf2xla", "program", record, record)]).to_html(str(path))
    context.set_offline(True)
    stepper = Stepper(context.new_page())
    stepper.open(path)
    return stepper


def test_a_device_is_lit_up_in_every_array(stepper):
    stepper.page.get_by_label("Colour by").first.select_option("sharding")
    legend = stepper.page.locator(".legend").first
    assert [k.inner_text() for k in legend.locator(".axis-key").all()] == ["data=4", "model=2"]
    assert '[{"data"}, {"model"}]' in legend.inner_text()
    assert stepper.page.locator(".node[data-op='y'] .stripes rect").count() == 2
    assert stepper.page.locator(".node[data-op='w'] .stripes rect.axis-1").count() == 1
    stepper.page.locator(".node[data-op='y']").first.click()
    section = stepper.page.get_by_role("region", name="Sharding", exact=True)
    section.get_by_role("button", name="Device 3").focus()
    assert (
        section.get_by_role("status").inner_text()
        == "Device 3: y [16:32, 8:16]; operand 0 x [16:32, :]; operand 1 w [:, 8:16]"
    )
    assert [p.inner_text() for p in section.locator("div.part.held").all()] == ["3", "2, 3", "1, 3, 5, 7"]
    section.locator("figure[data-array='operand 0 x'] .part").nth(3).hover()
    assert [p.inner_text() for p in section.locator("button.part.held").all()] == ["6", "7"]
    assert section.get_by_role("status").inner_text() == "Devices 6, 7: [48:64, :] of operand 0 x"
    stepper.page.get_by_label("Colour by").first.select_option("opcode")
    assert stepper.page.locator(".stripes, .axis-key").count() == 0
    assert stepper.errors == []


def test_a_propagation_is_walked_on_the_graph(context, tmp_path):
    whole = re.sub(r"(ROOT y = [^\n]*), sharding=.*", r"\1", WHOLE)
    module = parse(whole)
    before, watcher = module.record(), []
    with observing(SimpleNamespace(on_event=watcher.append)):
        ShardyXla().apply(module)
    told = tuple(e for e in watcher if isinstance(e, Decision))
    path = tmp_path / "program.html"
    stage = Stage("hlo_pass", "shardy-xla", before, module.record(), decisions=told)
    Trace("program", [stage]).to_html(str(path))
    stepper = Stepper(context.new_page())
    stepper.open(path)
    section = stepper.page.get_by_role("region", name="Propagation", exact=True)
    forward = section.get_by_role("button", name="Next step of the propagation")
    forward.click()
    target = stepper.page.locator(".node.spread-to")
    assert target.get_attribute("data-op") == "y"
    assert target.locator(".stripes rect").count() == 1
    assert section.locator("[aria-current=step]").inner_text() == 'y by {"data"} along i, as x'
    stepper.page.wait_for_function(
        "() => document.querySelector('.xlanb-step').shadowRoot.activeElement?.ariaLabel === 'Next step of the propagation'"
    )
    forward.press("Enter")
    assert target.locator(".stripes rect").count() == 2
    assert stepper.page.locator(".node.spread-from").get_attribute("data-op") == "w"
    assert stepper.errors == []

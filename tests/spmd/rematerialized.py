"""The program of openxla/xla#15207, reduced.

An array's sharding has no cheap conversion to the constraint on the sum.
"""

from __future__ import annotations

SIDE = 16
TEXT = """HloModule jit_f, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=4, "y"=2]>}}

ENTRY main {
  a = f32[16,16,16] parameter(0), sharding={devices=[2,1,4]<=[4,2]T(1,0)}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"y\\"}, {}, {\\"x\\"}]>"}
  b = f32[16,16,16] parameter(1), sharding={devices=[2,1,4]<=[4,2]T(1,0)}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"y\\"}, {}, {\\"x\\"}]>"}
  c = f32[16,16,16] parameter(2), sharding={devices=[1,8,1]<=[8]}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\\"x\\", \\"y\\"}, {}]>"}
  add = f32[16,16,16] add(a, b), metadata={op_name="jit(f)/add" source_file="model.py" source_line=7}
  constraint = f32[16,16,16] custom-call(add), custom_call_target="Sharding", sharding={devices=[1,8,1]<=[8]}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}, {\\"x\\", \\"y\\"}, {}]>]>"}, metadata={op_name="jit(f)/sharding_constraint" source_file="model.py" source_line=8}
  sum = f32[16,16,16] add(c, constraint), metadata={op_name="jit(f)/add" source_file="model.py" source_line=9}
  ROOT result = f32[16,16,16] custom-call(sum), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}, {\\"x\\", \\"y\\"}, {}]>]>"}
}
"""
"""d = a + b, d constrained to PS(None, ("x", "y"), None), c + d.

a and b are PS("y", None, "x"), c and the result as the constraint.
"""

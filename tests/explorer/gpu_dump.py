"""A small dump of XLA:GPU for an H100.

It has two kernels, a CUDA graph, a loop, and the steps of priority fusion.
"""

from __future__ import annotations

from pathlib import Path

BEFORE = """HloModule jit_f

ENTRY main {
  x = f32[1024]{0} parameter(0)
  sine.1 = f32[1024]{0} sine(x)
  neg.1 = f32[1024]{0} negate(sine.1)
  ROOT add.1 = f32[1024]{0} add(neg.1, x)
}
"""
FUSED = """HloModule jit_f

fused {
  p = f32[1024]{0} parameter(0)
  q = f32[1024]{0} parameter(1)
  neg.2 = f32[1024]{0} negate(p)
  ROOT add.2 = f32[1024]{0} add(neg.2, q)
}

ENTRY main {
  x = f32[1024]{0} parameter(0)
  sine.1 = f32[1024]{0} sine(x)
  ROOT loop_add_fusion.1 = f32[1024]{0} fusion(sine.1, x), kind=kLoop, calls=fused
}
"""
FINAL = """HloModule jit_f, is_scheduled=true

fused {
  p = f32[1024]{0} parameter(0)
  q = f32[1024]{0} parameter(1)
  neg.2 = f32[1024]{0} negate(p)
  ROOT add.2 = f32[1024]{0} add(neg.2, q)
}

body {
  s = (s32[], f32[1024]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  y = f32[1024]{0} get-tuple-element(s), index=1
  loop_add_fusion.2 = f32[1024]{0} fusion(y, y), kind=kLoop, calls=fused
  ROOT t = (s32[], f32[1024]{0}) tuple(i, loop_add_fusion.2)
}

cond {
  s.1 = (s32[], f32[1024]{0}) parameter(0)
  ROOT c = pred[] constant(true)
}

ENTRY main {
  x = f32[1024]{0} parameter(0)
  z = s32[] constant(0)
  wrapped_sine = f32[1024]{0} sine(x), metadata={op_name="jit(f)/sin" source_file="model.py" source_line=7}
  loop_add_fusion.1 = f32[1024]{0} fusion(wrapped_sine, x), kind=kLoop, calls=fused
  tuple = (s32[], f32[1024]{0}) tuple(z, loop_add_fusion.1)
  while.1 = (s32[], f32[1024]{0}) while(tuple), condition=cond, body=body, backend_config={"known_trip_count":{"n":"3"}}
  ROOT r = f32[1024]{0} get-tuple-element(while.1), index=1
}
"""
THUNKS = """\
000: kCommandBuffer [source | next=003 (1)]
    001: kCustomKernel [source | next=002 (1)] wrapped_sine grid: [8, 1, 1] threads: [128, 1, 1]  shared_memory: 0 bytes
    002: kCustomKernel [prev=001 (1) | sink] loop_add_fusion_1 grid: [8, 1, 1] threads: [128, 1, 1]  shared_memory: 0 bytes
003: kWhile [prev=002 (1) | sink]
  body:
    004: kCustomKernel [source | sink] loop_add_fusion_1 grid: [8, 1, 1] threads: [128, 1, 1]  shared_memory: 0 bytes
"""
METADATA = "".join(
    f'thunk_metadata {{\n  thunk_info {{\n    profile_annotation: "{name}"\n    thunk_id: {n}\n  }}\n}}\n'
    for n, name in ((1, "wrapped_sine"), (2, "loop_add_fusion.1"), (3, "while.1"), (4, "loop_add_fusion.2"))
)
DECISIONS = """\
fusion_steps { update_priority { producer_name: "sine.1" consumer_names: "neg.1" us_fused: 2.5 us_unfused: 2.25 } }
fusion_steps { update_priority { producer_name: "neg.1" consumer_names: "add.1" us_fused: 1.05 us_unfused: 2.1 } }
fusion_steps { fusion { fusion_name: "fusion.9" producer_name: "neg.1" consumer_name: "add.1" } }
fusion_steps { producer_ineligible { producer_name: "sine.1" reason: "the consumer is not fusible" } }
"""
TARGET = 'gpu_device_info {\n  name: "NVIDIA H100 80GB HBM3"\n}\ndevice_description_str: "NVIDIA H100 80GB HBM3"\n'
PTX = """\
.version 8.8
.target sm_90a
.visible .entry {name}(
	.param .u64 {name}_param_0
)
.reqntid 128, 1, 1
{{
	ld.param.b64 	%rd1, [{name}_param_0];
	ret;
}}
"""
LLVM = "define ptx_kernel void @{name}(ptr %arg0) {{\n  ret void\n}}\n"
REPORT = """\
ptxas info    : Compiling entry function '{name}' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers
"""
SASS = """\
//--------------------- .text.{name} --------------------------
	//## File ".nv_debug_ptx_txt", line 9
        /*0000*/                   EXIT ;
"""


def write_dump(folder: Path, **files: str) -> None:
    """Write a small dump of XLA:GPU; `files` replace or add some by suffix, "" omits one."""
    texts = {
        "before_optimizations.txt": BEFORE,
        "0001.fusion.after_pipeline-start.before_priority-fusion.txt": BEFORE,
        "0002.fusion.after_priority-fusion.before_dce.txt": FUSED,
        "sm_9.0a_gpu_after_optimizations.txt": FINAL,
        "thunk_sequence_after_thunk_passes.txt": THUNKS,
        "thunk_metadata.txt": METADATA,
        "priority_fusion_dump.txt": DECISIONS,
        "gpu_target_config.pbtxt": TARGET,
        "autotune_results.pbtxt": "version: 3\n",
    }
    for k, name in enumerate(("wrapped_sine", "loop_add_fusion_1")):
        texts[f"{2 * k}.ir-no-opt.ll"] = LLVM.format(name=name)
        texts[f"{2 * k + 1}.ir-with-opt.ll"] = "; optimized\n" + LLVM.format(name=name)
        texts[f"{2 * k + 1}.ptx"] = PTX.format(name=name)
        texts[f"{2 * k + 1}.ptxas.txt"] = REPORT.format(name=name)
        texts[f"{2 * k + 1}.sass"] = SASS.format(name=name)
    folder.mkdir(exist_ok=True)
    for end, text in (texts | files).items():
        if text:
            (folder / f"module_0001.jit_f.{end}").write_text(text)

"""PTX to machine code: several kernels at once, each with its own line numbers.

With substitutes for NVIDIA's tools, and with the tools.
"""

import re
import sys
from pathlib import Path

import pytest

from xlanb.dump.gpu.ptxas import parse_ptxas, refusal
from xlanb.errors import MissingPeerError
from xlanb.peers import cuda_tools
from xlanb.peers.cuda_tools import assemble, find_tool, toolkit_flag

PTX = """\
.version 8.8
.target sm_90a
.address_size 64

.extern .shared .align 16 .b8 global_smem[];
.visible .entry {name}(
	.param .u64 {name}_param_0
)
.reqntid 64, 1, 1
{{
	mov.b64 	%rd1, global_smem;
	{line}
	ret;
}}
"""

# ptxas copies the PTX, nvdisasm prints the line of every `ret`. Like the real tools, neither
# accepts a variable twice.
PTXAS = """
import re, sys
text = open(sys.argv[-1]).read()
names = re.findall(r"[.]shared .*? (\\w+)\\[", text)
if "foo" in text or len(set(names)) < len(names) or text.count("\\n.version") + text.startswith(".version") != 1:
    sys.exit("ptxas fatal : Not a name of any known instruction: 'foo'")
for entry in re.findall(r"[.]entry (\\w+)", text):
    print(f"ptxas info    : Compiling entry function '{entry}' for 'sm_90a'", file=sys.stderr)
    print(f"ptxas info    : Used {len(entry)} registers", file=sys.stderr)
open(sys.argv[sys.argv.index("-o") + 1], "w").write(text)
"""
NVDISASM = """
import re, sys
if "deprecated" in open(sys.argv[-1]).read():
    sys.exit("CUDA architecture is deprecated")
print("nvdisasm warning : Dataflow analysis disabled")
for k, line in enumerate(open(sys.argv[-1]), 1):
    entry = re.search(r"[.]entry (\\w+)", line)
    if entry:
        print(f"//--------------------- .text.{entry[1]} --------------------------")
    if "ret;" in line:
        print(f'\\t//## File ".nv_debug_ptx_txt", line {k}')
        print("        /*0000*/                   EXIT ;")
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, text in (("ptxas", PTXAS), ("nvdisasm", NVDISASM)):
        tool = folder / name
        tool.write_text(f"#!{sys.executable}\n{text}")
        tool.chmod(0o755)
    monkeypatch.setattr(cuda_tools, "find_tool", lambda name: str(folder / name))


def _write(folder: Path, kernels: dict[str, str]) -> None:
    for k, (name, line) in enumerate(kernels.items()):
        (folder / f"module_0001.jit_f.{k}.ptx").write_text(PTX.format(name=name, line=line))


@pytest.mark.usefixtures("tools")
def test_kernels_are_assembled_together_and_written_apart(tmp_path: Path) -> None:
    _write(tmp_path, {"fusion": "add;", "fusion_1": "sub;", "gemm_fusion_dot_10": "mul;\n\tmul;"})
    (tmp_path / "module_0001.jit_f.constants.ptx").write_text("")  # as XLA writes it
    made = assemble(tmp_path)
    assert [a.entries for a in made] == [("fusion",), ("fusion_1",), ("gemm_fusion_dot_10",)]
    assert not any(a.error for a in made)
    for a in made:
        ret = a.ptx.read_text().splitlines().index("\tret;") + 1
        sass = a.sass.read_text()
        assert re.findall(r"line (\d+)", sass) == [str(ret)]
        assert a.entries[0] in sass
        assert "warning" not in sass
        assert f"Used {len(a.entries[0])} registers" in a.report.read_text()
        assert a.report.read_text().count("Compiling") == 1


@pytest.mark.usefixtures("tools")
def test_a_kernel_that_is_refused_says_so_and_the_others_are_assembled(tmp_path: Path) -> None:
    _write(tmp_path, {"good": "add;", "bad": "foo;", "better": "sub;"})
    (tmp_path / "module_0001.jit_f.9.ptx").write_text("hello")
    made = assemble(tmp_path)
    assert [bool(a.error) for a in made] == [False, True, False, True]
    assert "known instruction: 'foo'" in made[1].error
    assert "known instruction: 'foo'" in made[1].report.read_text()
    assert not made[1].sass.exists()
    assert ".target" in made[3].error
    assert made[2].sass.exists()


@pytest.mark.usefixtures("tools")
def test_a_gpu_too_old_for_nvdisasm_keeps_its_report(tmp_path: Path) -> None:
    _write(tmp_path, {"fusion": "add;", "fusion_1": "deprecated;"})
    made = assemble(tmp_path)
    assert [a.error for a in made] == ["no SASS: nvdisasm rejects the input: CUDA architecture is deprecated"] * 2
    for a in made:
        report = a.report.read_text()
        assert [r.registers for r in parse_ptxas(report)] == [len(a.entries[0])]
        assert refusal(report) == "nvdisasm rejects the input: CUDA architecture is deprecated"


@pytest.mark.usefixtures("tools")
def test_what_is_assembled_is_left_alone(tmp_path: Path) -> None:
    _write(tmp_path, {"fusion": "add;"})
    first = assemble(tmp_path)[0]
    first.sass.write_text("kept")
    assert assemble(tmp_path)[0] == first
    assert first.sass.read_text() == "kept"


@pytest.mark.usefixtures("tools")
def test_entries_of_one_name_are_assembled_apart(tmp_path: Path) -> None:
    for k in (1, 2):
        (tmp_path / f"module_0001.jit_f.{k}.ptx").write_text(PTX.format(name="fusion", line="add;"))
    assert [a.error for a in assemble(tmp_path)] == ["", ""]


def test_a_missing_tool_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingPeerError, match=r"pip install 'xlanb\[gpu\]'"):
        find_tool("no-such-tool")


def test_the_wheels_of_the_environment_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia" / "cuda_nvcc" / "bin" / "ptxas"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    assert find_tool("ptxas") == str(tool)
    assert toolkit_flag() == f"--xla_gpu_cuda_data_dir={tool.parent.parent}"


@pytest.mark.peer
@pytest.mark.target
def test_the_real_tools_agree_with_each_kernel_by_itself(tmp_path: Path) -> None:
    try:
        find_tool("ptxas"), find_tool("nvdisasm")
    except MissingPeerError as error:
        pytest.skip(str(error))
    body = "ld.param.u64 %rd2, [{name}_param_0];\n\tst.global.u64 [%rd2], %rd1;"
    names = ["fusion", "fusion_1", "fusion_2"]
    for folder, mine in (("all", names), ("one", names[:1])):
        (tmp_path / folder).mkdir()
        texts = {n: ".reg .b64 %rd<3>;\n\t" + body.format(name=n) for n in mine}
        for k, name in enumerate(mine):
            text = PTX.format(name=name, line="").replace("\tmov", f"\t{texts[name].splitlines()[0]}\n\tmov")
            text = text.replace("global_smem;\n\t\n", "global_smem;\n\t" + body.format(name=name) + "\n")
            (tmp_path / folder / f"module_0001.jit_f.{k}.ptx").write_text(text)
    together, alone = assemble(tmp_path / "all"), assemble(tmp_path / "one")
    assert [a.error for a in (*together, *alone)] == [""] * 4
    assert together[0].report.read_text() == alone[0].report.read_text()
    assert re.findall(r"line (\d+)", together[0].sass.read_text()) == re.findall(
        r"line (\d+)", alone[0].sass.read_text()
    )
    assert "EXIT" in together[2].sass.read_text()

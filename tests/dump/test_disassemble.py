from __future__ import annotations

import shutil

import llvmlite.binding as llvm
import pytest

from xlanb.dump.disassemble import disassemble
from xlanb.errors import XlanbError

pytestmark = pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")


@pytest.fixture(scope="module")
def machine():
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine()


def test_many_objects_at_once_each_with_its_own_functions(machine):
    objects = [
        machine.emit_object(llvm.parse_assembly(f"define i32 @kernel_{k}(i32 %x) {{\n  ret i32 %x\n}}"))
        for k in range(5)
    ]
    texts = disassemble(objects)
    assert [t.splitlines()[0] for t in texts] == [f"kernel_{k}:" for k in range(5)]
    assert all("ret" in t for t in texts)


def test_what_is_no_object_does_not_spoil_its_neighbours(machine):
    good = machine.emit_object(llvm.parse_assembly("define void @f() {\n  ret void\n}"))
    assert all(isinstance(found, XlanbError) for found in disassemble([b""]))
    first, second, third = disassemble([b"", good, b"no object"])
    assert isinstance(first, XlanbError)
    assert second.startswith("f:")
    assert isinstance(third, XlanbError)
    assert "not an object file" in str(third)

"""Write the files of a new pass: `make new-pass NAME=double-negation [FOLDER=simplifiers]`."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from xlanb.transforms import PASSES

ROOT = Path(__file__).parents[2]
PASS = '''"""One sentence that says what the pass does (the XLA file that it follows).

    b = f32[8] negate(a)
    c = f32[8] negate(b)      =>    ROOT t = f32[8] tanh(a)
    ROOT t = f32[8] tanh(c)

What the pass does not change, and why.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.transforms.base import HloPass


@dataclass(frozen=True)
class {type_name}(HloPass):
    """One sentence that says what the pass does."""

    name = "{name}"

    def apply(self, module: HloModule) -> None:
        for computation in module.computations:
            for i in list(computation):
                if i.opcode is HloOpcode.NEGATE and i.operands[0].opcode is HloOpcode.NEGATE:
                    computation.replace(i, i.operands[0].operands[0])
'''
GOLDEN = """HloModule example

ENTRY e {
  a = f32[8] parameter(0)
  b = f32[8] negate(a)
  c = f32[8] negate(b)
  ROOT t = f32[8] tanh(c)
}
"""


def main() -> int:
    """Write a working pass to be changed, and an example for it; 1 if they already exist."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="XLA's name of the pass, as in double-negation")
    parser.add_argument("--folder", default="simplifiers", help="of xlanb/transforms")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    options = parser.parse_args()
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", options.name):
        parser.error(f"{options.name!r}: expected small letters, digits, - and _")
    stem = options.name.replace("-", "_")
    code = options.root / "xlanb/transforms" / options.folder / f"{stem}.py"
    golden = options.root / "tests/transforms/goldens" / options.name / "example.hlo"
    if not code.parent.is_dir():
        parser.error(f"{code.parent}: there is no such folder")
    if options.name in PASSES or code.exists() or golden.exists():
        print(f"there is a pass {options.name!r} already", file=sys.stderr)
        return 1
    type_name = "".join(word.capitalize() for word in stem.split("_"))
    code.write_text(PASS.format(type_name=type_name, name=options.name), encoding="utf-8")
    golden.parent.mkdir(parents=True)
    golden.write_text(GOLDEN, encoding="utf-8")
    print(f"{code}\n{golden}")
    print("next: make test PYTEST_ARGS='tests/transforms/test_goldens.py --update-goldens', make generate")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Write the reference pages that are made from tables, and the list of the modules of passes.

Run `python docs/generate.py`. A test checks that the files are current.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

from xlanb.clustering.xla_kernels import NOT_ON_GPU
from xlanb.cpu import pipeline
from xlanb.cpu.pipelines import ADDED, LEFT_OUT, NOT_IN_XLA_CPU, PIPELINES, RELEASES
from xlanb.debug_options import flag_table
from xlanb.dump.graph_names import GRAPHS, OPTIMIZERS
from xlanb.dump.names import KERNEL_ENDS, LABELS
from xlanb.dump.tpu.names import LABEL_WORDS
from xlanb.flag_names import REAL_FLAGS
from xlanb.gpu.pipelines import missing_passes
from xlanb.gpu.pipelines import pipeline as gpu_pipeline
from xlanb.hlo.opcode import Attribute, HloOpcode
from xlanb.runtime.registered_ops import RegisteredOp, table
from xlanb.transforms import PASSES
from xlanb.transforms.algebraic_simplifier.algebraic_simplifier import RULES
from xlanb.transforms.base import HloPass
from xlanb.transforms.purpose import drawing

REFERENCE = Path(__file__).parent / "reference"
PASS_MODULES = Path(__file__).parents[1] / "xlanb/transforms/pass_modules.py"
_ROWS = '_ROWS = """'
_FEW = 6
"""Triggers of a pass that its row has: a module without any of six opcodes is frequent."""
_KEPT_BY_PASSES = (
    "The column *keeps* says which numerical properties a pass preserves. An *exact* pass preserves the bits of "
    "every element; a NaN may become another NaN. A pass that keeps *real numbers only* is exact for "
    "integers, but rounds floats differently. Errors are in ulp, units in the last place, of the largest "
    "magnitude in an array. Tests check each pass with f8 to f64, complex numbers and integers: "
    "random mantissas, the smallest and largest values, denormals, both zeros, infinities and NaN."
)
COUNTEREXAMPLES = Path(__file__).parents[1] / "tests/transforms/verdicts/counterexamples.json"
_WIDEST = 90
_LOSSES = {"NAN": "NaN", "INFINITY": "an infinity", "ZERO_SIGN": "the sign of a zero", "ROUNDING": "another number"}
_RUN_BOTH = (
    "```python",
    "import jax",
    "import xlanb",
    "from xlanb.peers.xla import RealExecutable",
    "",
    "print(jax.__version__, xlanb.evaluate(xlanb.hlo.parse(text), *arrays), RealExecutable(text)(*arrays))",
    "```",
)
_VERDICTS = (
    "Each rule preserves the bits of integers and predicates. Its verdict says what it preserves of floating-point "
    "numbers. *Exact*: the same bits; a NaN may become another NaN. *Real numbers only*: equal for real numbers, "
    "but rounding, overflow and underflow may change. `python -m benchmarks verdicts` establishes the verdicts. "
    "[Where algsimp changes numbers](counterexamples.md) lists inputs for which rules change the result, and the "
    "results of the real XLA."
)


def opcodes() -> str:
    """The page of HLO opcodes, by kind, from the one table of them."""
    kinds: dict[str, list[HloOpcode]] = {}
    for opcode in HloOpcode:
        kinds.setdefault(opcode.kind, []).append(opcode)
    lines = [
        "# HLO opcodes",
        "",
        f"All {len(HloOpcode)} opcodes that the parser, the verifier and the evaluator support. A `?` marks an "
        "optional attribute. Generated from the table in `xlanb/hlo/opcode.py`.",
        "",
    ]
    for kind, members in sorted(kinds.items()):
        lines += [f"## {kind}", "", "| opcode | operands | attributes | meaning |", "|---|---|---|---|"]
        for opcode in members:
            arity = "any" if opcode.arity is None else str(opcode.arity)
            lines.append(
                f"| `{opcode.text}` | {arity} | {', '.join(map(_attribute, opcode.attributes))} | {opcode.summary} |"
            )
        lines.append("")
    return "\n".join(lines)


def _attribute(attribute: Attribute) -> str:
    return f"`{attribute.name}`" + ("" if attribute.required else "?")


def flags() -> str:
    """The page of flags, from the table of them."""
    lines = [
        "# Flags",
        "",
        "xlanb reads these flags from `XLA_FLAGS` and `TF_XLA_FLAGS`; `XLANB_FLAGS` takes all of them. In "
        'Python, `with xlanb.flags("--name=value"):` sets them for a block without changing',
        f"the environment. The other {len(REAL_FLAGS):,} flags of the real XLA and TensorFlow are accepted and "
        "have no effect; an unknown name is an error. Generated from `xlanb/debug_options.py`.",
        "",
        "| flag | default | meaning |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{name}` | {f'`{default}`' if default else ''} | {_cell(meaning)} |"
        for name, default, meaning in flag_table()
    ]
    return "\n".join([*lines, ""])


def dumps() -> str:
    """The page of names of dumped files, from the tables of them."""
    lines = [
        "# Names of dumped files",
        "",
        "The files that `--xla_dump_to` writes and `xlanb.read_dump` reads. Generated from `xlanb/dump/names.py`.",
        "",
        "| name | what it is |",
        "|---|---|",
        "| `module_NNNN.MODULE.SSSS.PIPELINE.after_PASS.before_PASS.EXT` | the HLO between two passes: NNNN is "
        "the module's number in its process, SSSS counts its dumps |",
        "| `module_NNNN.MODULE.SSSS.PASS.after_STEP.EXT` | the HLO inside a pass |",
        "| `TIMESTAMP.module_NNNN...` | with `--xla_dump_include_timestamp`: microseconds |",
        "| `module_NNNN.SSSS.PIPELINE...` | a module without a name, or one whose name would be too long |",
        "| `hlo_N_MODULE...`, `hlo_graph_N.XXXXXX.dot` | XLA of 2017 and 2018 |",
        "",
        "Formats: `.txt` and `.hlo.pb` are parsed. `.dot`, `.html` and `.url` are pictures. A file that ends in "
        "`.gz` is decompressed.",
        "",
        "## Fixed labels, after the module's name",
        "",
        "| label | what it is |",
        "|---|---|",
    ]
    lines += [f"| `{label}` | {words} |" for label, words in LABELS.items()]
    lines += ["", "## Kernels", "", "| suffix | what it is |", "|---|---|"]
    lines += [f"| `{end}` | {words} |" for end, (_, words) in KERNEL_ENDS.items()]
    lines += ["", "## TensorFlow graphs (`TF_DUMP_GRAPH_PREFIX`)", "", "| name | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {words} |" for name, words in GRAPHS.items()]
    lines += [
        "| `{before,after}_MetaOptimizer_iteration_N[_OPTIMIZER]_ADDRESS` | before or after an iteration of "
        "Grappler, or one of its optimizers (see below) |",
        "| `tfg_{before,after}_graph_GRAPH_HASH` | before or after Grappler's MLIR passes |",
        "| `FUNCTION.NNNN.main.{before,after}_opt_group_GROUP`, `FUNCTION.NNNN.GROUP.before_PASS.mlir` | "
        "with `TF_DUMP_GRAPH_NAME_FILTER`: a function before or after a group of passes |",
        "| `N_mlir_bridge_PASS_{before,after}.mlir` | before or after a pass of the MLIR bridge |",
        "",
        "| Grappler optimizer | what it did |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {words} |" for name, words in OPTIMIZERS.items()]
    lines += [
        "",
        "## LLO of a TPU (`--xla_jf_dump_to`)",
        "",
        "File names are `TIMESTAMP-PROGRAM-NN-LABEL.txt`; `TLP` is the top-level program.",
        "",
    ]
    lines += ["| label, or its prefix | what it is |", "|---|---|"]
    lines += [f"| `{label}` | {words} |" for label, words in LABEL_WORDS]
    return "\n".join([*lines, ""])


def tf_ops() -> str:
    """Return the page of TensorFlow ops: how xlanb runs each, and whether TensorFlow's XLA supports
    it.
    """
    rows = table()
    lowered = sum(r.xlanb == "XLA_CPU_JIT" for r in rows)
    both = sum(r.xlanb == "XLA_CPU_JIT" and bool(r.tensorflow) for r in rows)
    theirs = sum(bool(r.tensorflow) for r in rows)
    lines = [
        "# TensorFlow ops",
        "",
        f"The op table has {len(rows):,} op types. {lowered} of them are lowered to HLO and can be in clusters, "
        f"{sum(r.xlanb == 'host' for r in rows)} run on the host, and "
        f"{sum(r.xlanb == 'op by op' for r in rows)} are compiled one op at a time, outside of clusters. "
        f"TensorFlow's tf2xla has kernels for {theirs} of the op types on XLA_CPU_JIT; xlanb lowers {both} of these. "
        "`xlanb.tf.registered_ops()` returns this table as a DataFrame, with element types. Generated from the "
        "tables in `xlanb/graph/ops`, `xlanb/tf2xla`, `xlanb/runtime` and `xlanb/clustering`.",
        "",
        "| op | xlanb | TensorFlow, CPU | GPU | gradient | meaning |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{r.op}` | {r.xlanb} | {r.tensorflow} | {_gpu_mark(r)} | {r.gradient} | {_cell(r.doc)} |"
        for r in rows
        if r.xlanb or r.tensorflow
    ]
    others = ", ".join(f"`{r.op}`" for r in rows if not (r.xlanb or r.tensorflow))
    return "\n".join(
        [*lines, "", "## Signature only", "", "xlanb can read graphs with these ops, but not run them:", "", others, ""]
    )


def _gpu_mark(op: RegisteredOp) -> str:
    """Whether tf2xla has kernels for GPUs, and for which element types it has none."""
    lacking = sorted(t for types in NOT_ON_GPU.get(op.op, {}).values() for t in types)
    return f"{op.tensorflow_gpu}, not {', '.join(lacking)}" if lacking else op.tensorflow_gpu


def passes() -> str:
    """Return the page of passes: purpose, file, pipelines with reasons, and the rules of
    algsimp.
    """
    where = {name: set(pipeline(name).names) for name in PIPELINES}
    on_gpu = set(gpu_pipeline("a100").names)
    reasons = {**LEFT_OUT, **ADDED, **NOT_IN_XLA_CPU}
    ours = {n: p for n, p in sorted(PASSES.items()) if p.__module__.startswith("xlanb.")}  # not those of users
    lines = [
        "# Passes",
        "",
        f"All {len(ours)} passes, by XLA's names. `xlanb.transforms.PASSES[name]().run(module)` runs one. "
        '`xlanb.cpu.pipeline()` is the default pipeline, `xlanb.cpu.pipeline(xla="0.12")` is '
        "XLA:CPU's order in that release of JAX, and `xlanb.gpu.pipeline(\"a100\")` is XLA:GPU's order for a "
        "device. Print one to see it as a tree. Generated from the passes and from `pipelines.py` in "
        "`xlanb/cpu` and `xlanb/gpu`.",
        "",
        _KEPT_BY_PASSES,
        "",
        "The column *xla* lists the releases of JAX whose XLA:CPU runs the pass (*yes*: all of them); *default* "
        "and *gpu* mark the passes of xlanb's pipelines.",
        "",
        "| pass | what it does | keeps | file | xla | default | gpu | why the pipelines differ |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, made in ours.items():
        runs = ("yes" if name in names else "" for names in (where["default"], on_gpu))
        marks = " | ".join((_releases(name, where), *runs))
        title = _document(made).partition("\n")[0]
        why = _cell(reasons.get(name, ""))
        lines.append(f"| `{name}` | {_cell(title)} | {_kept(made)} | `{_file(made)}` | {marks} | {why} |")
    lines += ["", "## Before and after", ""]
    for name, made in ours.items():
        if drawn := drawing(_document(made)):
            lines += [f"### {name}", "", "```", *drawn, "```", ""]
    lines += ["## XLA:GPU passes that are not implemented", ""]
    lines += ["`xlanb.gpu.pipeline` omits these passes of XLA:GPU's pipeline:", ""]
    lines += [", ".join(f"`{name}`" for name in missing_passes()) + ".", ""]
    lines += [f"## The {len(RULES.rules)} rules of algsimp", "", _VERDICTS, ""]
    lines += ["| rule | keeps | where |", "|---|---|---|"]
    lines += [f"| `{_cell(r.label)}` | {r.keeps} | `{r.where.partition(':')[0]}` |" for r in RULES.rules]
    return "\n".join([*lines, ""])


def _kept(made: type[HloPass]) -> str:
    """Return a pass's verdict, and the error bound of floats in ulp."""
    if made.name == "algsimp":
        return "what its rules keep"
    return f"{made.keeps}, within {made.ulps:g} ulp" if made.ulps else str(made.keeps)


def counterexamples() -> str:
    """Return the page of inputs for which rules of algsimp change the result, and the real XLA's
    behaviour.
    """
    known = json.loads(COUNTEREXAMPLES.read_text(encoding="utf-8"))
    entries, words = known["entries"], known["words"]
    counts = Counter(e["real"] for e in entries)
    rules = {e["rule"] for e in entries}
    lines = [
        "# Where algsimp changes numbers",
        "",
        f"{len(rules)} of the {len(RULES.rules)} [rules of algsimp](passes.md) change the result of some f32 or c64 "
        f"module. This page lists {len(entries)} cases, one for each rule and kind of loss. No case was found for "
        "the other rules. `log(exp(A))` and `sqrt(A * A)` were reported to XLA in openxla/xla#42732. The reference "
        "interpreter computed the numbers before and after each rule. Each case also ran on the real XLA:CPU (JAX "
        f"{known['jax']}), with algsimp and without it (`XLA_FLAGS=--xla_disable_hlo_passes=algsimp`):",
        "",
        *[f"- **{kind}**, {counts[kind]}: {text}" for kind, text in words.items() if counts[kind]],
        "",
        "Generated by `python -m tests.transforms.verdicts.counterexamples`. A test evaluates each case again.",
        "",
        "## Integers",
        "",
        "xlanb's rules preserve integers exactly. Some rules of this XLA do not, because they assume that a value "
        "is non-negative although it can wrap around: an iota of s8[200], the square of 12 in s8, the absolute "
        "value of -128 (openxla/xla#46628).",
        "",
        "| rule | root of the module | wrong with algsimp | without |",
        "|---|---|---|---|",
        *[
            f"| `{_cell(e['rule'])}` | `{_root(e['hlo'])}` | {e['wrong']} | {e['wrong without']} |"
            for e in known["mended"]
        ],
        "",
        *_block(known["mended"][0]),
        "",
        "This prints the results of the interpreter and the real XLA. You can run the modules below in the same way:",
        "",
        *_RUN_BOTH,
        "",
        "## Floating-point numbers",
        "",
        "| rule | operands | before | after | the real XLA | its result with algsimp | without |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| [`{_cell(e['rule'])}`](#case-{n}) | {_clipped(e['inputs'])} | {e['before']} | {e['after']} | "
        f"{e['real']} | {e['real with']} | {e['real without']} |"
        for n, e in enumerate(entries)
    ]
    lines += ["", "## The modules", ""]
    for n, e in enumerate(entries):
        lines += [f'<a id="case-{n}"></a>`{e["rule"]}`, {_LOSSES[e["loss"]]}:', "", *_block(e), ""]
    return "\n".join(lines)


def _block(entry: dict[str, Any]) -> list[str]:
    """The text of a case and its arrays, to be pasted."""
    made = [
        f'np.frombuffer(bytes.fromhex("{a["bytes"]}"), "{a["type"]}").reshape({tuple(a["shape"])})'
        for a in entry["arrays"]
    ]
    head = ["```python", *(["import numpy as np", ""] if made else [])]
    return [
        *head,
        f'text = """{entry["hlo"].strip()}"""',
        *(["arrays = [", *[f"    {m}," for m in made], "]"] if made else ["arrays = []"]),
        "```",
    ]


def _root(hlo: str) -> str:
    return next(line for line in hlo.splitlines() if "ROOT" in line).partition("= ")[2]


def _clipped(text: str) -> str:
    return text if len(text) <= _WIDEST else "see below"


def _releases(name: str, where: Mapping[str, set[str]]) -> str:
    """Which releases of XLA:CPU have a pass: "yes" for all of them."""
    having = [release for p, release in PIPELINES.items() if release in RELEASES and name in where[p]]
    return "yes" if len(having) == len(RELEASES) else ", ".join(having)


def _document(made: type[HloPass]) -> str:
    return sys.modules[made.__module__].__doc__ or ""


def _file(made: type[HloPass]) -> str:
    return made.__module__.replace(".", "/") + ".py"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def pass_modules() -> str:
    """The source of `xlanb/transforms/pass_modules.py` with current rows."""
    made = [p for p in PASSES.values() if p.__module__.startswith("xlanb.transforms.")]
    rows = [(p.__module__.removeprefix("xlanb.transforms."), p.name, p) for p in made]
    lines = [line for module, name, p in sorted(rows, key=itemgetter(0, 1)) for line in _pass_rows(module, name, p)]
    head, _, rest = PASS_MODULES.read_text(encoding="utf-8").partition(_ROWS)
    return "\n".join((f"{head}{_ROWS}", *lines, rest[rest.index('"""') :]))


def _pass_rows(module: str, name: str, made: type[HloPass]) -> list[str]:
    """The row of a pass, and further lines with triggers, two on each."""
    found = sorted(o.text for o in made.triggers or ())
    pairs = [" ".join(found[n : n + 2]) for n in range(0, len(found), 2)] if len(found) <= _FEW else []
    first, *others = pairs or [""]
    return [f"{module:<43}{name:<36}{first}".rstrip(), *(f"{'':<79}{pair}" for pair in others)]


GENERATED = {
    REFERENCE / "opcodes.md": opcodes,
    REFERENCE / "flags.md": flags,
    REFERENCE / "dumps.md": dumps,
    REFERENCE / "tf_ops.md": tf_ops,
    REFERENCE / "passes.md": passes,
    REFERENCE / "counterexamples.md": counterexamples,
    PASS_MODULES: pass_modules,
}


def main() -> None:
    """Write every file."""
    for path, text in GENERATED.items():
        path.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()

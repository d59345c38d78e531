"""The reference pages that are made from the tables: `python docs/generate.py` writes them, a test sees that they are current."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
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
_KEPT_BY_PASSES = (
    "What a pass *keeps*: *exact* passes leave every element the bits that it had (or NaN, where it was NaN). Those that keep *real numbers only* are exact for integers and round floats elsewhere or in "
    "another order; ulp are units in the last place of the largest magnitude of an array. Tests hold each pass to it, in f8 to f64, complex numbers and integers, with random mantissas, both ends of "
    "the types, denormals, both zeros, infinities and NaN."
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
    "Each rule keeps integers and predicates to the bit; its verdict says what it keeps of floating-point numbers. *Exact*: the same bits, or NaN as before. *Real numbers only*: equal over the "
    "real numbers, so that rounding, overflow and underflow may change. `python -m benchmarks verdicts` establishes them; "
    "[where they change numbers](counterexamples.md) lists inputs, and what the real XLA does with them."
)


def opcodes() -> str:
    """The page of HLO opcodes, by kind, from the one table of them."""
    kinds: dict[str, list[HloOpcode]] = {}
    for opcode in HloOpcode:
        kinds.setdefault(opcode.kind, []).append(opcode)
    lines = [
        "# HLO opcodes",
        "",
        f"All {len(HloOpcode)} opcodes that the parser, the verifier and the evaluator know. Made from the table in `xlanb/hlo/opcode.py`.",
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
        'What xlanb obeys of `XLA_FLAGS` and `TF_XLA_FLAGS`; `XLANB_FLAGS` takes all of them. In Python `with xlanb.flags("--name=value"):` sets them for a block and leaves the',
        f"environment alone. The other {len(REAL_FLAGS):,} flags of the real XLA and TensorFlow are known and change nothing; a misspelt name is an error. Made from `xlanb/debug_options.py`.",
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
        "What `--xla_dump_to` writes, and what `xlanb.read_dump` makes of it. Made from `xlanb/dump/names.py`.",
        "",
        "| name | what it is |",
        "|---|---|",
        "| `module_NNNN.MODULE.SSSS.PIPELINE.after_PASS.before_PASS.EXT` | the HLO between two passes: NNNN is the module's number in its process, SSSS counts its dumps |",
        "| `module_NNNN.MODULE.SSSS.PASS.after_STEP.EXT` | the HLO inside a pass |",
        "| `TIMESTAMP.module_NNNN...` | with `--xla_dump_include_timestamp`: microseconds |",
        "| `module_NNNN.SSSS.PIPELINE...` | a module without a name, or one whose name would be too long |",
        "| `hlo_N_MODULE...`, `hlo_graph_N.XXXXXX.dot` | XLA of 2017 and 2018 |",
        "",
        "Forms: `.txt` and `.hlo.pb` are read back; `.dot`, `.html`, `.url` are pictures; `.gz` behind any of them is unpacked.",
        "",
        "## Fixed labels, after the module's name",
        "",
        "| label | what it is |",
        "|---|---|",
    ]
    lines += [f"| `{label}` | {words} |" for label, words in LABELS.items()]
    lines += ["", "## Kernels", "", "| end of the name | what it is |", "|---|---|"]
    lines += [f"| `{end}` | {words} |" for end, (_, words) in KERNEL_ENDS.items()]
    lines += ["", "## Graphs of TensorFlow (`TF_DUMP_GRAPH_PREFIX`)", "", "| name | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {words} |" for name, words in GRAPHS.items()]
    lines += [
        "| `{before,after}_MetaOptimizer_iteration_N[_OPTIMIZER]_ADDRESS` | Grappler's rounds: OPTIMIZER is one of those below |",
        "| `tfg_{before,after}_graph_GRAPH_HASH` | around Grappler's passes in MLIR |",
        "| `FUNCTION.NNNN.main.{before,after}_opt_group_GROUP`, `FUNCTION.NNNN.GROUP.before_PASS.mlir` | "
        "`TF_DUMP_GRAPH_NAME_FILTER`: a function between groups of passes |",
        "| `N_mlir_bridge_PASS_{before,after}.mlir` | around a pass of the MLIR bridge |",
        "",
        "| Grappler's optimizer | what it did |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {words} |" for name, words in OPTIMIZERS.items()]
    lines += [
        "",
        "## LLO of a TPU (`--xla_jf_dump_to`)",
        "",
        "Named `TIMESTAMP-PROGRAM-NN-LABEL.txt`; `TLP` is the top level program.",
        "",
    ]
    lines += ["| label, or its beginning | what it is |", "|---|---|"]
    lines += [f"| `{label}` | {words} |" for label, words in LABEL_WORDS]
    return "\n".join([*lines, ""])


def tf_ops() -> str:
    """The page of TensorFlow's op types: how xlanb runs each, TensorFlow's own XLA beside it."""
    rows = table()
    lowered = sum(r.xlanb == "XLA_CPU_JIT" for r in rows)
    both = sum(r.xlanb == "XLA_CPU_JIT" and bool(r.tensorflow) for r in rows)
    theirs = sum(bool(r.tensorflow) for r in rows)
    lines = [
        "# TensorFlow ops",
        "",
        f"Of {len(rows):,} op types in the op table {lowered} are lowered to HLO and can be in clusters, {sum(r.xlanb == 'host' for r in rows)} run on the host, "
        f"{sum(r.xlanb == 'op by op' for r in rows)} are lowered to be run op by op. TensorFlow's tf2xla has kernels for {theirs} of them on XLA_CPU_JIT, xlanb lowers {both} of those. "
        "`xlanb.tf.registered_ops()` is this table as a DataFrame, with element types. Made from the tables in `xlanb/graph/ops`, `xlanb/tf2xla`, `xlanb/runtime` and `xlanb/clustering`.",
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
    return "\n".join([*lines, "", "## Known by their signature only", "", others, ""])


def _gpu_mark(op: RegisteredOp) -> str:
    """Whether tf2xla has kernels for GPUs, and for which element types it has none."""
    lacking = sorted(t for types in NOT_ON_GPU.get(op.op, {}).values() for t in types)
    return f"{op.tensorflow_gpu}, not {', '.join(lacking)}" if lacking else op.tensorflow_gpu


def passes() -> str:
    """The page of passes: what each does, where it stands, in which pipelines it is and why not, its rules."""
    where = {name: set(pipeline(name).names) for name in PIPELINES}
    on_gpu = set(gpu_pipeline("a100").names)
    reasons = {**LEFT_OUT, **ADDED, **NOT_IN_XLA_CPU}
    ours = {n: p for n, p in sorted(PASSES.items()) if p.__module__.startswith("xlanb.")}  # not those of users
    lines = [
        "# Passes",
        "",
        f'All {len(ours)} passes by XLA\'s names: `xlanb.transforms.PASSES[name]().run(module)` runs one. `xlanb.cpu.pipeline()` is the default pipeline, `xlanb.cpu.pipeline(xla="0.12")` '
        "XLA:CPU's own order in that release of JAX, `xlanb.gpu.pipeline(\"a100\")` XLA:GPU's for a device; all print as trees. Made from the passes and from `pipelines.py` of `xlanb/cpu` and `xlanb/gpu`.",
        "",
        _KEPT_BY_PASSES,
        "",
        "| pass | what it does | keeps | file | xla | default | gpu | where they differ, why |",
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
    lines += ["## Passes of XLA:GPU that do not exist here", ""]
    lines += ["They stand in the order of XLA:GPU and are left out of `xlanb.gpu.pipeline`:", ""]
    lines += [", ".join(f"`{name}`" for name in missing_passes()) + ".", ""]
    lines += [f"## The {len(RULES.rules)} rules of algsimp", "", _VERDICTS, ""]
    lines += ["| rule | keeps | where |", "|---|---|---|"]
    lines += [f"| `{_cell(r.label)}` | {r.keeps} | `{r.where.partition(':')[0]}` |" for r in RULES.rules]
    return "\n".join([*lines, ""])


def _kept(made: type[HloPass]) -> str:
    """What a pass keeps, and how far floats may be off."""
    if made.name == "algsimp":
        return "what its rules keep"
    return f"{made.keeps}, within {made.ulps:g} ulp" if made.ulps else str(made.keeps)


def counterexamples() -> str:
    """The page of inputs for which rules of algsimp change the result, and what the real XLA does with them."""
    known = json.loads(COUNTEREXAMPLES.read_text(encoding="utf-8"))
    entries, words = known["entries"], known["words"]
    counts = Counter(e["real"] for e in entries)
    rules = {e["rule"] for e in entries}
    lines = [
        "# Where algsimp changes numbers",
        "",
        f"{len(rules)} of the {len(RULES.rules)} [rules of algsimp](passes.md) change the result of some f32 or c64 module: {len(entries)} cases, one for each rule and kind of loss; for the "
        "other rules none was found. `log(exp(A))` and `sqrt(A * A)` are reported to XLA in openxla/xla#42732. The numbers before and after a rule are those of the reference interpreter; each case ran on the real XLA:CPU too (JAX "
        f"{known['jax']}), with its own algsimp and without it (`XLA_FLAGS=--xla_disable_hlo_passes=algsimp`):",
        "",
        *[f"- **{kind}**, {counts[kind]}: {text}" for kind, text in words.items() if counts[kind]],
        "",
        "Made by `python -m tests.transforms.verdicts.counterexamples`; a test evaluates each again.",
        "",
        "## Integers",
        "",
        "Rules keep integers to the bit; those of this XLA do not where they take what wraps around for non-negative: an iota of s8[200], the square of 12, the magnitude of -128 "
        "(openxla/xla#46628). xlanb leaves these as they are.",
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
        "What the interpreter and the real XLA give; the modules below run alike:",
        "",
        *_RUN_BOTH,
        "",
        "## Floating-point numbers",
        "",
        "| rule | operands | before | after | the real XLA | gives, with algsimp | without |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| [`{_cell(e['rule'])}`](#case-{n}) | {_clipped(e['inputs'])} | {e['before']} | {e['after']} | {e['real']} | {e['real with']} | {e['real without']} |"
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


PAGES = {
    "opcodes.md": opcodes,
    "flags.md": flags,
    "dumps.md": dumps,
    "tf_ops.md": tf_ops,
    "passes.md": passes,
    "counterexamples.md": counterexamples,
}


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()

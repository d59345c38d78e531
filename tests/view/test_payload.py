from __future__ import annotations

import json
import math
import sys
import zlib
from dataclasses import replace

import numpy as np
import pytest
from factory import EVIL, FakeCompiler, graph_record, make_trace

from xlanb import stage as stage_module
from xlanb.buffers.records import BufferAssignmentRecord, live_bytes
from xlanb.cpu.records import CodeRecord
from xlanb.explorer.stage import Deferred, Stage
from xlanb.explorer.trace import Trace
from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo import HloModule, HloOpcode, parse
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.view import payload as payload_module
from xlanb.view import payload_builder as payload_builder_module
from xlanb.view import pool as pool_module
from xlanb.view.drawing import Node, draw
from xlanb.view.packing import packed
from xlanb.view.page import page_html
from xlanb.view.parts import diff as diff_module
from xlanb.view.parts.diff import graph_diff, module_diff
from xlanb.view.parts.graph import graph_sheet
from xlanb.view.parts.hlo import module_sheet
from xlanb.view.parts.llvm import line_ops
from xlanb.view.parts.memory import memory_data, memory_text
from xlanb.view.payload import MAX_BYTES, build_payload
from xlanb.view.payload_builder import MAX_JSON, READ_BYTES, PayloadBuilder, merge
from xlanb.view.pool import LEVELS


@pytest.fixture(scope="module")
def trace():
    return make_trace()


@pytest.fixture(scope="module")
def payload(trace):
    return build_payload([trace])


def stage(payload, name):
    return next(s for s in payload["traces"][0]["stages"] if s["name"] == name)


def chain(count):
    """A module of `count` negations in a row."""
    module = HloModule("chain")
    entry = module.add_computation("main", entry=True)
    value = entry.add(HloOpcode.PARAMETER, [], shape=array(PrimitiveType.F32, [4]), parameter_number=0)
    for _ in range(count):
        value = entry.add(HloOpcode.NEGATE, [value])
    entry.set_root(value)
    return module


def assert_outline(chunk):
    """Groups have their parents before them, and each item a group and a role."""
    outline = chunk.get("t", {"g": [], "m": [], "r": "", "w": [], "u": []})
    assert all(-1 <= parent < k for k, (parent, *_) in enumerate(outline["g"]))
    members = [g for g, n in zip(outline["m"][::2], outline["m"][1::2], strict=True) for _ in range(n)]
    assert "t" not in chunk or len(members) == len(outline["r"]) == len(chunk["i"])
    assert all(-1 <= g < len(outline["g"]) for g in members)
    assert len(outline["w"]) == outline["r"].count(".")
    assert all(0 <= w < len(outline["u"]) for w in outline["w"])


def test_it_is_json_and_names_only_what_is_there(payload):
    assert json.loads(json.dumps(payload)) == payload
    for artifact in payload["artifacts"]:
        for c in artifact.get("c", []):
            assert all(0 <= i < len(payload["items"]) for i in payload["chunks"][c]["i"])
        for c in artifact.get("c", []):
            assert_outline(payload["chunks"][c])
    for s in payload["traces"][0]["stages"]:
        assert -1 <= s["b"] < len(payload["artifacts"])
        assert -1 <= s["a"] < len(payload["artifacts"])


def test_what_did_not_change_is_there_once(payload):
    dce = stage(payload, "dce")
    assert dce["b"] == dce["a"] == stage(payload, "algsimp")["a"]
    texts = [json.dumps(i) for i in payload["items"]]
    assert len(texts) == len(set(texts))


def test_counts_are_those_of_the_trace(payload, trace):
    assert payload["traces"][0]["counts"] == {
        "stages": len(trace),
        "passes": 6,
        "changed": len(trace.changed),
        "kernels": 1,
        "seconds": trace.compile_seconds,
    }


def outline_of(payload, name, heading="ENTRY"):
    """Keys of the groups by instruction, and the roles, in a computation after a stage."""
    artifact = payload["artifacts"][stage(payload, name)["a"]]
    chunk = next(payload["chunks"][c] for c in artifact["c"] if payload["chunks"][c]["h"].startswith(heading))
    keys = []
    for parent, _, label, *given in chunk["t"]["g"]:
        keys.append(given[0] if given and given[0] else f"{keys[parent]}/{label}" if parent >= 0 else label)
    members = [g for g, n in zip(chunk["t"]["m"][::2], chunk["t"]["m"][1::2], strict=True) for _ in range(n)]
    names = [payload["items"][i]["n"] for i in chunk["i"]]
    groups = {n: keys[g] if g >= 0 else "" for n, g in zip(names, members, strict=True)}
    return groups, dict(zip(names, chunk["t"]["r"], strict=True))


def test_an_instruction_stays_in_its_group_when_a_pass_removes_others(payload):
    before, after = (outline_of(payload, name)[0] for name in ("tuple-simplifier", "algsimp"))
    survivors = before.keys() & after.keys()
    assert len(survivors) > 10
    assert {n: before[n] for n in survivors} == {n: after[n] for n in survivors}


def test_a_node_lies_in_its_cluster_from_the_marking_on(payload):
    before, after = (outline_of(payload, n, "graph")[0] for n in ("constant folding", "mark_for_compilation"))
    assert "[cluster_0]" not in before.values()
    assert "[cluster_0]" in after.values()


def test_constants_are_inlined_and_parameters_on_the_rim(payload):
    _, roles = outline_of(payload, "tuple-simplifier")
    assert {roles[n] for n in ("zero", "hundred")} == {"q"}
    assert {roles[n] for n in ("x", "y", "w", "b.1")} == {"i"}
    assert roles["broadcast.1"] == "p"
    assert roles["reduce"] == "."


def test_what_is_open_stays_open_while_it_can_be_read(payload):
    opened = [payload["artifacts"][stage(payload, name)["a"]]["o"] for name in ("tuple-simplifier", "algsimp")]
    assert set(opened[1]) <= set(opened[0])
    assert "fusion" in payload["artifacts"][stage(payload, "fusion")["a"]]["o"]


def test_why_tells_rules_and_predicates_with_their_values(payload):
    rules = [r["rule"] for r in stage(payload, "algsimp")["why"]["rewrites"]]
    assert rules == ["A * 1 => A", "A / C => A * (1 / C)"]
    refused = [d for d in stage(payload, "fusion")["why"]["decisions"] if not d["taken"]]
    assert refused[0]["subject"] == ["subtract", "reduce"]
    assert refused[0]["predicates"][-1] == ["producer has one user", 0, "2 users: multiply.9, grad"]


def test_code_and_memory_stages_point_to_the_module_they_came_from(payload):
    last = stage(payload, "copy-insertion")["a"]
    assert stage(payload, "assembly")["ctx"] == last
    assert stage(payload, "buffer_assignment")["ctx"] == last


def test_the_same_trace_gives_the_same_payload(payload, trace):
    assert build_payload([trace]) == payload


def test_deltas_add_up_to_the_whole():
    compiler = FakeCompiler()
    compiler.step()
    builder = PayloadBuilder()
    builder.update(compiler.traces, live=True)
    far = json.loads(json.dumps(builder.payload))
    while compiler.step() is not None:
        merge(far, json.loads(json.dumps(builder.update(compiler.traces, live=True))))
    assert far == builder.payload
    assert len(far["traces"][0]["stages"]) == len(compiler.traces[0])


def test_a_small_step_makes_a_small_delta():
    compiler = FakeCompiler()
    for _ in range(8):
        compiler.step()
    builder = PayloadBuilder()
    builder.update(compiler.traces)
    before = len(json.dumps(builder.payload))
    compiler.step()
    delta = builder.update(compiler.traces)
    assert delta["traces"][0]["stages"][0]["name"] == "algsimp"
    assert len(json.dumps(delta)) < before / 4


def test_a_trace_that_is_no_longer_listed_leaves_the_order():
    builder = PayloadBuilder()
    one, two = make_trace("one"), make_trace("two")
    builder.update([one])
    builder.update([two])
    assert builder.payload["order"] == [1]
    assert [t["name"] for t in builder.payload["traces"]] == ["one", "two"]


def test_no_more_than_four_hundred_nodes_are_drawn_and_the_note_says_so():
    record = chain(1000).record()
    sheet = module_sheet(record, 400)
    assert len(sheet.nodes) == 400
    assert "Showing 400 of 1,001" in sheet.note
    assert record.entry_computation.root in {n.key for n in module_sheet(record, 50).nodes}


def test_a_large_trace_stays_under_two_megabytes():
    modules = [chain(3000 + k).record() for k in range(10)]
    stages = [Stage("hlo_pass", f"pass{k}", modules[k - 1] if k else None, m, index=k) for k, m in enumerate(modules)]
    trace = Trace("large", stages)
    payload = build_payload([trace])
    assert len(json.dumps(payload, separators=(",", ":"))) <= MAX_JSON
    assert len(page_html([trace])) <= MAX_BYTES
    assert len(payload["traces"][0]["stages"]) == 10


def test_a_program_of_ten_thousand_instructions_is_on_its_page_as_a_whole():
    modules = [chain(10_000 + k).record() for k in range(4)]
    trace = Trace("large", [Stage("hlo_pass", f"pass{k}", None, m, index=k) for k, m in enumerate(modules)])
    payload = build_payload([trace])
    kept = [len(payload["chunks"][a["c"][-1]]["i"]) for a in payload["artifacts"]]
    assert kept == [10_001 + k for k in range(4)]
    assert "note" not in payload
    assert len(page_html([trace])) <= MAX_BYTES


def test_what_packs_well_is_kept_though_it_deflates_badly(monkeypatch):
    payload = build_payload([make_trace()])
    deflated = len(zlib.compress(json.dumps(payload, separators=(",", ":")).encode(), 6)) * 4 // 3
    packs = len(packed(payload))
    assert packs < deflated
    monkeypatch.setattr(payload_module, "_PROGRAM_BYTES", 0)
    room = (packs + deflated) // 2
    assert not payload_module._fits(payload, room)
    assert payload_module._cut_code(payload, room) == (payload, True)


def test_a_pass_over_a_huge_module_sends_little():
    module = chain(5000)
    before = module.record()
    entry = module.entry_computation
    entry.replace(entry.find("negate.5"), entry.find("negate.3"))
    trace = Trace("huge", [Stage("hlo", "start", None, before)])
    builder = PayloadBuilder()
    builder.update([trace])
    trace.stages.append(Stage("hlo_pass", "pass", before, module.record(), index=1))
    assert len(json.dumps(builder.update([trace]))) < 150_000  # one neighbourhood, and which lines are there
    assert len(json.dumps(builder.payload)) < 1_500_000


def test_name_scopes_are_folded_where_a_graph_is_large():
    nodes = tuple(
        NodeRecord(
            f"layer{k // 100}/block{k % 100 // 10}/op{k}",
            "Relu",
            (f"layer{(k - 1) // 100}/block{(k - 1) % 100 // 10}/op{k - 1}",) if k else (),
        )
        for k in range(1000)
    )
    sheet = graph_sheet(GraphRecord("deep", nodes), 400)
    assert len(sheet.nodes) == 100
    assert "folded at depth 2" in sheet.note
    assert graph_sheet(GraphRecord("deep", nodes), 20).note.startswith("Name scopes are folded at depth 1")
    assert len(graph_sheet(GraphRecord("deep", nodes), 5).nodes) == 5


def test_a_graph_with_a_loop_or_a_missing_input_is_drawn():
    nodes = (
        NodeRecord("merge", "Merge", ("enter", "next:1", "^gone")),
        NodeRecord("enter", "Enter"),
        NodeRecord("next", "NextIteration", ("merge",)),
    )
    sheet = graph_sheet(GraphRecord("loop", nodes))
    drawing = draw([Node(n.key, 60, 40, n.group) for n in sheet.nodes], sheet.edges, sheet.groups)
    assert set(drawing.nodes) == {"merge", "enter", "next"}
    assert ("next", "merge") in drawing.edges


def test_structural_diff_pairs_by_identity_and_keeps_what_is_gone_in_place():
    module = chain(4)
    before = module.record()
    entry = module.entry_computation
    middle = entry.find("negate.1")
    entry.rename(middle, "renamed")
    entry.replace(entry.find("negate.2"), entry.add(HloOpcode.ABS, [middle], name="abs"))
    (section,) = module_diff(before, module.record())
    marks = {(r.before.name if r.before else None, r.after.name if r.after else None): r.mark for r in section.rows}
    assert marks["negate.1", "renamed"] == "~"
    assert marks["negate.2", None] == "-"
    assert marks[None, "abs"] == "+"
    assert marks["negate", "negate"] == "="
    assert module_diff(before, before) == []


def test_diff_of_graphs_sees_a_node_that_got_its_cluster():
    (section,) = graph_diff(graph_record(), graph_record(clustered=True))
    changed = {r.after.name for r in section.rows if r.mark == "~"}
    assert "mul" in changed
    assert "weights" not in changed


def test_diff_rows_of_reordered_nodes_pair_up():
    nodes = [NodeRecord(n, "Op") for n in "abcd"]
    before, after = GraphRecord("g", tuple(nodes)), GraphRecord("g", (nodes[2], nodes[0], nodes[3]))
    (section,) = graph_diff(before, after)
    assert sorted((r.mark, (r.before or r.after).name) for r in section.rows) == [
        ("-", "b"),
        ("=", "a"),
        ("=", "c"),
        ("=", "d"),
    ]


def test_lines_of_code_know_their_op():
    text = 'define void @k1() {\n  ret void\n}\ndefine void @"k 2"() {\n  ret void\n}\n'
    record = CodeRecord("llvm", text, ("k1", "k 2"), {"k1": "fusion", "k 2": "dot"}, {5: "dot.inner"})
    assert line_ops(record, text.splitlines()) == [
        "fusion",
        "fusion",
        "fusion",
        "dot",
        "dot.inner",
        "dot",
    ]
    asm = CodeRecord("asm", "\t.text\nk1:\n\tret\n.L1:\n\tret\n", ("k1",), {"k1": "fusion"})
    assert line_ops(asm, asm.text.splitlines()) == ["", "fusion", "fusion", "fusion", "fusion"]


def test_live_bytes_reach_the_peak(trace):
    record = trace["buffer_assignment"].after
    assert isinstance(record, BufferAssignmentRecord)
    assert max(live_bytes(record)) == record.peak_bytes == 804
    assert memory_data(record)["temp"] == 960
    assert "allocation 2: size 960, temp" in memory_text(record)
    odd = replace(record, sequence=())
    assert live_bytes(odd) == []


def test_a_failed_stage_keeps_its_error():
    failed = make_trace(fail=True)
    data = build_payload([failed])["traces"][0]["stages"][-1]
    assert data["e"].startswith("PassError")


def test_names_are_data_whatever_they_hold():
    payload = build_payload([make_trace(evil=True)])
    assert EVIL in {i["n"] for i in payload["items"]}


def test_an_empty_trace_is_fine():
    assert build_payload([Trace("nothing")])["traces"][0]["stages"] == []
    assert build_payload([])["order"] == []


def put_off(count=30):
    """Return a trace of two unread modules, and the list of reads."""
    read = []

    def given(name):
        def load():
            read.append(name)
            return chain(count if name == "one" else count + 1).record()

        return Deferred(load, READ_BYTES + 1)

    one, two = given("one"), given("two")
    stages = [Stage("hlo", "one", None, one), Stage("hlo_pass", "two", one, two, index=1)]
    return Trace("large", stages), read


def test_what_is_too_large_is_read_when_one_gets_there():
    trace, read = put_off()
    builder = PayloadBuilder()
    builder.update([trace])
    far = json.loads(json.dumps(builder.payload))
    assert read == []
    assert [a["k"] for a in far["artifacts"]] == ["later", "later"]
    assert far["artifacts"][0]["size"] == READ_BYTES + 1
    merge(far, json.loads(json.dumps(builder.load(0, 0))))
    assert read == ["one"]
    assert [a["k"] for a in far["artifacts"]] == ["module", "later"]
    merge(far, json.loads(json.dumps(builder.load(0, 1))))
    assert read == ["one", "two"]
    assert far["artifacts"][1]["n"] == 32
    assert far["traces"][0]["stages"][1]["diff"][0]["name"] == "main"
    assert far == builder.payload
    assert builder.load(0, 1)["artifacts"] == []
    assert read == ["one", "two"], "once is enough"


def test_a_page_says_what_it_does_not_hold():
    trace, read = put_off()
    payload = build_payload([trace])
    assert "more than this page can show" in payload["artifacts"][0]["note"]
    assert read == []


def test_numerics_are_set_by_stage_and_are_json_whatever_they_are():
    builder = PayloadBuilder()
    builder.update([make_trace()])
    row = {"name": "result", "min": -1.5, "max": math.inf, "nan": 2, "inf": 1, "err": 0.25}
    delta = builder.set_numerics(0, {3: [row, row | {"err": math.nan}], 99: [row]})
    stage = builder.payload["traces"][0]["stages"][3]
    assert json.loads(json.dumps(delta, allow_nan=False))["sets"] == [
        [0, 3, {"numerics": stage["numerics"], "err": 0.25}]
    ]
    assert stage["numerics"][0]["max"] == sys.float_info.max
    assert stage["numerics"][1]["err"] is None
    assert "numerics" not in builder.payload["traces"][0]["stages"][4]


def test_values_that_share_their_bytes_count_once(trace):
    record = trace["buffer_assignment"].after
    first = next(a for a in record.allocations if a.kind == "temp")
    value = first.values[0]
    again = replace(value, instruction="in place", start=value.end, end=value.end)
    shared = replace(first, values=(*first.values, again))
    twice = replace(record, allocations=tuple(shared if a is first else a for a in record.allocations))
    assert live_bytes(twice) == live_bytes(record)


STACKS = """HloModule m

FileNames
1 "model.py"
2 "layers.py"

FunctionNames
1 "train"
2 "dense"

FileLocations
1 {file_name_id=1 function_name_id=1 line=40 end_line=40 column=4 end_column=9}
2 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=11 end_column=20}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}


ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] tanh(x), metadata={stack_frame_id=2}
  ROOT z = f32[4] negate(y), metadata={stack_frame_id=2}
}
"""


def test_frames_of_the_python_stack_are_there_once_each_and_lead_outwards():
    payload = build_payload([Trace("t", [Stage("hlo", "start", None, parse(STACKS).record())])])
    assert payload["frames"] == [["model.py:40", "train", -1], ["layers.py:7", "dense", 0]]
    assert {i["n"]: i.get("k") for i in payload["items"]} == {"x": None, "y": 1, "z": 1}


def code_trace(lines: int, *, random: bool) -> Trace:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**62, lines) if random else np.arange(lines)
    text = "k1:\n" + "\n".join(f"\tmovabsq\t${w:x}, %rax" for w in words)
    trace = Trace("code")
    trace.stages.append(Stage("assembly", "assembly", None, CodeRecord("asm", text, ("k1",), {"k1": "fusion"})))
    return trace


def test_code_is_whole_where_it_fits_a_page():
    (data,) = build_payload([code_trace(60_000, random=False)])["artifacts"]
    assert len(data["lines"]) == data["total"] == 60_001
    assert "note" not in data


def test_code_that_does_not_fit_is_cut_before_anything_else_and_says_so():
    trace = code_trace(150_000, random=True)
    trace.stages.append(Stage("tf2xla", "tf2xla", None, chain(300).record(), index=1))
    payload = build_payload([trace])
    code, module = payload["artifacts"]
    assert 2_500 <= len(code["lines"]) < code["total"] == 150_001
    assert code["note"].startswith(f"Shown: {len(code['lines']):,} of 150,001 lines")
    assert "note" not in payload
    assert len(payload["chunks"][module["c"][-1]]["i"]) == 301
    assert len(page_html([trace])) < MAX_BYTES


def _calls(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> list[int]:
    """One entry for each call of a function of a module, from now on."""
    found: list[int] = []
    real = getattr(module, name)

    def counted(*given: object, **named: object) -> object:
        found.append(1)
        return real(*given, **named)

    monkeypatch.setattr(module, name, counted)
    return found


def test_what_changed_is_found_once_for_all_that_a_payload_says_of_it(monkeypatch):
    trace = make_trace()
    calls = _calls(monkeypatch, stage_module, "changes_between")
    again = _calls(monkeypatch, diff_module, "changes_between")
    data = build_payload([trace])
    assert any("diff" in s for s in data["traces"][0]["stages"])
    assert 0 < len(calls) <= sum(s.changed for s in trace)
    assert not again


def test_a_payload_that_fits_is_judged_once(monkeypatch):
    calls = _calls(monkeypatch, payload_module, "_fits")
    build_payload([make_trace()])
    assert len(calls) == 1


def test_headings_are_written_once_for_computations_that_stay(monkeypatch):
    trace = make_trace()
    calls = _calls(monkeypatch, pool_module, "computation_heading")
    chunks = build_payload([trace])["chunks"]
    assert len(calls) == sum(" -> " in c["h"] and c["h"].endswith("{") for c in chunks)


def _whole(payload):
    """Each stage with the text of what it holds, wherever that is in the payload."""

    def plain(value):
        if isinstance(value, dict):
            held = {k: payload["items"][v]["n"] for k, v in value.items() if k in "ij" and isinstance(v, int)}
            return {k: plain(v) for k, v in value.items()} | held
        return [plain(v) for v in value] if isinstance(value, list) else value

    def module(index):
        if index < 0:
            return None
        artifact = payload["artifacts"][index]
        chunks = [payload["chunks"][c] for c in artifact.get("c", ())]
        return [c["h"] for c in chunks], [[payload["items"][i]["n"] for i in c["i"]] for c in chunks], artifact["k"]

    kept = {"diff": len, "why": plain, "a": module, "b": module}
    stages = payload["traces"][0]["stages"]
    return [{k: kept.get(k, lambda x: x)(v) for k, v in stage.items()} for stage in stages]


def test_programs_beyond_the_limit_are_added_later_in_full(trace):
    at_once, builder = PayloadBuilder(), PayloadBuilder(most_ops=1)
    at_once.update([trace])
    builder.update([trace])
    far = json.loads(json.dumps(builder.payload))
    kinds = [a["k"] for a in far["artifacts"]]
    assert not builder.is_complete
    assert "later" in kinds
    assert {"graph", "module"}.intersection(kinds), "the first one is there"
    assert [s.get("n") for s in far["traces"][0]["stages"]] == [
        s.get("n") for s in at_once.payload["traces"][0]["stages"]
    ]
    names = {i["n"] for i in at_once.payload["items"]}
    assert names <= {i["n"] for i in far["items"]} | builder.waiting_names | {"", *_edited(trace)}
    for delta in builder.fill():
        merge(far, json.loads(json.dumps(delta)))
    assert builder.is_complete
    assert far == builder.payload
    assert _whole(far) == _whole(at_once.payload)
    assert list(builder.fill()) == []


def _edited(trace):
    """The names of instructions that passes made and removed again."""
    return {i.name for s in trace for e in s.edits for i in (e.old, e.new) if i is not None}


def test_a_stage_is_added_when_it_is_asked_for(trace):
    builder = PayloadBuilder(most_ops=1)
    builder.update([trace])
    last = len(trace) - 1
    position = next(
        k for k, s in enumerate(builder.payload["traces"][0]["stages"]) if "later" in _kinds(builder.payload, s)
    )
    builder.load(0, position)
    assert "later" not in _kinds(builder.payload, builder.payload["traces"][0]["stages"][position])
    assert builder.load(0, last)["revision"] == builder.payload["revision"]


def _kinds(payload, stage):
    return {payload["artifacts"][stage[k]]["k"] for k in "ab" if stage[k] >= 0}


def test_limits_sink_before_the_next_delta_once_a_payload_is_large(monkeypatch):
    monkeypatch.setattr(payload_builder_module, "MAX_JSON", 2)
    builder = PayloadBuilder()
    trace = make_trace()
    first = Trace(trace.name, trace.stages[:1])
    builder.update([first])
    assert builder.limits is LEVELS[0]
    first.stages.extend(trace.stages[1:])
    builder.update([first])
    assert builder.limits is not LEVELS[0]

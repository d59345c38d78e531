// What the payload says, looked up: stages, artifacts, items, and what changed between two artifacts.

/**
 * @typedef {{n: string, o: string, s: string, f: string, t: string, h: string[], l?: string, v?: string, m?: string, y?: string, w?: string,
 *   p?: string[], cp?: string[], c?: string[], r?: number, k?: number, g?: string, x?: string, d?: string, sh?: string, an?: number, fold?: number}} Item
 * @typedef {{h: string, i: number[], z: string}} Chunk
 * @typedef {{w: number, h: number, nodes: number[][], edges: number[][], groups: any[][], note?: string}} Picture
 * @typedef {{k: string, name?: string, c?: number[], g?: Picture | null, note?: string, [key: string]: any}} Artifact
 * @typedef {{i: number, kind: string, name: string, pl: string[], ch: number, s: number | null, d: string, b: number, a: number, ctx?: number, n?: [number, number, number], marks?: {wrong?: Record<string, string[]>, before?: Record<string, number[][]>, after?: Record<string, number[][]>},
 *   e?: string, diff?: any[], why?: any, numerics?: any[], err?: number | null}} Stage
 * @typedef {{name: string, live: boolean, counts: Record<string, number>, runs: number[], stages: Stage[], coming?: [string, string[], number, string[]][], worth?: Record<string, {run?: number, temp?: number, failure?: string}>}} Trace
 * @typedef {{revision: number, title: string, items: Item[], chunks: Chunk[], artifacts: Artifact[], traces: Trace[], order: number[], frames?: [string, string, number][], lines?: Record<string, string>, shardings?: Record<string, import("./sharding.js").Table>, note?: string,
 *   start?: import("./start.js").Start, overlays?: Record<string, Record<string, number | string>>, single?: number}} Payload
 * @typedef {{added: Set<string>, removed: Set<string>, changed: Set<string>, hidden?: Map<Artifact, Map<string, number[][]>>}} Marks `hidden` by artifact and computation [end, added, removed, changed] of what is not on the page (see SceneMaker.hiddenOf)
 */

/**
 * Add a delta from the kernel to the payload, in place.
 * @param {Payload} payload
 * @param {any} delta
 * @returns {boolean} false where the delta does not follow on what is there
 */
export function merge(payload, delta) {
  if (delta.revision <= payload.revision) return true; // another view of the same model took it in
  if (delta.base !== payload.revision) return false;
  payload.revision = delta.revision;
  payload.items.push(...delta.items);
  payload.chunks.push(...delta.chunks);
  payload.artifacts.push(...delta.artifacts);
  if (delta.frames) payload.frames = [...(payload.frames || []), ...delta.frames];
  if (delta.lines) payload.lines = { ...payload.lines, ...delta.lines };
  for (const [mesh, table] of Object.entries(delta.shardings || {})) {
    const kept = ((payload.shardings ||= {})[mesh] ||= { ...table, of: {} });
    Object.assign(kept.of, table.of);
  }
  for (const change of delta.traces) {
    while (payload.traces.length <= change.number) payload.traces.push(/** @type {any} */ ({ stages: [] }));
    const { number, stages, ...rest } = change;
    payload.traces[number].stages.push(...stages);
    Object.assign(payload.traces[number], rest);
  }
  for (const [index, data] of delta.fills || []) payload.artifacts[index] = data; // what was put off is there now
  for (const [trace, stage, values] of delta.sets || []) Object.assign(payload.traces[trace].stages[stage], values);
  payload.order = delta.order;
  return true;
}

/** What a JAX function calls the argument that a parameter is, as in `params['w']`; "" of other ops. @param {Item} item */
export function argumentOf(item) {
  return (item.an && item.m) || "";
}

/** The name in the heading of a computation. @param {string} heading */
function computationName(heading) {
  return heading.match(/^(?:ENTRY )?(?:graph |function )?%?(\S+)/)?.[1] || "";
}

/** Whether an item stands for a group. @param {Item} item */
export function isGroup(item) {
  return item.fold !== undefined;
}

/** The stations of the ribbon, in order: label, and which stages belong to it. */
export const STATIONS = [
  ["TF", "tf_graph"],
  ["Optimize", "optimize"],
  ["Mark", "mark_for_compilation"],
  ["Encapsulate", "encapsulate_subgraphs"],
  ["Launch", "build_xla_ops"],
  ["HLO", "hlo"],
  ["Fusion", "fusion"],
  ["Buffers", "buffers"],
  ["Triton", "triton"],
  ["LLVM", "llvm"],
  ["LLO", "llo"],
  ["PTX", "ptx"],
  ["asm", "assembly"],
  ["Kernels", "gpu_program"],
  ["run", "run"],
];

const KIND_STATION = {
  tf2xla: "hlo",
  hlo_pass: "hlo",
  shardy: "hlo",
  thunks: "gpu_program",
  schedule: "buffers",
  buffer_assignment: "buffers",
  memory_usage: "buffers",
  memory_space_assignment: "buffers",
  tpu_schedule: "buffers",
  llo_stage: "llo",
  xtile: "triton",
  triton_ir: "triton",
  llvm_ir: "llvm",
  sass: "assembly",
  llvm_ir_optimized: "llvm",
  execution: "run",
  compilation_cache: "run",
};

/** @param {Pick<Stage, "kind" | "name">} stage */
export function stationOf(stage) {
  if (stage.kind === "hlo_pass" && /fusion/.test(stage.name)) return "fusion";
  return /** @type {Record<string, string>} */ (KIND_STATION)[stage.kind] || stage.kind;
}

let stores = 0;

export class Store {
  /** @param {Payload} payload */
  constructor(payload) {
    this.payload = payload;
    this.serial = stores += 1;
    /** @type {Map<number, Map<string, number>>} */
    this._names = new Map();
    /** @type {Map<string, Marks>} */
    this._marks = new Map();
    /** @type {WeakMap<Artifact, Map<string, string[]>>} */
    this._users = new WeakMap();
  }

  /** @param {number} index @returns {Artifact | null} */
  artifact(index) {
    return index >= 0 ? this.payload.artifacts[index] || null : null;
  }

  /** Item index by name, of one artifact. @param {number} index @returns {Map<string, number>} */
  names(index) {
    let found = this._names.get(index);
    if (!found) {
      found = new Map();
      for (const c of this.artifact(index)?.c || []) for (const i of this.payload.chunks[c].i) found.set(this.payload.items[i].n, i);
      this._names.set(index, found);
    }
    return found;
  }

  /** What the user calls an op of an artifact: an argument of a JAX function as in `params['w']`, anything else by its name. @param {number} index @param {string} name @returns {string} */
  called(index, name) {
    const at = this.names(index).get(name);
    return (at !== undefined && argumentOf(this.payload.items[at])) || name;
  }

  /** The computation that an op stands in. @param {number} index @param {string} name @returns {string} */
  home(index, name) {
    const artifact = this.artifact(index);
    if (!artifact?.c) return "";
    const wanted = this.names(index).get(name);
    const chunk = wanted === undefined ? -1 : artifact.c.find((c) => this.payload.chunks[c].i.includes(wanted)) ?? -1;
    return chunk < 0 ? "" : computationName(this.payload.chunks[chunk].h);
  }

  /** The op whose value a computation gives back, "" where it is not on the page. @param {number} index @param {string} computation @returns {string} */
  rootOf(index, computation) {
    const chunk = this.artifact(index)?.c?.find((c) => computationName(this.payload.chunks[c].h) === computation);
    const items = chunk === undefined ? [] : this.payload.chunks[chunk].i.map((i) => this.payload.items[i]);
    return (items.find((i) => i.r) || items.at(-1))?.n || "";
  }

  /** The index of the last run that was timed by kernel, -1 where there is none. @param {Trace} trace @returns {number} */
  timed(trace) {
    for (let k = trace.stages.length - 1; k >= 0; k -= 1) {
      const artifact = this.artifact(trace.stages[k].a);
      if (artifact?.k === "execution" && artifact.kernels.length) return trace.stages[k].a;
    }
    return -1;
  }

  /** Seconds by op, of the last run that was timed by kernel. @param {Trace} trace @returns {Map<string, number>} */
  seconds(trace) {
    const out = new Map();
    for (const [, op, seconds] of this.artifact(this.timed(trace))?.kernels || []) out.set(op, (out.get(op) || 0) + seconds);
    return out;
  }

  /** What changed from one artifact to another of the same kind. @param {number} before @param {number} after @returns {Marks} */
  marks(before, after) {
    const key = `${before}:${after}`;
    let marks = this._marks.get(key);
    if (marks) return marks;
    marks = { added: new Set(), removed: new Set(), changed: new Set() };
    const a = this.artifact(before);
    const b = this.artifact(after);
    if (before !== after && a && b && a.k === b.k) {
      const old = this.names(before);
      const now = this.names(after);
      for (const [name, item] of now) {
        if (!old.has(name)) marks.added.add(name);
        else if (old.get(name) !== item && this._differ(/** @type {number} */ (old.get(name)), item)) marks.changed.add(name);
      }
      for (const name of old.keys()) if (!now.has(name)) marks.removed.add(name);
      this._correct(marks, before, after);
    }
    this._marks.set(key, marks);
    return marks;
  }

  /** What comparing names does not tell, where the kernel told it: see view/marks.py. @param {Marks} marks changed in place @param {number} before @param {number} after */
  _correct(marks, before, after) {
    const told = this.payload.traces.flatMap((t) => t.stages).find((x) => x.b === before && x.a === after && x.marks)?.marks;
    if (!told) return;
    for (const [mark, names] of Object.entries(told.wrong || {})) {
      for (const name of names) for (const [of, set] of [["+", marks.added], ["-", marks.removed], ["~", marks.changed]]) /** @type {Set<string>} */ (set)[mark.includes(/** @type {string} */ (of)) ? "add" : "delete"](name);
    }
    marks.hidden = new Map([[before, told.before], [after, told.after]].map(([k, rows]) => [/** @type {Artifact} */ (this.artifact(/** @type {any} */ (k))), new Map(Object.entries(rows || {}))]));
  }

  /** Whether two forms of an op differ in more than the reason why it stays out of clusters: what was said of it changes no node. @param {number} before @param {number} after */
  _differ(before, after) {
    const [a, b] = [before, after].map((k) => this.payload.items[k]);
    const rest = (/** @type {Item} */ { x, ...others }) => JSON.stringify(others);
    return a.x === b.x || rest(a) !== rest(b);
  }

  /** Find an op in what a stage shows. @param {Stage} stage @param {string} name @returns {{item: Item, artifact: number} | null} */
  find(stage, name) {
    for (const index of [stage.a, stage.b, stage.ctx ?? -1]) {
      const i = index >= 0 ? this.names(index).get(name) : undefined;
      if (i !== undefined) return { item: this.payload.items[i], artifact: index };
    }
    return null;
  }

  /** Users of every op of an artifact, by name. @param {number} index @returns {Map<string, string[]>} */
  users(index) {
    const artifact = this.artifact(index);
    if (!artifact) return new Map();
    let users = this._users.get(artifact);
    if (!users) {
      users = new Map();
      for (const [name, i] of this.names(index)) {
        for (const o of new Set(this.payload.items[i].p || [])) {
          const list = users.get(o);
          if (list) list.push(name);
          else users.set(o, [name]);
        }
      }
      this._users.set(artifact, users);
    }
    return users;
  }

  /** The latest artifact of a kind at or before a stage. @param {Trace} trace @param {number} upto @param {string} kind @returns {Artifact | null} */
  latest(trace, upto, kind) {
    for (let k = Math.min(upto, trace.stages.length - 1); k >= 0; k -= 1) {
      const artifact = this.artifact(trace.stages[k].a);
      if (artifact && artifact.k === kind) return artifact;
    }
    return null;
  }

  /**
   * Where an op lives on after a stage, in another form: a TF node in HLO, an instruction in LLVM IR or assembly.
   * @param {Trace} trace @param {number} stage @param {string} name
   * @returns {{stage: number, name: string} | null}
   */
  counterpart(trace, stage, name) {
    const here = this.artifact(trace.stages[stage]?.a ?? -1)?.k;
    for (let k = stage + 1; k < trace.stages.length; k += 1) {
      const index = trace.stages[k].a;
      const artifact = this.artifact(index);
      if (artifact?.k === "bundles" && artifact.serves.includes(name)) return { stage: k, name };
      if (!artifact || artifact.k === here || index === trace.stages[k].b) continue;
      if (artifact.k === "code" && artifact.ops.some((/** @type {any[]} */ o) => o[1] === name)) return { stage: k, name };
      if (artifact.k === "module") {
        for (const [n, i] of this.names(index)) {
          const from = this.payload.items[i].m;
          if (from && (from === name || from.endsWith(`/${name}`))) return { stage: k, name: n };
        }
      }
    }
    return null;
  }

  /** The stages that tell of an op: what they say, by stage. @param {Trace} trace @param {string} name @returns {{stage: number, what: string}[]} */
  history(trace, name) {
    const out = [];
    for (let k = 0; k < trace.stages.length; k += 1) {
      const stage = trace.stages[k];
      const marks = this.marks(stage.b, stage.a);
      const said = [];
      const program = this.artifact(stage.a);
      if (program?.k === "bundles" && program.serves.includes(name)) said.push(program.head);
      if (marks.added.has(name)) said.push("+ added");
      if (marks.removed.has(name)) said.push("− removed");
      if (marks.changed.has(name)) said.push("~ changed");
      for (const r of stage.why?.rewrites || []) if (r.rule && r.edits.some((/** @type {any} */ e) => e.a === name || e.b === name)) said.push(r.rule);
      for (const d of stage.why?.decisions || []) if (d.subject.includes(name)) said.push(`${d.taken ? "✓" : "✗"} ${d.action}`);
      if (said.length) out.push({ stage: k, what: [...new Set(said)].slice(0, 4).join(" · ") });
    }
    return out;
  }
}

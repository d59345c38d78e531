// Undoes what view/packing.py does: base 85, deflate, columns, and what was left out because the rest tells it.

const MARK = "~";

const EXCLUDED = "\"$&'<>\\`";
const FIRST = 33;
const LAST = 125;
/** The value of each digit, by its code. */
const VALUES = new Uint8Array(LAST + 1);
for (let code = FIRST, value = 0; code <= LAST; code += 1) if (!EXCLUDED.includes(String.fromCharCode(code))) VALUES[code] = value++;

/** Text from base 85. @param {string} packed @returns {Promise<string>} */
export async function unpackText(packed) {
  return new Response(new Blob([bytesFrom(packed)]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

/** Four bytes for five digits. @param {string} packed @returns {Uint8Array<ArrayBuffer>} */
function bytesFrom(packed) {
  const words = new DataView(new ArrayBuffer(Math.ceil(packed.length / 5) * 4));
  for (let k = 0; k < packed.length; k += 5) {
    let word = 0;
    for (let n = k; n < k + 5; n += 1) word = word * 85 + (n < packed.length ? VALUES[packed.charCodeAt(n)] : 84);
    words.setUint32((k / 5) * 4, word);
  }
  return new Uint8Array(words.buffer, 0, Math.floor((packed.length * 4) / 5));
}

/** A payload from base 85. @param {string} packed @returns {Promise<any>} */
export async function unpack(packed) {
  return whole(rows(JSON.parse(await unpackText(packed))));
}

/** JSON data out of its columns. @param {any} data it may be changed @returns {any} */
export function rows(data) {
  if (!data || typeof data !== "object") return data;
  const given = data[MARK];
  if (!given) {
    for (const k in data) if (typeof data[k] === "object") data[k] = rows(data[k]);
    return data;
  }
  if (given.length === 1) {
    let sum = 0;
    return given[0].map((/** @type {number} */ step) => (sum += step));
  }
  if (given.length === 2) {
    const [lengths, values] = given.map(rows);
    let at = 0;
    return lengths.map((/** @type {number} */ n) => values.slice(at, (at += n)));
  }
  if (given[0] === "words") return given[2].map((/** @type {number} */ k) => given[1][k]);
  if (given[0] === "rows") {
    const columns = given[1].map(rows);
    return columns[0].map((/** @type {any} */ _, /** @type {number} */ k) => columns.map((/** @type {any[]} */ c) => c[k]));
  }
  return objects(given);
}

/** @param {any[]} given @returns {any} */
function objects([forms, index, names, columns]) {
  const values = columns.map(rows);
  const at = names.map(() => 0);
  const kinds = typeof index === "number" ? Array(index).fill(0) : rows(index);
  const found = kinds.map((/** @type {number} */ kind) => {
    /** @type {Record<string, any>} */
    const row = {};
    for (const k of forms[kind]) row[names[k]] = values[k][at[k]++];
    return row;
  });
  return names.includes(MARK) && found.length === 1 ? found[0] : found;
}

/** A payload with what was left out. @param {any} payload @returns {any} changed in place */
export function whole(payload) {
  const { items } = payload;
  for (const item of items) {
    if (item.t?.[0] === ")") {
      const begin = `  ${item.r ? "ROOT " : ""}%${item.n} = ${item.s}${item.l || ""} ${item.o}(${(item.p || []).map((/** @type {string} */ p) => `%${p}`).join(", ")}`;
      item.t = begin + item.t.slice(1).split("\x01").join(`op_name="${item.m}"`);
    }
    item.h ||= [item.o, item.n.startsWith(item.o) ? item.n.slice(item.o.length) : ` ${item.n}`, item.s];
  }
  for (const { stages } of payload.traces) {
    for (const rewrite of stages.flatMap((/** @type {any} */ s) => s.why?.rewrites || [])) {
      for (const edit of rewrite.edits || []) {
        if ("i" in edit) edit.a ??= items[edit.i].n;
        if ("j" in edit) edit.b ??= items[edit.j].n;
      }
    }
  }
  return payload;
}

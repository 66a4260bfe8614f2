/* The data of the page, and one name and one colour for each memory, resource and tensor, wherever it is shown. */

const data = unfolded(JSON.parse(byId("data").textContent));

/* Layers and groups that are the same but for names stand in the data once: names and kinds are put together here. */
function unfolded(data) {
  const names = data.layers.map(([name]) => name);
  const layers = data.layers.map(([name, kind, group, from]) => {
    const { ports, ...common } = data.layer_kinds[kind];
    const inputs = from.map((n, i) => ({ from: n === null ? null : names[n], port: ports[i] }));
    return { ...common, name, alike: kind, group, inputs };
  });
  const groups = data.groups.map(([members, kind, colour]) => ({
    ...data.group_kinds[kind],
    layers: members.map((n) => names[n]),
    members,
    kind,
    colour,
  }));
  const edges = data.edges.map(([source, target, port, fused]) => {
    const ends = { source: names[source], target: names[target] };
    return { ...ends, port, fused, bytes: layers[source].stored_bytes };
  });
  const points = layers.filter((layer) => layer.roofline).map(({ roofline, name }) => ({ ...roofline, layer: name }));
  const blank = { layer: null, tile_bytes: null, times: null, instances: null, words: [], note: "", indent: 0 };
  const nests = data.nests.map((nest) => nest && { ...nest, lines: nest.lines.map((line) => ({ ...blank, ...line })) });
  return {
    ...data,
    layers,
    groups,
    edges,
    nests,
    execution_order: groups.flatMap((group) => group.members),
    roofline: { ...data.roofline, points },
    timeline: { ...data.timeline, groups: spansOf(layers, groups) },
  };
}

/* When each layer runs and what is in the memories then: all turns of a layer laid end to end, repeats included. */
function spansOf(layers, groups) {
  let at = 0;
  return groups.map((group, number) => {
    const start_cycles = at;
    const spans = group.members.map((n) => {
      const { name, repeat, bound_by, bytes, held } = layers[n];
      const cycles = layers[n].cycles * repeat;
      const named = ([kind, tensor, member, size]) => ({ kind, tensor, layer: group.layers[member], bytes: size });
      const parts = Object.fromEntries(Object.entries(held).map(([memory, some]) => [memory, some.map(named)]));
      const span = { layer: name, start_cycles: at, cycles, bound_by, bytes, held: parts };
      at += cycles;
      return span;
    });
    return { ...group, group: number, start_cycles, spans };
  });
}
const layerNumber = new Map(data.layers.map((layer, i) => [layer.name, i]));

/* Memories, outermost first. After eight hues they come again, darker on light ground and lighter on dark. */
const { memories } = data.machine;
const first = memories[0];
const HUES = 8;
const hue = (i) => (i < HUES ? `var(--m${i})` : `color-mix(in oklab, var(--m${i % HUES}) 60%, var(--ink))`);
const memoryNumber = new Map(memories.map((memory, i) => [memory.name, i]));
const memoryFill = new Map(memories.map((memory, i) => [memory.name, hue(i)]));
const inwards = [...memories].reverse();

/* What may bind a layer: computing, the vector unit, and the memories that have a rate, from the innermost out. */
const VECTOR_FILL = "color-mix(in oklab, var(--mac) 60%, var(--ink))";
const TERMS = [data.terms[0], ...data.terms.slice(1).reverse()]
  .filter((term, i) => !i || data.layers.some((layer) => layer.cycles_by_term[term] > 0))
  .map((term) => [term, data.terms.indexOf(term) ? memoryFill.get(term) || VECTOR_FILL : "var(--mac)"]);
const BINDING = TERMS.filter(([term]) => data.layers.some((layer) => layer.bound_by === term));
const termFill = new Map(TERMS);
const bound = (term, fill = termFill.get(term)) => h("span", { class: "bound", style: { "--fill": fill } }, term);

/* Energy outside memories, of a layer or of the network, as [fill, name, pJ]: the MACs, and the vector unit if any. */
const computeParts = (costs) => [
  ["var(--mac)", "MACs", costs.mac_energy_pj],
  ...(data.summary.totals.vector_energy_pj ? [[VECTOR_FILL, "vector", costs.vector_energy_pj]] : []),
];

/* What moves: its name, its colour, and how much of its memory's colour is left where both are shown. */
const CONTENTS = new Map([
  ["weights", { name: "weights", fill: "var(--weight)", shade: 100 }],
  ["inputs", { name: "inputs", fill: "var(--input)", shade: 78 }],
  ["addends", { name: "addends", fill: "color-mix(in oklab, var(--input) 60%, var(--ink))", shade: 78 }],
  ["outputs", { name: "outputs", fill: "var(--output)", shade: 56 }],
  ["fused", { name: "fused tensors", fill: "var(--chip)", shade: 56 }],
  ["sums", { name: "partial sums", fill: "var(--sums)", shade: 38 }],
]);
const moved = new Set(data.layers.flatMap((layer) => layer.accesses.map(([i]) => data.accesses[i].content)));
const contents = [...CONTENTS.keys()].filter((content) => moved.has(content));

/* Sums over what a layer moves: `of` says of an access [words, pJ] what to add up, `key` says under what. */
function accessSums(layer, key, of) {
  const sums = new Map();
  for (const [i, words, pj] of layer.accesses) {
    const under = key(data.accesses[i]);
    if (under !== null) sums.set(under, (sums.get(under) || 0) + layer.repeat * of(words, pj));
  }
  return sums;
}
const firstBytes = (words) => (words * first.word_bits) / 8;
function firstMemoryBytes(layer) {
  const sums = accessSums(layer, (access) => (access.memory === first.name ? "" : null), firstBytes);
  return sums.get("") || 0;
}

const tone = (group) => (data.groups[group].colour === null ? "alone" : "g" + data.groups[group].colour);
const groupBadge = (group) => h("span", { class: "badge " + tone(group) }, "Group " + (group + 1));
const trips = (counts) =>
  Object.entries(counts)
    .map(([loop, n]) => loop + n)
    .join(" ");
const readsOf = (layer) =>
  layer.inputs
    .map((i) => (i.from === null ? "network input" : cutName(i.from)) + (i.port === "weight" ? " (weight)" : ""))
    .join(", ");
/* A name that opens its layer; `words` stand for a name that is too long for its place. */
const layerLink = (name, words = cutName(name)) =>
  h(
    "button",
    {
      type: "button",
      class: "link",
      title: words !== name && name,
      "aria-label": words !== name && name,
      onclick: (event) => openDetails(layerNumber.get(name), event.currentTarget),
    },
    words,
  );

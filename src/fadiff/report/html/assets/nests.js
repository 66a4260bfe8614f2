/* Loop nests: the code of each group with what its lines move, built when a nest is opened. */

const NEST_LEFT_OUT =
  "Left out to keep this page small: groups that cost more come first. fadiff.analysis.loop_nest prints it.";

function showNests() {
  const alike = Map.groupBy(data.groups.keys(), (i) => data.groups[i].kind);
  const told = [...alike].filter(([kind]) => data.nests[kind]);
  const missing = [...alike].filter(([kind]) => !data.nests[kind]).reduce((sum, [, groups]) => sum + groups.length, 0);
  const list = h(
    "div",
    { class: "nest-list" },
    told.map(([kind, groups]) => nestBox(data.nests[kind], groups)),
  );
  section(
    "nests",
    "Each group as pseudo-code, outer loops first, with the tiles that memories hold (how many × size, and how often they are " +
      "moved) and the words that each line moves in one execution of its layer. Tiles are loaded right inside the innermost loop that changes them." +
      (told.length < data.groups.length - missing ? " Groups that differ in names alone share one nest." : ""),
    missing > 0 && h("p", { class: "notice" }, `Left out to keep this page small: the nests of ${plural(missing, "group")} that cost least.`),
    list,
  );
}

/* The lines of a layer, in the names of the first layer of its kind: `like`, where that is another one. */
function nestOf(layer) {
  const group = data.groups[layer.group];
  const nest = data.nests[group.kind];
  if (!nest) return { lines: [], like: null };
  const first = data.groups[nest.group].layers[group.layers.indexOf(layer.name)];
  return { lines: ofLayer(nest, first), like: first === layer.name ? null : first };
}

function nestBox(nest, groups) {
  const { group } = nest;
  const { layers, trips: shared } = data.groups[group];
  const others = groups.length - 1;
  const box = h(
    "details",
    { class: "nest" },
    h(
      "summary",
      null,
      groupBadge(group),
      h("span", { class: "who" }, nestTitle(layers)),
      Object.keys(shared).length > 0 && h("span", { class: "badge plain" }, "shared " + trips(shared)),
      others > 0 && h("span", { class: "badge plain" }, `and ${exact(others)} more like it`),
    ),
  );
  const fill = () => {
    if (box.children.length > 1) return;
    const place = h("div", null, scrolling(nestTable(nest.lines), `Loop nest of group ${group + 1}`));
    const only = (name) =>
      place.replaceChildren(
        scrolling(nestTable(name ? ofLayer(nest, name) : nest.lines), `Loop nest of ${name || "group " + (group + 1)}`),
      );
    box.append(
      h(
        "div",
        { class: "inside" },
        others > 0 && h("p", { class: "note" }, "The same but for names: ", groupList(groups.slice(1)), "."),
        layers.length > 1 &&
          h(
            "div",
            { class: "controls" },
            selection("Show", [["", "all layers"], ...layers.map((name) => [name, cutName(name)])], only),
          ),
        place,
      ),
    );
  };
  box.addEventListener("toggle", () => box.open && fill());
  addEventListener("beforeprint", () => {
    fill();
    box.open = true;
  });
  return box;
}
const GROUPS_LISTED = 40;
const groupList = (groups) =>
  groups
    .slice(0, GROUPS_LISTED)
    .map((i) => `group ${i + 1}`)
    .join(", ") + (groups.length > GROUPS_LISTED ? ` and ${exact(groups.length - GROUPS_LISTED)} more` : "");
const nestTitle = (layers) =>
  layers.length > 4
    ? `${cutName(layers[0])} … ${cutName(layers[layers.length - 1])} (${layers.length} layers)`
    : layers.map(cutName).join(" + ");
const ofLayer = (nest, name) => nest.lines.filter((line) => line.layer === null || line.layer === name);

function nestTable(lines) {
  const words = (line, memory) =>
    line.words.reduce((sum, [i, n]) => sum + (data.accesses[i].memory === memory ? n : 0), 0);
  const amount = (value) => (value ? count(value) : "");
  const used = memories.filter(({ name }) => lines.some((line) => words(line, name)));
  return table(
    [
      {
        title: "Code",
        of: (line) => "  ".repeat(line.indent) + (line.kind === "group" ? line.text.split(":")[0] + ":" : line.text),
        class: "line",
      },
      {
        title: "Tile",
        of: (line) =>
          line.tile_bytes === null
            ? ""
            : (line.instances > 1 ? exact(line.instances) + " × " : "") + bytes(line.tile_bytes),
        n: true,
      },
      {
        title: "Times",
        of: (line) => (line.times === null ? "" : exact(line.times)),
        n: true,
      },
      ...used.map(({ name }) => ({ title: name, of: (line) => amount(words(line, name)), n: true })),
      { title: "", of: (line) => line.note, class: "note" },
    ],
    lines.map((line) => ({ ...line, rowClass: line.kind })),
    { class: "code" },
  );
}

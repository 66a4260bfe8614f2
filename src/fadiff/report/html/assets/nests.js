/* Loop nests: the code of each group with what its lines move, built when a nest is opened. */

function showNests() {
  const list = h(
    "div",
    { class: "nest-list" },
    data.nests.map((nest) => nestBox(nest)),
  );
  section(
    "nests",
    "Each group as pseudo-code, outer loops first, with the tiles that memories hold (how many × size, and how often they are " +
      "moved) and the words that each line moves in one execution of its layer. Tiles are loaded right inside the innermost loop that changes them.",
    list,
  );
}

function nestBox(nest) {
  const { group, layers } = nest;
  const shared = data.groups[group].trips;
  const box = h(
    "details",
    { class: "nest" },
    h(
      "summary",
      null,
      groupBadge(group),
      h("span", { class: "who" }, nestTitle(layers)),
      Object.keys(shared).length > 0 && h("span", { class: "badge plain" }, "shared " + trips(shared)),
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
        layers.length > 1 &&
          h(
            "div",
            { class: "controls" },
            selection("Show", [["", "all layers"], ...layers.map((name) => [name, name])], only),
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
const nestTitle = (layers) =>
  layers.length > 4 ? `${layers[0]} … ${layers[layers.length - 1]} (${layers.length} layers)` : layers.join(" + ");
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

/* What moves between memories: the machine from its first memory down to the multipliers, weights and inputs on their
   way in, outputs on their way out. Memories that every multiplier has for itself are drawn with it. */

const BAR = 9;
const COLUMNS = ["W", "I", "O"];
const COLUMN_OF = { weights: 0, inputs: 1, addends: 2, outputs: 2, fused: 2, sums: 2 };

/* Rows of the picture: memories that stand on their own, then the multipliers with what they hold. */
const drawnMemories = memories.filter((memory, i) => !i || !memory.private);
const rowOf = (name) => {
  const row = drawnMemories.findIndex((memory) => memory.name === name);
  return row < 0 ? drawnMemories.length : row;
};

/* Transfers between rows, those of one kind between the same two together; what moves inside a row is left out. */
function ribbonsOf(value) {
  const found = new Map();
  for (const transfer of data.transfers) {
    const [from, to] = [rowOf(transfer.source), rowOf(transfer.target)];
    const size = value(transfer);
    if (from === to || !size) continue;
    const key = [from, to, transfer.content].join();
    const ribbon = found.get(key) || { from, to, content: transfer.content, size: 0 };
    ribbon.size += size;
    found.set(key, ribbon);
  }
  return [...found.values()];
}

function transferFigure() {
  let by = "energy_pj";
  const inside = memories.filter((memory) => !drawnMemories.includes(memory)).map((memory) => memory.name);
  const { host, redraw } = responsive((width) => drawTransfers(width, by));
  const named = (name) => (name === null ? "MACs" : name);
  return figure({
    title: "Traffic between memories",
    note:
      "Ribbons are as wide as what moves: weights and inputs go down, outputs come up." +
      (inside.length ? ` What each MAC has for itself (${inside.join(", ")}) belongs to it here.` : ""),
    controls: segments("Width of the ribbons", { energy_pj: "Energy", bytes: "Bytes" }, (chosen) => {
      by = chosen;
      redraw();
    }),
    body: host,
    legend: legend(contentLegend()),
    data: dataTable("Traffic between memories", () =>
      table(
        [
          { title: "From", of: (t) => named(t.source), head: true },
          { title: "To", of: (t) => named(t.target) },
          { title: "What", of: (t) => CONTENTS.get(t.content).name },
          { title: "Size", of: (t) => bytes(t.bytes), n: true },
          { title: "Energy", of: (t) => energy(t.energy_pj), n: true },
        ],
        data.transfers,
        { class: "wide" },
      ),
    ),
  });
}

function drawTransfers(width, by) {
  const show = by === "bytes" ? bytes : energy;
  const ribbons = ribbonsOf((transfer) => transfer[by]);
  const names = [...drawnMemories.map((memory) => memory.name), "MACs"];
  const left = Math.min(110, width * 0.26);
  const wide = (width - left) / 3;
  const tall = Math.min(84, Math.max(52, 270 / (names.length - 1)));
  const y = (row) => 22 + tall * row;
  const columns = COLUMNS.map((_, i) => bundles(ribbons.filter((ribbon) => COLUMN_OF[ribbon.content] === i)));
  const unit = (0.86 * wide) / (Math.max(...columns.flat().map((bundle) => total(bundle.ribbons))) || 1);
  const [marks, labels] = [[], []];
  let fused = 0;
  columns.forEach((column, i) => {
    const middle = left + wide * (i + 0.5);
    for (const bundle of column) {
      let x = middle - (total(bundle.ribbons) * unit) / 2;
      for (const ribbon of bundle.ribbons) {
        const thick = Math.max(0.8, ribbon.size * unit);
        marks.push(verticalRibbon(ribbon, x, thick, y, names, show));
        x += thick;
        if (ribbon.content === "fused") fused = Math.max(fused, x - left - 2 * wide);
      }
    }
    const gaps = Map.groupBy(
      column.flatMap((bundle) => bundle.ribbons),
      (ribbon) => Math.max(ribbon.from, ribbon.to),
    );
    for (const [row, ending] of gaps)
      labels.push(
        text(middle, y(row) - tall / 2 + BAR + 3, show(total(ending)), { "text-anchor": "middle", class: "over" }),
      );
  });
  return drawing(
    width,
    y(names.length - 1) + BAR + 6,
    `Traffic between memories. ${ribbons.map((ribbon) => ribbonWords(ribbon, names, show)).join("; ")}.`,
    ["weights", "inputs", "outputs"].map((words, i) =>
      text(left + wide * (i + 0.5), 11, words, { "text-anchor": "middle" }),
    ),
    marks,
    names.map((name, row) => memoryBar(name, row, y(row), left, wide, fused)),
    labels,
  );
}

const total = (ribbons) => ribbons.reduce((sum, ribbon) => sum + ribbon.size, 0);

/* Ribbons that pass the same rows stand side by side: fused tensors first, what goes up, then what comes down. */
function bundles(ribbons) {
  const side = (ribbon) => (ribbon.content === "fused" ? 0 : ribbon.from > ribbon.to ? 1 : 2);
  let found = [];
  for (const ribbon of [...ribbons].sort((a, b) => side(a) - side(b) || b.size - a.size)) {
    const bundle = { ribbons: [ribbon], top: Math.min(ribbon.from, ribbon.to), end: Math.max(ribbon.from, ribbon.to) };
    const meets = (other) => other.top < bundle.end && bundle.top < other.end;
    const met = found.filter(meets);
    found = found.filter((other) => !met.includes(other));
    found.push({
      ribbons: [...met, bundle].flatMap((one) => one.ribbons),
      top: Math.min(...[...met, bundle].map((one) => one.top)),
      end: Math.max(...[...met, bundle].map((one) => one.end)),
    });
  }
  return found;
}

/* A memory reaches over the columns of the tensors that it keeps, the MACs over all. One that holds fused tensors but
   no other outputs reaches only to where these arrive: others pass it by. */
function memoryBar(name, row, y, left, wide, fused) {
  const memory = drawnMemories[row];
  const fill = memory ? memoryFill.get(name) : "var(--mac)";
  const keeps = memory ? memory.keeps : "WIO";
  const pieces = COLUMNS.flatMap((tensor, i) => {
    if (keeps.includes(tensor)) return [[left + wide * i + 4, wide - 8]];
    return tensor === "O" && memory.fuses && fused ? [[left + wide * i + 4, fused - 1]] : [];
  });
  const [begin, end] = [pieces[0][0], pieces[pieces.length - 1][0]];
  return s(
    "g",
    { tip: () => `${name}\nkeeps ${[...keeps].join(", ")}${memory && memory.fuses ? " and fused tensors" : ""}` },
    s("rect", { x: begin, y: y + BAR / 2 - 0.75, width: end - begin, height: 1.5, style: { fill } }),
    pieces.map(([x, width]) => s("rect", { x, y, width, height: BAR, rx: 2, style: { fill } })),
    text(0, y + BAR, fitted(name, left - 8), { class: "mark" }),
  );
}

function ribbonWords(ribbon, names, show) {
  return `${CONTENTS.get(ribbon.content).name}, ${names[ribbon.from]} to ${names[ribbon.to]}: ${show(ribbon.size)}`;
}

/* A band between two rows, pointed where it ends. */
function verticalRibbon(ribbon, x, thick, y, names, show) {
  const down = ribbon.to > ribbon.from;
  const [begin, end] = down ? [y(ribbon.from) + BAR, y(ribbon.to)] : [y(ribbon.from), y(ribbon.to) + BAR];
  const head = (down ? -1 : 1) * Math.min(8, 2 + thick / 2);
  const path = `M${x} ${begin}H${x + thick}V${end + head}L${x + thick / 2} ${end}L${x} ${end + head}Z`;
  const tip = () => ribbonWords(ribbon, names, show).replace(", ", "\n");
  return s("path", { class: "flow", d: path, style: { "--fill": CONTENTS.get(ribbon.content).fill }, tip });
}

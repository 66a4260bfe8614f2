/* What moves between memories: the machine from its first memory down to the multipliers, weights and inputs on their
   way in, outputs on their way out. Memories that every multiplier has for itself are drawn with it. */

const ROW = 62;
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
  let by = "bytes";
  const { host, redraw } = responsive((width) => drawTransfers(width, by));
  const named = (name) => (name === null ? "MACs" : name);
  return figure({
    title: "Traffic between memories",
    note: "Ribbons are as wide as what moves: weights and inputs go down, outputs come up.",
    controls: segments(
      "Width of the ribbons",
      [
        ["bytes", "Bytes"],
        ["energy_pj", "Energy"],
      ],
      by,
      (chosen) => {
        by = chosen;
        redraw();
      },
    ),
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
  const top = 22;
  const y = (row) => top + ROW * row;
  const height = y(names.length - 1) + BAR + 6;
  // Side by side in a column: what passes the same rows. The widest such bundle fills a column.
  const columns = COLUMNS.map((_, i) => ribbons.filter((ribbon) => COLUMN_OF[ribbon.content] === i).sort(bySide));
  const gaps = names.slice(1).map((_, row) => row);
  const through = (row) => (ribbon) =>
    Math.min(ribbon.from, ribbon.to) <= row && row < Math.max(ribbon.from, ribbon.to);
  const total = (list) => list.reduce((sum, ribbon) => sum + ribbon.size, 0);
  const most = Math.max(...columns.flatMap((column) => gaps.map((row) => total(column.filter(through(row))))), 0) || 1;
  const unit = (0.86 * wide) / most;
  const marks = [];
  const labels = [];
  columns.forEach((column, i) => {
    const middle = left + wide * (i + 0.5);
    let x = middle - (total(column) * unit) / 2;
    // Ribbons of a column that never pass the same rows stand above one another, in the middle.
    const alone = (ribbon) =>
      column.every((other) => other === ribbon || !gaps.some((r) => through(r)(ribbon) && through(r)(other)));
    for (const ribbon of column) {
      const thick = Math.max(0.8, ribbon.size * unit);
      const at = alone(ribbon) ? middle - thick / 2 : x;
      if (!alone(ribbon)) x += thick;
      marks.push(verticalRibbon(ribbon, at, thick, y, names, show));
    }
    for (const row of gaps) {
      const ending = column.filter((ribbon) => Math.max(ribbon.from, ribbon.to) === row + 1);
      if (ending.length)
        labels.push(
          text(middle, y(row + 1) - ROW / 2 + BAR + 3, show(total(ending)), { "text-anchor": "middle", class: "over" }),
        );
    }
  });
  const bars = names.map((name, row) => memoryBar(name, row, y(row), left, wide));
  return drawing(
    width,
    height,
    `Traffic between memories. ${ribbons.map((ribbon) => ribbonWords(ribbon, names, show)).join("; ")}.`,
    COLUMNS.map((_, i) =>
      text(left + wide * (i + 0.5), 11, ["weights", "inputs", "outputs"][i], { "text-anchor": "middle" }),
    ),
    marks,
    bars,
    labels,
  );
}

/* In a column, what goes up stands left of what comes down. */
const bySide = (a, b) => (a.from > a.to ? 0 : 1) - (b.from > b.to ? 0 : 1) || b.size - a.size;

/* A memory reaches over the columns of the tensors that it keeps; the first one and the MACs over all. */
function memoryBar(name, row, y, left, wide) {
  const memory = drawnMemories[row];
  const keeps = memory ? memory.keeps + (memory.fuses ? "O" : "") : "WIO";
  const fill = memory ? memoryFill.get(name) : "var(--mac)";
  const pieces = COLUMNS.map((tensor, i) => [tensor, left + wide * i]).filter(([tensor]) => keeps.includes(tensor));
  const font = { fontWeight: 400, fontSize: "12px", fontFamily: getComputedStyle(document.body).fontFamily };
  const [[, begin]] = pieces;
  const end = pieces[pieces.length - 1][1] + wide;
  return s(
    "g",
    { tip: () => `${name}\nkeeps ${keeps}` },
    s("rect", { x: begin + 4, y: y + BAR / 2 - 0.75, width: end - begin - 8, height: 1.5, style: { fill } }),
    pieces.map(([, x]) => s("rect", { x: x + 4, y, width: wide - 8, height: BAR, rx: 2, style: { fill } })),
    text(0, y + BAR, shortened(name, left - 8, font), { class: "mark" }),
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

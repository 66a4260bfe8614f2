/* Words between levels: from DRAM through L2 into the array, through L1 back to DRAM, or to L2 where layers are fused. */

const FLOW_FILL = {
  weight: "var(--weight)",
  input: "var(--input)",
  addend: "var(--input)",
  output: "var(--output)",
  intermediate: "var(--chip)",
  "partial sum": "var(--sums)",
};
const FLOW_NAME = {
  weight: "weights",
  input: "inputs",
  addend: "addends",
  output: "outputs",
  intermediate: "fused tensors",
  "partial sum": "partial sums",
};
const STATIONS = ["L3", "L2", "PE", "L1", "L3 again"];
const STATION_NAME = { L3: "DRAM", L2: "L2", PE: "PE array", L1: "L1", "L3 again": "DRAM" };

/* Where "DRAM reads" would run into "L2". */
const NARROW_FLOWS = 330;

/* Flows between stations, all of one tensor between the same two together. What L0 and the PEs exchange stays inside
   the array. */
function stationFlows(value) {
  const found = new Map();
  for (const flow of data.flows) {
    const place = (level) => (level === "L0" ? "PE" : level);
    let [source, target] = [place(flow.source), place(flow.target)];
    if (source === target) continue;
    if (source === "L1" && target === "PE") [source, target] = ["PE", "L1"];
    if (target === "L3" || (source === "L3" && target === "L1" && flow.tensor === "partial sum"))
      [source, target] = ["L1", "L3 again"];
    const key = [source, target, flow.tensor].join("|");
    found.set(key, (found.get(key) || 0) + value(flow));
  }
  return [...found].map(([key, size]) => {
    const [source, target, tensor] = key.split("|");
    return { source, target, tensor, size };
  });
}

function flowFigure() {
  let by = "words";
  const { host, redraw } = responsive((width) => drawFlows(width, by));
  return figure({
    title: "Traffic between levels",
    note: "Ribbons are as wide as what moves. Fused tensors turn back from L1 to L2 instead of leaving for DRAM.",
    controls: segments(
      "Width of the ribbons",
      [
        ["words", "Words"],
        ["energy_pj", "Energy"],
      ],
      by,
      (chosen) => {
        by = chosen;
        redraw();
      },
    ),
    body: host,
    legend: legend(
      [...new Set(data.flows.map((flow) => flow.tensor))].map((tensor) => [FLOW_FILL[tensor], FLOW_NAME[tensor]]),
    ),
    data: dataTable("Traffic between levels", () =>
      table(
        [
          { title: "From", of: (f) => f.source.replace("L3", "DRAM"), head: true },
          { title: "To", of: (f) => f.target.replace("L3", "DRAM") },
          { title: "Tensor", of: (f) => FLOW_NAME[f.tensor] },
          { title: "Words", of: (f) => exact(f.words), n: true },
          { title: "Energy", of: (f) => energy(f.energy_pj), n: true },
        ],
        data.flows,
        { class: "wide" },
      ),
    ),
  });
}

function drawFlows(width, by) {
  const value = (flow) => flow[by];
  const show = by === "words" ? (v) => count(v) + " words" : energy;
  const links = stationFlows(value).filter((link) => link.size > 0);
  const forward = links.filter((link) => STATIONS.indexOf(link.target) > STATIONS.indexOf(link.source));
  const back = links.filter((link) => !forward.includes(link));
  const sum = (list) => list.reduce((total, link) => total + link.size, 0);
  const of = (key, station, list) => sum(list.filter((link) => link[key] === station));
  const load = Object.fromEntries(
    STATIONS.map((station) => [
      station,
      Math.max(
        of("target", station, forward) + of("target", station, back),
        of("source", station, forward) + of("source", station, back),
      ) || 0,
    ]),
  );
  const most = Math.max(...Object.values(load)) || 1;
  const [top, tall, bar] = [26, Math.max(150, Math.min(230, width * 0.34)), 9];
  const unit = tall / most;
  const narrow = width < NARROW_FLOWS;
  const loop = Math.min(70, sum(back) * unit);
  const height = top + tall + 26 + (back.length ? loop + 26 : 0);
  const x = Object.fromEntries(
    STATIONS.map((station, i) => [station, 2 + ((width - 4 - bar) * i) / (STATIONS.length - 1)]),
  );
  const y = Object.fromEntries(STATIONS.map((station) => [station, top + (tall - load[station] * unit) / 2]));
  const used = { out: {}, in: {} };
  const port = (side, station, size) => {
    const begin = used[side][station] || 0;
    used[side][station] = begin + size * unit;
    return y[station] + begin;
  };
  const order = (a, b) => STATIONS.indexOf(a.target) - STATIONS.indexOf(b.target) || b.size - a.size;
  const ribbons = [...forward].sort(order).map((link) => {
    const [thick, from, to] = [Math.max(0.8, link.size * unit), x[link.source] + bar, x[link.target]];
    const [a, b] = [port("out", link.source, link.size), port("in", link.target, link.size)];
    const mid = (from + to) / 2;
    const [c, d] = [a + thick, b + thick];
    const there = `M${from} ${a}C${mid} ${a} ${mid} ${b} ${to} ${b}`;
    return ribbon(link, `${there}V${d}C${mid} ${d} ${mid} ${c} ${from} ${c}Z`, show);
  });
  const floor = top + tall + 14;
  let lane = 0;
  for (const link of back) {
    const thick = Math.max(0.8, Math.min(loop, link.size * unit));
    const [from, to] = [x[link.source] + bar, x[link.target]];
    const [a, b] = [port("out", link.source, link.size), port("in", link.target, link.size)];
    const [near, far] = [floor + lane, floor + lane + thick];
    const [c, d, begin, end] = [a + thick, b + thick, from - 8, to + 8];
    const outside = `C${from + 26} ${a} ${from + 26} ${far} ${begin} ${far}H${end}C${to - 26} ${far} ${to - 26} ${b} ${to} ${b}`;
    const inside = `C${to - 14} ${d} ${to - 14} ${near} ${end} ${near}H${begin}C${from + 14} ${near} ${from + 14} ${c} ${from} ${c}`;
    ribbons.push(ribbon(link, `M${from} ${a}${outside}V${d}${inside}Z`, show));
    lane += thick + 3;
  }
  const bars = STATIONS.filter((station) => load[station]).map((station, i) => {
    const last = station === "L3 again";
    const anchor = i === 0 ? "start" : last ? "end" : "middle";
    const at = i === 0 ? x[station] : last ? x[station] + bar : x[station] + bar / 2;
    const out = last ? of("target", station, forward) : of("source", station, links) || load[station];
    return [
      s("rect", {
        class: "level",
        x: x[station],
        y: y[station],
        width: bar,
        height: Math.max(2, load[station] * unit),
        rx: 2,
      }),
      text(at, 11, STATION_NAME[station] + (narrow ? "" : i === 0 ? " reads" : last ? " writes" : ""), {
        "text-anchor": anchor,
        class: "mark",
      }),
      (i === 0 || last) && text(at, 24, show(out), { "text-anchor": anchor }),
    ];
  });
  return drawing(
    width,
    height,
    `Traffic between levels. ${links.map((link) => flowWords(link, show)).join("; ")}.`,
    ribbons,
    bars,
  );
}

/* Partial sums go both ways, into L1 and back. */
function flowWords(link, show) {
  const both = link.tensor === "partial sum";
  const way = `${STATION_NAME[link.source]} ${both ? "and" : "to"} ${STATION_NAME[link.target]}`;
  return `${FLOW_NAME[link.tensor]}, ${way}${both ? ", both ways" : ""}: ${show(link.size)}`;
}

function ribbon(link, path, show) {
  const tip = () => flowWords(link, show).replace(", ", "\n");
  return s("path", { class: "flow", d: path, style: { "--fill": FLOW_FILL[link.tensor] }, tip });
}

/* The roofline: each layer by the MACs it does per byte of a memory, under what the machine allows. */

/* A mark for each resource: a circle for computing, polygons of their own for memories. */
const POLYGONS = { corners: [4, 3, 4, 3, 5, 6], turns: [0, 0, 0.5, 0.5, 0, 0] };
function termMark(term, x, y, r) {
  if (!memoryNumber.has(term)) return s("circle", { cx: x, cy: y, r });
  const number = memoryNumber.get(term) % POLYGONS.corners.length;
  const [corners, turn] = [POLYGONS.corners[number], POLYGONS.turns[number]];
  const point = (i) => {
    const angle = (2 * Math.PI * (i + turn)) / corners;
    return `${x + 1.2 * r * Math.sin(angle)} ${y - 1.2 * r * Math.cos(angle)}`;
  };
  return s("path", { d: `M${Array.from({ length: corners }, (_, i) => point(i)).join("L")}Z` });
}
const LABELLED = 6;

function rooflineFigure() {
  const roof = data.roofline;
  const limited = memories.map((memory, i) => [i, memory.name]).filter(([i]) => roof.roofs[i].bytes_per_cycle !== null);
  let at = limited.length ? limited[0][0] : 0;
  const { host, redraw } = responsive((width) => drawRoofline(roof, at, width));
  return figure({
    title: "Roofline",
    note:
      "MACs per cycle against MACs per byte of a memory. Layers on the roof are as fast as that memory and the " +
      "multipliers allow; others hold back those below it. Larger marks take more time. Together: " +
      stopped(roof.network.why),
    controls:
      limited.length > 1 &&
      selection("Memory", limited, (i) => {
        at = Number(i);
        redraw();
      }),
    body: host,
    legend: legend(BINDING.map(([term, fill]) => [fill, "bound by " + term, termMark(term, 7, 7, 5)])),
    data: dataTable("Roofline", () =>
      table(
        [
          { title: "Layer", of: (p) => layerLink(p.layer), head: true },
          ...memories.map((memory, i) => ({
            title: `MACs per byte of ${memory.name}`,
            of: (p) => (p.macs_per_byte[i] === null ? "none moved" : significant(p.macs_per_byte[i])),
            n: true,
          })),
          { title: "MACs per cycle", of: (p) => significant(p.attained_macs_per_cycle), n: true },
          { title: `roof of ${first.name}`, of: (p) => significant(p.attainable_macs_per_cycle[0]), n: true },
          { title: "mapped", of: (p) => significant(p.mapped_macs_per_cycle), n: true },
          { title: "Bound by", of: (p) => bound(p.bound_by) },
          { title: "Why not more", of: (p) => p.why, class: "sentence" },
        ],
        roof.points,
        { class: "wide" },
      ),
    ),
  });
}

function drawRoofline(roof, memory, width) {
  const { name } = memories[memory];
  const height = Math.max(280, Math.min(400, width * 0.62));
  const [left, right, top, bottom] = [46, 14, 12, 40];
  const peak = roof.peak_macs_per_cycle;
  const intensity = (p) => p.macs_per_byte[memory];
  const known = roof.points.map(intensity).filter((v) => v !== null);
  const rate = roof.roofs[memory].bytes_per_cycle;
  const ridge = rate === null ? Math.min(1, ...known) : peak / rate;
  const lowest = Math.min(ridge / 8, ...known) / 1.5;
  const highest = Math.max(ridge * 8, ...known) * 1.6;
  const untouched = roof.points.some((p) => intensity(p) === null);
  const reach = width - right - (untouched ? 34 : 0);
  const floor = Math.min(peak / 16, ...roof.points.map((p) => p.attained_macs_per_cycle)) / 1.6;
  const x = (v) => left + ((reach - left) * Math.log(v / lowest)) / Math.log(highest / lowest);
  const y = (v) => top + ((height - top - bottom) * Math.log((peak * 1.5) / v)) / Math.log((peak * 1.5) / floor);
  const at = (p) => [intensity(p) === null ? width - right - 14 : x(intensity(p)), y(p.attained_macs_per_cycle)];
  const grid = [
    ...decades(lowest, highest).map((v) => [
      s("line", { class: "grid", x1: x(v), x2: x(v), y1: top, y2: height - bottom }),
      text(x(v), height - bottom + 16, tick(v), { "text-anchor": "middle" }),
    ]),
    ...decades(floor, peak * 1.5).map((v) => [
      s("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
      text(left - 7, y(v) + 4, tick(v), { "text-anchor": "end" }),
    ]),
  ];
  const start = rate === null ? lowest : Math.max(lowest, floor / rate);
  const slope = rate === null ? `M${x(lowest)} ${y(peak)}` : `M${x(start)} ${y(start * rate)}L${x(ridge)} ${y(peak)}`;
  const points = [...roof.points].sort((a, b) => b.share_of_cycles - a.share_of_cycles);
  const marks = points.map((p) => {
    const [px, py] = at(p);
    const mark = termMark(p.bound_by, px, py, 3.2 + 11 * Math.sqrt(p.share_of_cycles));
    return make(
      mark,
      {
        class: "point",
        style: { fill: termFill.get(p.bound_by) },
        onclick: (event) => openDetails(layerNumber.get(p.layer), event.currentTarget),
        tip: () => pointTip(p, memory),
      },
      [],
    );
  });
  return drawing(
    width,
    height,
    `Roofline of ${plural(roof.points.length, "layer")} against ${name}, under a peak of ${exact(peak)} MACs per cycle.`,
    grid,
    s("path", { class: "roof", d: `${slope}H${width - right}` }),
    text(width - right, y(peak) - 6, `${exact(peak)} multipliers`, { "text-anchor": "end", class: "mark" }),
    untouched && [
      s("line", { class: "base", x1: reach + 4, x2: reach + 4, y1: top, y2: height - bottom }),
      text(width - right - 14, height - bottom + 16, "none", { "text-anchor": "middle" }),
    ],
    marks,
    roofLabels(points, at, width - right, y(peak) - 6),
    text((left + reach) / 2, height - 4, fitted(`MACs per byte of ${name}`, reach - left), { "text-anchor": "middle" }),
    text(left, top - 1, "MACs per cycle", {}),
  );
}

function pointTip(p, memory) {
  const { name } = memories[memory];
  const intensity = p.macs_per_byte[memory];
  return [
    p.layer,
    `${significant(p.attained_macs_per_cycle)} of ${significant(p.attainable_macs_per_cycle[memory])} attainable MACs/cycle`,
    intensity === null ? `does not touch ${name}` : `${significant(intensity)} MACs per byte of ${name}`,
    `mapped to ${significant(p.mapped_macs_per_cycle)} multipliers, bound by ${p.bound_by}`,
    stopped(p.why[0].toUpperCase() + p.why.slice(1)),
    `${percent(p.share_of_cycles)} of the time`,
  ].join("\n");
}

/* Names beside the layers that take most of the time, where there is room for them; layers at one place share a name. */
function roofLabels(points, at, right, top) {
  const places = [];
  for (const p of points) {
    const [x, y] = at(p);
    const near = places.find((place) => Math.hypot(place.x - x, place.y - y) < 9);
    if (near) near.more += 1;
    else places.push({ x, y, p, more: 0 });
  }
  const taken = [[right - 104, top, 112]];
  return places.slice(0, LABELLED).map(({ x: px, y: py, p, more }) => {
    const name =
      (p.layer.length > 18 ? p.layer.slice(0, 7) + "…" + p.layer.slice(-10) : p.layer) + (more ? ` +${more}` : "");
    const wide = 6.4 * name.length;
    const r = 6 + 11 * Math.sqrt(p.share_of_cycles);
    const spots = [
      [px - wide / 2, py + r + 8],
      [px + r, py + 4],
      [px - r - wide, py + 4],
      [px - wide / 2, py - r],
    ];
    const offMarks = (x, y) => places.every((m) => m.x < x - 5 || m.x > x + wide + 5 || m.y < y - 14 || m.y > y + 5);
    const offNames = (x, y) => taken.every(([a, b, w]) => x > a + w || x + wide < a || Math.abs(y - b) > 13);
    const free = spots.find(([x, y]) => x > 50 && x + wide < right && offMarks(x, y) && offNames(x, y));
    if (!free) return null;
    taken.push([...free, wide]);
    return text(free[0], free[1], name, { class: "over" });
  });
}

function decades(low, high) {
  const marks = [];
  for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high; power += 1) marks.push(10 ** power);
  return marks;
}

/* The search: how the best EDP fell, phase by phase, and what the descent's restarts did meanwhile. */

function showSearch() {
  const { search } = data;
  if (!search) return;
  const series = [
    ["temperature", "Temperature", (v) => significant(v, 2)],
    ["legal_share", "Share of restarts that are legal", (v) => percent(v, 0)],
  ].filter(([key]) => search[key].some((v) => v !== null));
  const last = search.seconds[search.seconds.length - 1];
  const restarts = search.restart_edp_uj_cycles.some((v) => v !== null);
  section(
    "search",
    search.improvement < 1.005
      ? `The best legal schedule after each step: in ${significant(last)} s no EDP was found that is clearly below that at the start.`
      : `The best legal schedule after each step: ${significant(search.improvement)} times lower EDP after ${significant(last)} s than at the start.`,
    figure({
      title: "Best EDP over time",
      body: responsive((width) =>
        drawSeries(search, width, 260, {
          values: search.best_edp_uj_cycles,
          show: edp,
          log: true,
          stepped: true,
          phases: true,
        }),
      ).host,
      data: dataTable("Search", () =>
        table(
          [
            { title: "Second", of: (i) => significant(search.seconds[i]), n: true },
            { title: "Phase", of: (i) => search.phase[i], head: true },
            { title: "Best EDP", of: (i) => edp(search.best_edp_uj_cycles[i]), n: true },
            { title: "Edges fused", of: (i) => String(search.fused_edges[i]), n: true },
            ...series.map(([key, title, show]) => ({
              title,
              of: (i) => (search[key][i] === null ? "" : show(search[key][i])),
              n: true,
            })),
          ],
          search.seconds.map((_, i) => i),
          { class: "wide" },
        ),
      ),
    }),
    restarts &&
      figure({
        title: "EDP of each restart of the descent, before decoding",
        note: "One line a restart. What it proposes need not be legal yet, so it may lie below the best schedule.",
        body: responsive((width) => drawRestarts(search, width, 220)).host,
        data: dataTable("Restarts", () => restartTable(search)),
      }),
    h(
      "div",
      { class: "trio" },
      [["fused_edges", "Edges fused in the best schedule", (v) => exact(v)], ...series].map(([key, title, show]) =>
        figure({
          title,
          body: responsive((width) =>
            drawSeries(search, width, 150, { key, values: search[key], show, stepped: key === "fused_edges" }),
          ).host,
        }),
      ),
    ),
  );
}

function drawSeries(search, width, height, { key, values, show, log, stepped, phases }) {
  const [left, right, top, bottom] = [72, 12, phases ? 24 : 10, 28];
  const last = search.seconds[search.seconds.length - 1] || 1;
  const known = values.filter((v) => v !== null);
  const [low, high] = log
    ? [Math.min(...known) / 1.08, Math.max(...known) * 1.08]
    : [0, Math.max(...known) * 1.08 || 1];
  const x = (t) => left + ((width - left - right) * t) / last;
  const y = (v) => top + (height - top - bottom) * (log ? Math.log(high / v) / Math.log(high / low) : 1 - v / high);
  const marks = log ? [0, 1, 2, 3].map((i) => low * (high / low) ** ((i + 0.5) / 4)) : steps(high, 3);
  let path = "";
  let before = null;
  search.seconds.forEach((t, i) => {
    if (values[i] === null) return void (before = null);
    path +=
      before === null ? `M${x(t)} ${y(values[i])}` : stepped ? `H${x(t)}V${y(values[i])}` : `L${x(t)} ${y(values[i])}`;
    before = values[i];
  });
  const bands = phases
    ? search.phases.map((phase, i) => {
        const [a, b] = [x(phase.start_seconds), x(phase.stop_seconds)];
        return [
          i % 2 === 0 &&
            s("rect", { class: "phase", x: a, y: top, width: Math.max(0, b - a), height: height - top - bottom }),
          b - a > 7 * phase.name.length && text((a + b) / 2, top - 8, phase.name, { "text-anchor": "middle" }),
        ];
      })
    : [];
  const dots = search.seconds.map(
    (t, i) =>
      values[i] !== null &&
      s("circle", {
        cx: x(t),
        cy: y(values[i]),
        r: 3.2,
        style: { fill: "var(--accent)" },
        tip: () => `${show(values[i])}\n${search.phase[i]}, ${significant(t)} s`,
      }),
  );
  return drawing(
    width,
    height,
    `From ${show(known[0])} to ${show(known[known.length - 1])} in ${significant(last)} seconds.`,
    bands,
    marks.map((v) => [
      s("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
      text(left - 7, y(v) + 4, log ? edpShort(v) : key === "legal_share" ? show(v) : tick(v), { "text-anchor": "end" }),
    ]),
    steps(last, Math.max(2, Math.floor(width / 120))).map((t) =>
      text(x(t), height - 8, tick(t) + " s", { "text-anchor": t ? "middle" : "start" }),
    ),
    s("path", { class: "series", d: path }),
    dots,
  );
}
const edpShort = (value) => {
  const [mantissa, exponent] = scientific(value, 3);
  return `${mantissa}×10${raised(exponent)}`;
};

/* One line for each restart; a log scale over the stretch in which they ran. */
function drawRestarts(search, width, height) {
  const [left, right, top, bottom] = [72, 12, 10, 28];
  const noted = search.seconds.map((t, i) => [t, search.restart_edp_uj_cycles[i]]).filter(([, edps]) => edps !== null);
  const all = noted.flatMap(([, edps]) => edps);
  const [low, high] = [Math.min(...all) / 1.08, Math.max(...all) * 1.08];
  const [first, last] = [noted[0][0], noted[noted.length - 1][0]];
  const x = (t) => left + ((width - left - right) * (t - first)) / (last - first || 1);
  const y = (v) => top + ((height - top - bottom) * Math.log(high / v)) / Math.log(high / low);
  const lines = noted[0][1].map((_, restart) =>
    s("path", {
      class: "series faint",
      d: noted.map(([t, edps], i) => `${i ? "L" : "M"}${x(t)} ${y(edps[restart])}`).join(""),
    }),
  );
  const ends = noted[noted.length - 1][1];
  return drawing(
    width,
    height,
    `${ends.length} restarts, which end between ${edp(Math.min(...ends))} and ${edp(Math.max(...ends))}.`,
    [0, 1, 2, 3]
      .map((i) => low * (high / low) ** ((i + 0.5) / 4))
      .map((v) => [
        s("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
        text(left - 7, y(v) + 4, edpShort(v), { "text-anchor": "end" }),
      ]),
    [first, (first + last) / 2, last].map((t, i) =>
      text(x(t), height - 8, `${significant(t)} s`, { "text-anchor": ["start", "middle", "end"][i] }),
    ),
    lines,
  );
}

function restartTable(search) {
  const noted = search.seconds.map((_, i) => i).filter((i) => search.restart_edp_uj_cycles[i] !== null);
  const of = (i, pick) => edp(pick(...search.restart_edp_uj_cycles[i]));
  return table(
    [
      { title: "Second", of: (i) => significant(search.seconds[i]), n: true },
      { title: "Lowest EDP", of: (i) => of(i, Math.min), n: true },
      { title: "Highest EDP", of: (i) => of(i, Math.max), n: true },
    ],
    noted,
  );
}

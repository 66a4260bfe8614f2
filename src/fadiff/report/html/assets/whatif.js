/* What if: how EDP answers to one percent more or less of each number of the machine, and to twice as much. */

function showWhatIf() {
  const { what_if: whatIf } = data;
  if (!whatIf) return;
  const most =
    Math.max(...whatIf.sensitivities.flatMap((x) => [Math.abs(x.elasticity), Math.abs(x.elasticity_shrinking || 0)])) ||
    1;
  section(
    "what-if",
    whatIf.caveat,
    h(
      "div",
      { class: "card-block" },
      legend([
        ["var(--better)", "EDP falls"],
        ["var(--worse)", "EDP rises"],
      ]),
      scrolling(
        table(
          [
            { title: "Machine", of: (x) => x.label, head: true, class: "label" },
            { title: "Now", of: (x) => present(x), n: true, class: "optional" },
            { title: "1% more", of: (x) => answer(x.elasticity / 100), n: true },
            { title: "Change of EDP", of: (x) => tornado(x, most), class: "bar" },
            {
              title: "1% less",
              of: (x) => (x.elasticity_shrinking === null ? "" : answer(-x.elasticity_shrinking / 100)),
              n: true,
            },
            {
              title: "Twice as much",
              of: (x) => (x.doubled_edp_change === null ? "" : answer(x.doubled_edp_change)),
              n: true,
            },
            { title: "What follows", of: (x) => x.meaning, class: "optional meaning" },
          ],
          whatIf.sensitivities,
          { class: "wide diverging" },
        ),
        "Sensitivities",
      ),
    ),
  );
}

const present = (x) =>
  x.unit === "bytes"
    ? bytes(x.value)
    : `${bare(significant(x.value))} ${x.unit}`;
const answer = (share) => h("span", { class: share > 0 ? "worse" : share < 0 ? "better" : null }, change(share));

const percentOf = (elasticity) => change(elasticity / 100);

/* Two bars from the middle: above for more of it, below for less. */
function tornado(x, most) {
  const mark = (value, y) => {
    const wide = (240 * Math.abs(value)) / most;
    return s("rect", {
      x: value < 0 ? 250 - wide : 250,
      y,
      width: wide,
      height: 7.5,
      style: { fill: value < 0 ? "var(--better)" : "var(--worse)" },
    });
  };
  const told = () =>
    [
      x.label,
      `1% more: EDP ${percentOf(x.elasticity)}`,
      `of it energy ${percentOf(x.energy_elasticity)}, latency ${percentOf(x.cycles_elasticity)}`,
      x.elasticity_shrinking === null ? "" : `1% less: EDP ${percentOf(-x.elasticity_shrinking)}`,
      x.access_energy_elasticity === null
        ? ""
        : `dearer accesses of a larger memory would add ${percentOf(x.access_energy_elasticity)}`,
    ]
      .filter(Boolean)
      .join("\n");
  return s(
    "svg",
    { viewBox: "0 0 500 18", preserveAspectRatio: "none", "aria-hidden": "true", tip: told },
    mark(x.elasticity, 1),
    x.elasticity_shrinking !== null && mark(-x.elasticity_shrinking, 9.5),
    s("rect", { x: 249.2, y: 0, width: 1.6, height: 18, style: { fill: "var(--strong-rule)" } }),
  );
}

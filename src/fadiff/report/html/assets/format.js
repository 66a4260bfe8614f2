/* Numbers for people: digits that matter, in units that fit. Energies come in pJ, memory in bytes. */

const MINUS = "−";

function significant(value, digits = 3) {
  if (!value) return "0";
  const exponent = Number(value.toExponential(digits - 1).split("e")[1]);
  const text = Math.abs(value).toFixed(Math.min(12, Math.max(0, digits - 1 - exponent)));
  const [whole, part] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return (value < 0 ? MINUS : "") + grouped + (part ? "." + part : "");
}

function scaled(value, units, base) {
  let at = 0;
  let rest = Math.abs(value);
  while (rest >= base * 0.9995 && at < units.length - 1) {
    rest /= base;
    at += 1;
  }
  const plain = at === 0 && Number.isInteger(value);
  return [(value < 0 ? MINUS : "") + (plain ? exact(rest) : significant(rest)), units[at]];
}

const joined = ([number, unit]) => (unit ? number + " " + unit : number);
const energyParts = (pj) => scaled(pj, ["pJ", "nJ", "µJ", "mJ", "J", "kJ"], 1000);
const byteParts = (count) => {
  const [number, unit] = scaled(count, ["B", "KB", "MB", "GB", "TB"], 1024);
  return [bare(number), unit];
};
const countParts = (count) => scaled(count, ["", "K", "M", "G", "T", "P"], 1000);
const energy = (pj) => joined(energyParts(pj));
const bytes = (count) => joined(byteParts(count));
const count = (value) => joined(countParts(value));
const exact = (value) => significant(Math.round(value), Math.max(1, String(Math.round(Math.abs(value))).length));
const percent = (share, digits = 1) => (100 * share).toFixed(digits).replace("-", MINUS) + "%";
const stopped = (words) => words + (/[.!?]$/.test(words) ? "" : ".");
const plural = (number, noun) => exact(number) + " " + noun + (number === 1 ? "" : "s");

/* 1.367 × 10⁹ as [mantissa, exponent]. */
function scientific(value, digits = 4) {
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  return [mantissa, Number(exponent)];
}
const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const raised = (exponent) =>
  String(exponent)
    .split("")
    .map((sign) => SUPERSCRIPTS[sign])
    .join("");
function edp(value, digits = 4) {
  const [mantissa, exponent] = scientific(value, digits);
  return mantissa + " × 10" + raised(exponent);
}

/* A number of an axis or a data sheet: 1 K and 0.1 rather than 1.00 K and 0.100. */
const bare = (text) => text.replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
const tick = (value) => joined([bare(countParts(value)[0]), countParts(value)[1]]);

/* A relative change with its sign: +2.1%, −0.04%. */
function change(share) {
  if (Math.abs(share) < 5e-7) return "0%";
  return (share > 0 ? "+" : MINUS) + significant(Math.abs(100 * share), 2) + "%";
}

/* Round steps for an axis from 0 to `most`. */
function steps(most, wanted, base = 10) {
  const rough = most / wanted;
  const unit = base === 10 ? 10 ** Math.floor(Math.log10(rough)) : 2 ** Math.floor(Math.log2(rough));
  const step =
    base === 10 ? [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= rough * 0.999) : rough > unit ? 2 * unit : unit;
  const marks = [];
  for (let at = 0; at <= most * 1.0001; at += step) marks.push(at);
  return marks;
}

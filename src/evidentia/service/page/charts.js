// Line charts and sparklines as SVG: no library, no styles in the markup, values readable by pointer and keyboard.

const NAMESPACE = "http://www.w3.org/2000/svg";
const HEIGHT = 176, LEFT = 62, RIGHT = 10, TOP = 8, BOTTOM = 26;
export const NUM_STYLES = 6;

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function html(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

// Rounded numbers that divide a range into about `count` parts.
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) found.push(k * step);
  return found;
}

export function number(value, digits = 4) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e5 && Number.isInteger(value)) return value.toLocaleString("en");
  const text = size !== 0 && (size < 1e-3 || size >= 1e7) ? value.toExponential(1) : Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 6 });
  return text.replace("-", "−");
}

// The range of all values, a little wider; `within` bounds it, as for probabilities.
function extent(series, within) {
  if (within) return within;
  let low = Infinity, high = -Infinity;
  for (const one of series) for (const value of one.values) if (known(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  if (low > high) return null;
  const margin = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
  return [low - margin, high + margin];
}

// A chart in `place`: `x` numbers, `series` of {name, values}, `alarms` at x. The reading under it follows pointer and arrow keys.
export function drawChart(place, { title, x, series, alarms = [], within = null }) {
  const range = extent(series, within);
  if (!range || x.length === 0) { place.hidden = true; return; }
  place.hidden = false;
  if (!place.firstChild) build(place, title);
  const WIDTH = Math.max(240, place.clientWidth);
  const [chart, legend, reading] = [place.querySelector(".chart"), place.querySelector(".legend"), place.querySelector(".reading")];
  const [low, high] = range, first = Math.min(x[0], 0), last = x[x.length - 1];
  const across = (value) => LEFT + (WIDTH - LEFT - RIGHT) * (value - first) / (last - first || 1);
  const down = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low || 1);
  const parts = [];
  for (const tick of ticks(low, high, 4)) {
    parts.push(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: down(tick), y2: down(tick) }));
    parts.push(svg("text", { x: LEFT - 6, y: down(tick) + 4, "text-anchor": "end" }, number(tick)));
  }
  for (const tick of ticks(first, last, WIDTH < 420 ? 3 : 5)) parts.push(svg("text", { x: across(tick), y: HEIGHT - 8, "text-anchor": tick === last ? "end" : "middle" }, number(tick)));
  for (const alarm of alarms) if (alarm >= first && alarm <= last) parts.push(svg("line", { class: "alarm", x1: across(alarm), x2: across(alarm), y1: TOP, y2: HEIGHT - BOTTOM }));
  series.forEach((one, which) => {
    let path = "", pen = "M";
    one.values.forEach((value, at) => {
      if (!known(value)) { pen = "M"; return; }
      path += `${pen}${across(x[at]).toFixed(1)} ${down(value).toFixed(1)}`;
      pen = "L";
    });
    parts.push(svg("path", { class: `line s${which % NUM_STYLES}`, fill: "none", d: path }));
  });
  chart.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  chart.replaceChildren(...parts);
  const latest = series.map((one) => `${one.name} ${number(one.values[one.values.length - 1])}`).join(", ");
  const marked = alarms.length ? `; changes at row ${alarms.map((one) => number(one)).join(", ")}` : "";
  chart.setAttribute("aria-label", `${title}, from row ${number(x[0])} to ${number(last)}. Latest: ${latest}${marked}. Arrow keys read the values.`);
  if (series.length > 1 || alarms.length) {
    const entries = series.map((one, which) => html("li", {}, svg("svg", { "aria-hidden": "true", viewBox: "0 0 28 10" }, svg("line", { class: `s${which % NUM_STYLES}`, x1: 0, x2: 28, y1: 5, y2: 5 })), one.name));
    if (alarms.length) entries.push(html("li", {}, svg("svg", { class: "chart-key", "aria-hidden": "true", viewBox: "0 0 28 10" }, svg("line", { class: "alarm-key", x1: 14, x2: 14, y1: 0, y2: 10 })), "change"));
    legend.replaceChildren(...entries);
  } else legend.replaceChildren();
  chart.read = (at) => {
    chart.querySelector(".cursor")?.remove();
    if (at === null) { reading.textContent = ""; return; }
    chart.at = Math.max(0, Math.min(x.length - 1, at));
    chart.append(svg("line", { class: "cursor", x1: across(x[chart.at]), x2: across(x[chart.at]), y1: TOP, y2: HEIGHT - BOTTOM }));
    reading.textContent = `row ${number(x[chart.at])}: ` + series.map((one) => (series.length > 1 ? `${one.name} ` : "") + number(one.values[chart.at])).join(", ");
  };
  chart.nearest = (fraction) => {
    const wanted = first + (last - first) * (fraction * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    let best = 0;
    x.forEach((value, at) => { if (Math.abs(value - wanted) < Math.abs(x[best] - wanted)) best = at; });
    return best;
  };
  chart.count = x.length;
  if (chart.at !== undefined && document.activeElement === chart) chart.read(chart.at);
}

function build(place, title) {
  const chart = svg("svg", { class: "chart", role: "img", tabindex: "0" });
  const reading = html("p", { class: "reading", "aria-live": "polite" });
  place.append(html("h4", {}, title), html("ul", { class: "legend" }), chart, reading);
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    chart.read(chart.nearest((event.clientX - box.left) / box.width));
  });
  chart.addEventListener("pointerleave", () => chart.read(null));
  chart.addEventListener("blur", () => chart.read(null));
  chart.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    event.preventDefault();
    chart.read((chart.at ?? chart.count - 1) + steps[event.key]);
  });
}

export function sparkline(values) {
  const usable = values.filter(known);
  const low = Math.min(...usable), high = Math.max(...usable), span = high - low || 1;
  const points = values.map((value, at) => known(value) ? `${(96 * at / Math.max(1, values.length - 1)).toFixed(1)},${(22 - 20 * (value - low) / span).toFixed(1)}` : null);
  return svg("svg", { class: "spark", viewBox: "0 0 96 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("polyline", { points: points.filter((one) => one !== null).join(" ") }));
}

// The live page: an overview by server-sent events; the visible keys and the chosen one are fetched when it has changed.

import { drawChart, html, number, sparkline } from "./charts.js";

const PAGE = 25, NUM_ALARMS = 20;
const at = (id) => document.getElementById(id);
const state = { overview: null, stream: null, monitor: null, key: null, offset: 0, total: 0, seen: "", alarms: -1, rates: {} };

async function fetched(path, parameters = {}) {
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`);
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer.json();
}

const monitorPath = () => `api/streams/${encodeURIComponent(state.stream)}/monitors/${encodeURIComponent(state.monitor)}`;
const seconds = (value) => value === null ? "–" : value < 10 ? `${value.toFixed(1)} s` : value < 7200 ? `${Math.round(value)} s` : `${(value / 3600).toFixed(1)} h`;
const fixed = (value) => value === null ? "–" : value.toFixed(3).replace("-", "−");
const clock = (text) => new Date(text).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

function show(element, text, isBad = false) {
  if (element.textContent !== text) element.textContent = text;
  element.classList.toggle("bad", isBad);
}

// Streams

function rateOf(name, rows) {
  const now = performance.now(), marks = state.rates[name] ??= [];
  marks.push([now, rows]);
  while (marks.length > 2 && now - marks[0][0] > 10_000) marks.shift();
  const [then, before] = marks[0];
  return now > then ? (rows - before) / (now - then) * 1000 : 0;
}

function drawStreams(streams) {
  const place = at("streams");
  for (const [name, stream] of Object.entries(streams)) {
    const id = `stream-${name}`;
    const card = at(id) ?? place.appendChild(html("li", { id }, html("h3", {}, name), html("p", { class: "quiet" }, stream.source), html("p", { class: "state" }), html("dl")));
    const isWell = stream.state === "running" || stream.state === "starting";
    show(card.querySelector(".state"), stream.problem ? `${stream.state}: ${stream.problem}` : stream.state, !isWell || Boolean(stream.problem));
    const facts = { rows: number(stream.rows, 12), "rows / s": number(rateOf(name, stream.rows), 3), lag: seconds(stream.lag_seconds), alarms: number(stream.alarms, 12), "cannot be used": number(stream.rejected, 12), "saved": stream.checkpoint_time === null ? "never" : clock(stream.checkpoint_time * 1000) };
    card.querySelector("dl").replaceChildren(...Object.entries(facts).flatMap(([term, value]) => [html("dt", {}, term), html("dd", {}, value)]));
  }
}

// Monitors

function drawTabs(streams) {
  const place = at("monitors"), several = Object.keys(streams).length > 1;
  for (const [stream, { monitors }] of Object.entries(streams)) {
    for (const [monitor, { alarms }] of Object.entries(monitors)) {
      const id = `tab-${stream}-${monitor}`;
      let tab = at(id);
      if (!tab) {
        tab = place.appendChild(html("button", { id, type: "button", role: "tab", "aria-controls": "panel" }));
        tab.addEventListener("click", () => choose(stream, monitor, null));
        tab.addEventListener("keydown", moveBetweenTabs);
      }
      show(tab, `${several ? `${stream}: ` : ""}${monitor}${alarms ? ` (${number(alarms, 12)})` : ""}`);
      tab.setAttribute("aria-label", `${stream}: ${monitor}, ${alarms} alarms`);
      const isChosen = stream === state.stream && monitor === state.monitor;
      tab.setAttribute("aria-selected", isChosen);
      tab.tabIndex = isChosen ? 0 : -1;
      if (isChosen) at("panel").setAttribute("aria-labelledby", id);
    }
  }
}

function moveBetweenTabs(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  const tabs = [...at("monitors").children], next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length];
  next.click();
  next.focus();
}

function choose(stream, monitor, key) {
  Object.assign(state, { stream, monitor, key, offset: 0, seen: "" });
  at("charts").replaceChildren();
  remember();
  refresh();
}

function remember() {
  const hash = [state.stream, state.monitor, state.key].filter((one) => one !== null).map(encodeURIComponent).join("/");
  history.replaceState(null, "", `#${hash}`);
}

function chooseFirst(streams) {
  const [stream, monitor, key] = location.hash.slice(1).split("/").filter(Boolean).map(decodeURIComponent);
  if (streams[stream]?.monitors[monitor]) Object.assign(state, { stream, monitor, key: key ?? null });
  else {
    state.stream = Object.keys(streams)[0];
    state.monitor = Object.keys(streams[state.stream].monitors)[0];
  }
}

// Keys

function drawKeys({ total, offset, models, keys }) {
  state.total = total;
  document.querySelector(".columns").classList.toggle("single", total === 1 && keys[0]?.key === "all");
  at("best-title").hidden = models.length < 2;
  show(at("keys-caption"), `${number(total, 12)} ${total === 1 ? "key" : "keys"}`);
  const focused = document.activeElement?.dataset?.key;
  at("keys").replaceChildren(...keys.map((one) => {
    const button = html("button", { type: "button", "data-key": one.key }, one.key);
    button.addEventListener("click", () => { state.key = one.key; remember(); at("charts").replaceChildren(); refresh(); });
    const best = one.probabilities.indexOf(Math.max(...one.probabilities));
    const cell = models.length > 1 ? [html("td", { class: "roomy" }, `${models[best]} ${fixed(one.probabilities[best])}`)] : [html("td", { class: "roomy", hidden: "" })];
    return html("tr", { "aria-current": one.key === state.key ? "true" : undefined },
      html("td", {}, button), html("td", { class: "number" }, number(one.rows, 12)), html("td", { class: "number" }, fixed(one.log_evidence_per_row)),
      ...cell, html("td", { class: one.alarms ? "number bad" : "number" }, number(one.alarms, 12)), html("td", {}, sparkline(one.recent)));
  }));
  if (focused !== undefined) at("keys").querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  show(at("page"), total ? `${number(offset + 1, 12)} to ${number(offset + keys.length, 12)} of ${number(total, 12)}` : "none");
  at("before").disabled = offset === 0;
  at("after").disabled = offset + keys.length >= total;
  if (state.key === null && keys.length) { state.key = keys[0].key; at("keys").firstChild.setAttribute("aria-current", "true"); }
}

// One key

function chartPlace(name) {
  return at(`chart-${name}`) ?? at("charts").appendChild(html("div", { id: `chart-${name}` }));
}

function drawDetail(found) {
  const { trajectory, models, alarms } = found, x = trajectory.num_observations;
  show(at("detail-title"), found.key === "all" ? `${state.stream}: ${state.monitor}` : found.key);
  const evidences = models.map((name, which) => `${models.length > 1 ? `${name}: ` : ""}${number(found.log_evidence[which], 7)}${found.standard_error[which] ? ` ± ${number(found.standard_error[which], 2)}` : ""}`);
  show(at("detail-summary"), `${number(found.rows, 12)} rows, log evidence ${evidences.join(", ")} nats`);
  const changes = alarms.map((alarm) => alarm.change.row);
  drawChart(chartPlace("evidence"), { title: "Log evidence per row (nats)", x, alarms: changes,
    series: models.map((name) => ({ name, values: trajectory.log_evidence[name].map((value, which) => value === null ? null : value / x[which]) })) });
  if (models.length > 1) drawChart(chartPlace("weights"), { title: "Model weights", x, within: [0, 1], alarms: changes, series: models.map((name) => ({ name, values: trajectory.probabilities[name] })) });
  drawChart(chartPlace("predictive"), { title: "Log predictive density of each batch, per row (nats)", x, alarms: changes, series: [{ name: "log predictive", values: trajectory.log_predictive_per_row }] });
  drawChart(chartPlace("residuals"), { title: "Predictive residuals (standard deviations)", x, alarms: changes, series: [{ name: "residual", values: trajectory.residual }] });
}

// Alarms

async function drawAlarms(total) {
  if (total === state.alarms) return;
  const isNew = state.alarms >= 0;
  state.alarms = total;
  const { alarms } = await fetched("api/alarms", { limit: NUM_ALARMS });
  show(at("alarms-caption"), total ? `${number(total, 12)} in all; the last ${number(alarms.length)}, the newest first` : "none so far");
  at("alarms").replaceChildren(...alarms.map((alarm) => {
    const button = html("button", { type: "button" }, alarm.key);
    button.addEventListener("click", () => { choose(alarm.stream, alarm.monitor, alarm.key); at("results").focus(); });
    const { row, interval, probability, log_bayes_factor: factor } = alarm.change;
    const support = probability !== undefined ? `probability ${number(probability, 4)}` : factor !== undefined ? `${number(factor, 4)} nats` : "";
    return html("tr", {}, html("td", {}, clock(alarm.time)), html("td", {}, `${alarm.stream}: ${alarm.monitor}`), html("td", {}, button),
      html("td", { class: "number" }, number(row, 12)), html("td", { class: "roomy" }, `${number(interval[0], 12)} and ${number(interval[1], 12)}`), html("td", { class: "roomy" }, support));
  }));
  if (isNew && alarms.length) show(at("alarm-news"), `Change in ${alarms[0].key}, ${alarms[0].monitor}, at row ${alarms[0].change.row}`);
}

// Updates

let busy = false, again = false;

async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    do {
      again = false;
      await refreshOnce();
    } while (again);
    show(at("connection"), "Live");
  } catch (error) {
    show(at("connection"), error.message, true);
  } finally {
    busy = false;
  }
}

async function refreshOnce() {
  const { streams } = state.overview;
  if (state.stream === null) chooseFirst(streams);
  drawStreams(streams);
  drawTabs(streams);
  await drawAlarms(Object.values(streams).reduce((sum, one) => sum + one.alarms, 0));
  const { rows, keys } = streams[state.stream].monitors[state.monitor];
  const seen = [state.stream, state.monitor, state.key, rows, keys, state.offset, at("search").value, at("order").value].join(" ");
  if (seen === state.seen) return;
  const { stream, monitor } = state;
  const found = await fetched(`${monitorPath()}/keys`, { offset: state.offset, limit: PAGE, order: at("order").value, search: at("search").value });
  if (stream !== state.stream || monitor !== state.monitor) return;
  if (!found.keys.length && state.offset) { state.offset = 0; again = true; return; }
  drawKeys(found);
  if (state.key !== null) drawDetail(await fetched(`${monitorPath()}/result`, { key: state.key }));
  state.seen = seen;
}

function turn(pages) {
  state.offset = Math.max(0, state.offset + pages * PAGE);
  refresh();
}

at("filter").addEventListener("submit", (event) => event.preventDefault());
at("search").addEventListener("input", () => { state.offset = 0; refresh(); });
at("order").addEventListener("change", () => { state.offset = 0; refresh(); });
at("before").addEventListener("click", () => turn(-1));
at("after").addEventListener("click", () => turn(1));

addEventListener("resize", () => { state.seen = ""; if (state.overview) refresh(); });

const events = new EventSource("api/events");
events.addEventListener("overview", (event) => {
  state.overview = JSON.parse(event.data);
  show(at("version"), `evidentia ${state.overview.version}.`);
  refresh();
});
events.addEventListener("error", () => show(at("connection"), "Connection lost; trying again …", true));

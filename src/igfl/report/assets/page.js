"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const draw = (tag, attributes, parent) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
};

// Colours that the colour-blind tell apart, and dashes that tell them apart in grey.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#7a5195", "#6b7280"];
const DASHES = ["", "7 3", "2 3", "10 3 2 3", "4 2", "1 2", "12 4", "6 2 1 2 1 2"];
const look = (g) => {
  const hue = data.groups[g].hue ?? g;
  return { colour: COLOURS[hue % COLOURS.length], dash: DASHES[(hue + Math.floor(hue / COLOURS.length)) % DASHES.length] };
};
const hidden = new Set();
const short = (value) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e12) return +(value / 1e12).toPrecision(3) + "T";
  if (size >= 1e9) return +(value / 1e9).toPrecision(3) + "G";
  if (size >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
  if (size >= 1e4) return +(value / 1e3).toPrecision(3) + "k";
  return String(+value.toPrecision(3));
};
const percent = (value) => (100 * value).toFixed(2) + "%";
const time = (seconds) => (seconds < 120 ? seconds.toFixed(1) + " s" : seconds < 7200 ? (seconds / 60).toFixed(1) + " min" : (seconds / 3600).toFixed(1) + " h");
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
const deviation = (values) => {
  const m = mean(values);
  return Math.sqrt(values.reduce((a, v) => a + (v - m) ** 2, 0) / (values.length - 1));
};

// --- runs ---------------------------------------------------------------------------------------------------------
function swatch(g) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of [["width", 34], ["height", 10], ["class", "swatch"], ["aria-hidden", "true"]]) svg.setAttribute(name, value);
  const { colour, dash } = look(g);
  draw("line", { x1: 0, x2: 34, y1: 5, y2: 5, stroke: colour, "stroke-width": 3, "stroke-dasharray": dash }, svg);
  return svg;
}
function ofGroup(group, name) {
  return group.runs.map((i) => data.runs[i].summary[name]).filter((value) => typeof value === "number");
}
function spread(values, show) {
  if (!values.length) return "–";
  return show(mean(values)) + (values.length > 1 ? " ± " + show(deviation(values)) : "");
}
function showRuns() {
  const table = $("runs-table");
  const heads = ["shown", "runs", "accuracy, last 10%", "best", "last", "rounds", "seeds", "time", "sent", "digest"];
  table.append(make("thead", {}, make("tr", {}, ...heads.map((h, i) => make("th", i > 1 && i < 9 ? { class: "n", scope: "col" } : { scope: "col" }, h)))));
  const body = make("tbody");
  data.groups.forEach((group, g) => {
    const box = make("input", { type: "checkbox", checked: "", "aria-label": "show " + group.label });
    box.checked = true;
    box.addEventListener("change", () => { box.checked ? hidden.delete(g) : hidden.add(g); showCharts(); });
    const runs = group.runs.map((i) => data.runs[i]);
    const fallen = ofGroup(group, "diverged");
    const accuracy = fallen.length === runs.length ? `– (diverged in round ${Math.max(...fallen)})` : spread(ofGroup(group, "accuracy_last10pct"), percent) + (fallen.length ? `, ${fallen.length} diverged` : "");
    const sent = runs.map((r) => (r.summary.up_bytes || 0) + (r.summary.down_bytes || 0));
    const cells = [
      make("td", {}, box), make("td", {}, swatch(g), group.label), accuracy, spread(ofGroup(group, "accuracy_best"), percent),
      spread(ofGroup(group, "accuracy_last"), percent), [...new Set(runs.map((r) => r.done === r.rounds ? r.done : `${r.done} of ${r.rounds}`))].join(", "),
      runs.map((r) => r.seed).join(", "), spread(ofGroup(group, "seconds"), time), sent.some(Boolean) ? short(mean(sent)) + "B" : "–",
    ].map((c, i) => c instanceof Node ? c : make("td", i > 1 ? { class: "n" } : {}, c));
    cells.push(make("td", {}, make("code", {}, runs.map((r) => r.digest.slice(0, 12)).join(" "))));
    body.append(make("tr", {}, ...cells));
  });
  table.append(body);
}

// --- curves -------------------------------------------------------------------------------------------------------
const CHARTS = [
  ["Test accuracy", "global/accuracy"], ["Test loss", "global/loss"], ["Training loss", "train/loss"],
  ["Accuracy of the clients, mean", "clients/accuracy_mean"], ["Accuracy of the worst client", "clients/accuracy_worst"],
  ["Length of the clients' updates, mean", "drift/norm_mean"], ["Agreement of updates: cosine with the weighted one", "drift/cosine"],
  ["Entropy of the weights, nats", "attention/entropy"], ["Seconds a round", "time/round_s"],
];
const AXES = { round: "rounds", bytes: "bytes", steps: "local steps" };
function along(run, series, axis) {
  return axis === "bytes" ? series.bytes : axis === "steps" ? series.round.map((r) => r * (run.steps || NaN)) : series.round;
}
function interpolate(xs, ys, x) {
  if (x < xs[0] || x > xs[xs.length - 1]) return NaN;
  let low = 0, high = xs.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; xs[middle] <= x ? (low = middle) : (high = middle); }
  const width = xs[high] - xs[low];
  return width ? ys[low] + (ys[high] - ys[low]) * (x - xs[low]) / width : ys[high];
}
function linesOf(name, axis, facet) {
  return data.groups.map((group, g) => {
    const curves = group.runs.map((i) => [data.runs[i], data.runs[i].series[name]]).filter(([, s]) => s)
      .map(([run, s]) => ({ xs: along(run, s, axis), ys: s.value })).filter((c) => c.xs.every(Number.isFinite));
    if (!curves.length || hidden.has(g) || group.facet !== facet) return null;
    const xs = curves.reduce((a, b) => (b.xs[b.xs.length - 1] > a.xs[a.xs.length - 1] ? b : a)).xs;
    const at = xs.map((x) => curves.map((c) => interpolate(c.xs, c.ys, x)).filter(Number.isFinite));
    return { g, label: group.short ?? group.label, xs, mean: at.map(mean), low: at.map((v) => Math.min(...v)), high: at.map((v) => Math.max(...v)), several: curves.length > 1 };
  }).filter(Boolean);
}
function tick(value, all) { // with as many digits as tell it from its neighbours
  const step = all.length > 1 ? Math.abs(all[1] - all[0]) : Math.abs(value);
  return step >= 1 ? short(value) : value.toFixed(Math.min(8, Math.max(0, -Math.floor(Math.log10(step || 1) + 1e-9))));
}
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || power;
  const found = [];
  for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) found.push(Math.abs(t) < 1e-12 ? 0 : t);
  return found;
}
function chart(title, name, axis, facet) {
  const lines = linesOf(name, axis, facet);
  const box = make("div", { class: "chart" }, make("h3", {}, title)), says = make("div", { class: "says" });
  if (!lines.length) return null;
  const wide = Math.max(300, Math.min(700, $("charts").clientWidth / Math.max(1, Math.floor($("charts").clientWidth / 446)) - 24)), tall = 240;
  const left = 48, right = 10, top = 8, bottom = 34;
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": `${title} against ${AXES[axis]}: ` +
    lines.map((l) => `${l.label} ends at ${short(l.mean[l.mean.length - 1])}`).join(", ") }, box);
  const every = lines.flatMap((l) => [...l.low, ...l.high]).filter(Number.isFinite).sort((a, b) => a - b);
  let y0 = every[0], y1 = name.endsWith("loss") ? every[Math.floor(0.98 * (every.length - 1))] : every[every.length - 1];
  if (y0 === y1) { y0 -= 0.5; y1 += 0.5; }
  const x1 = Math.max(...lines.map((l) => l.xs[l.xs.length - 1])), x0 = Math.min(0, ...lines.map((l) => l.xs[0]));
  const X = (x) => left + (x - x0) / (x1 - x0 || 1) * (wide - left - right);
  const Y = (y) => top + (1 - (Math.min(Math.max(y, y0), y1) - y0) / (y1 - y0)) * (tall - top - bottom);
  const asPercent = name.includes("accuracy");
  const levels = ticks(y0, y1, 5);
  for (const t of levels) {
    draw("line", { x1: left, x2: wide - right, y1: Y(t), y2: Y(t), class: "grid" }, svg);
    draw("text", { x: left - 6, y: Y(t) + 4, "text-anchor": "end" }, svg).textContent = asPercent ? tick(100 * t, levels.map((v) => 100 * v)) + "%" : tick(t, levels);
  }
  for (const t of ticks(x0, x1, 5)) draw("text", { x: X(t), y: tall - 18, "text-anchor": "middle" }, svg).textContent = short(t);
  draw("text", { x: (left + wide - right) / 2, y: tall - 3, "text-anchor": "middle" }, svg).textContent = AXES[axis];
  for (const l of lines) {
    const { colour, dash } = look(l.g);
    if (l.several) {
      const band = [...l.xs.map((x, i) => [X(x), Y(l.high[i])]), ...l.xs.map((x, i) => [X(x), Y(l.low[i])]).reverse()];
      draw("polygon", { points: band.map((p) => p.map((v) => v.toFixed(1)).join(",")).join(" "), fill: colour, opacity: 0.18 }, svg);
    }
    draw("polyline", { points: l.xs.map((x, i) => `${X(x).toFixed(1)},${Y(l.mean[i]).toFixed(1)}`).join(" "), fill: "none", stroke: colour,
      "stroke-width": 2, "stroke-dasharray": dash, "stroke-linejoin": "round" }, svg);
    if (l.xs.length === 1) draw("circle", { cx: X(l.xs[0]), cy: Y(l.mean[0]), r: 4, fill: colour }, svg);
  }
  const hair = draw("line", { y1: top, y2: tall - bottom, stroke: "currentColor", opacity: 0, "stroke-dasharray": "2 2" }, svg);
  svg.addEventListener("pointermove", (event) => {
    const frame = svg.getBoundingClientRect(), x = x0 + ((event.clientX - frame.left) / frame.width * wide - left) / (wide - left - right) * (x1 - x0);
    if (x < x0 || x > x1) return;
    for (const [attribute, value] of [["x1", X(x)], ["x2", X(x)], ["opacity", 0.5]]) hair.setAttribute(attribute, value);
    says.textContent = `${AXES[axis]} ${short(x)}: ` + lines.map((l) => [l.label, interpolate(l.xs, l.mean, x)]).filter(([, v]) => Number.isFinite(v))
      .map(([label, v]) => `${label} ${asPercent ? percent(v) : short(v)}`).join(", ");
  });
  svg.addEventListener("pointerleave", () => { hair.setAttribute("opacity", 0); says.textContent = ""; });
  box.append(says);
  return box;
}
function showCharts() {
  const axis = document.querySelector("input[name=axis]:checked").value;
  const facets = [...new Set(data.groups.map((group) => group.facet))];
  const made = facets.flatMap((f) => CHARTS.map(([title, name]) => chart(f ? `${title}: ${f}` : title, name, axis, f))).filter(Boolean);
  $("charts").replaceChildren(...made);
  $("charts").dataset.axis = axis;
}

// --- pictures of matrices -----------------------------------------------------------------------------------------
function canvas(element, wide, tall) {
  const scale = Math.min(2, window.devicePixelRatio || 1);
  element.width = wide * scale; element.height = tall * scale;
  element.style.width = wide + "px"; element.style.height = tall + "px";
  const pen = element.getContext("2d");
  pen.scale(scale, scale);
  pen.clearRect(0, 0, wide, tall);
  pen.font = "11px system-ui, sans-serif";
  return pen;
}
const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
const soft = () => (isDark() ? "#9aa6b2" : "#5a6570");
function shade(share) { // from the ground to ink, one hue, its lightness in proportion
  const s = Math.max(0, Math.min(1, share)), light = isDark() ? 14 + 72 * s : 98 - 76 * s;
  return `hsl(205 ${30 + 45 * s}% ${light}%)`;
}

// --- partition ----------------------------------------------------------------------------------------------------
const partitions = Object.values(data.partitions).filter((p) => p.counts);
function showPartition() {
  const p = partitions[$("partition-pick").value || 0];
  if (!p) return;
  const n = p.counts.length, shown = n <= 100 ? [...Array(n).keys()] : [...Array(100).keys()].map((i) => Math.floor(i * n / 100));
  const classes = p.counts[0].length, step = n > 30 ? 13 : 26, row = classes > 20 ? 9 : 19, left = 46;
  const pen = canvas($("bubbles"), left + step * shown.length + 10, row * classes + 26);
  const most = p.counts.reduce((m, row) => Math.max(m, ...row), 0), widest = Math.min(step, row) * 0.95;
  pen.fillStyle = soft();
  for (let k = 0; k < classes; k += classes > 20 ? 5 : 1) pen.fillText("class " + k, 0, row * (k + 0.5) + 4);
  shown.forEach((client, i) => { if (i % (n > 30 ? 10 : 1) === 0) pen.fillText(client, left + step * (i + 0.5) - 4, row * classes + 16); });
  pen.fillStyle = isDark() ? "#6cb8f0" : "#0072b2";
  shown.forEach((client, i) => p.counts[client].forEach((count, k) => {
    if (!count) return;
    pen.beginPath();
    pen.arc(left + step * (i + 0.5), row * (k + 0.5), Math.sqrt(count / most) * widest / 2, 0, 7);
    pen.fill();
  }));
  const options = Object.entries(p.parameters).map(([k, v]) => `${k} ${v}`).join(", ");
  $("partition-facts").textContent = `${p.rule}${options ? ", " + options : ""}; ${n} clients with ${p.sizes.reduce((a, b) => Math.min(a, b))} to ${p.sizes.reduce((a, b) => Math.max(a, b))} examples` +
    `${shown.length < n ? `, ${shown.length} of them shown` : ""}; the largest bubble is ${most} examples; SHA-256 ${p.sha256.slice(0, 16)}`;
}

// --- behaviour ----------------------------------------------------------------------------------------------------
const watched = data.runs.map((run, i) => [run, i]).filter(([run]) => run.behaviour);
const matrices = new Map();
function square(snapshot) {
  if (!matrices.has(snapshot)) {
    const n = snapshot.clients.length, full = Array.from({ length: n }, () => new Float64Array(n));
    let k = 0;
    for (let i = 0; i < n; i++) for (let j = i; j < n; j++) full[i][j] = full[j][i] = snapshot.dots[k++] ?? NaN;
    matrices.set(snapshot, full);
  }
  return matrices.get(snapshot);
}
function valuesOf(snapshot, kind) {
  const dots = square(snapshot);
  if (kind === "cosine") {
    const norms = dots.map((row, i) => Math.sqrt(Math.max(row[i], 1e-30)));
    return dots.map((row, i) => row.map((v, j) => v / norms[i] / norms[j]));
  }
  return dots.map((row) => {
    const top = Math.max(...row), powers = row.map((v) => Math.exp(v - top)), total = powers.reduce((a, b) => a + b, 0);
    return powers.map((v) => v / total);
  });
}
function shownMatrix(behaviour, at, kind, span) {
  const place = new Map(behaviour.clients.map((c, i) => [c, i])), n = behaviour.clients.length;
  const total = Array.from({ length: n }, () => new Float64Array(n)), times = Array.from({ length: n }, () => new Uint16Array(n));
  for (const snapshot of behaviour.snapshots.slice(span === "mean" ? 0 : at, at + 1)) {
    const values = valuesOf(snapshot, kind), where = snapshot.clients.map((c) => place.get(c));
    where.forEach((a, i) => where.forEach((b, j) => { if (a !== undefined && b !== undefined) { total[a][b] += values[i][j]; times[a][b]++; } }));
  }
  return total.map((row, i) => Array.from(row, (v, j) => (times[i][j] ? v / times[i][j] : NaN)));
}
let heat = null;
function showBehaviour() {
  const [run] = watched[$("behaviour-pick").value || 0], behaviour = run.behaviour, at = +$("slider").value;
  const kind = document.querySelector("input[name=kind]:checked").value, span = document.querySelector("input[name=span]:checked").value;
  const n = behaviour.clients.length, order = $("ordered").checked ? behaviour.order : [...Array(n).keys()];
  const values = shownMatrix(behaviour, at, kind, span);
  $("at").textContent = behaviour.snapshots[at].round;
  const low = kind === "cosine" ? -1 : 0, high = kind === "cosine" ? 1 : values.flat().reduce((m, v) => (v > m ? v : m), 1e-9);
  const room = Math.min(420, $("heat").parentElement.clientWidth), margin = 26, cell = Math.max(1, (room - margin) / n);
  const pen = canvas($("heat"), room, room);
  order.forEach((a, i) => order.forEach((b, j) => {
    const v = values[a][b];
    pen.fillStyle = Number.isFinite(v) ? shade((v - low) / (high - low)) : isDark() ? "#1c2127" : "#f5f7f9";
    pen.fillRect(margin + j * cell, margin + i * cell, Math.ceil(cell), Math.ceil(cell));
  }));
  pen.fillStyle = soft();
  const step = Math.max(1, Math.ceil(n / 15));
  order.forEach((a, i) => { if (i % step === 0) { pen.fillText(behaviour.clients[a], margin + (i + 0.5) * cell - 5, 16); pen.fillText(behaviour.clients[a], 4, margin + (i + 0.5) * cell + 4); } });
  const cursor = heat ? heat.cursor.map((place) => Math.min(place, n - 1)) : [0, 0];
  heat = { values, order, cell, margin, behaviour, kind, cursor };
  sayHeat(`${kind === "cosine" ? "Cosine, from -1 to 1" : `Row attends to column, strongest ${short(high)}`}; arrow keys walk over the cells.`);
  const digest = values.flat().reduce((a, v, i) => (a * 31 + (Number.isFinite(v) ? Math.round(1e6 * v) : 7) + i) % 1000000007, 7);
  $("heat").dataset.shows = `${kind} ${span} ${behaviour.snapshots[at].round} ${digest}`;
  showWeights(behaviour, order, at);
}
function sayHeat(text) { $("heat-says").textContent = text; }
function sayCell(i, j) {
  const { values, order, behaviour, kind } = heat, n = order.length;
  if (i < 0 || j < 0 || i >= n || j >= n) return;
  heat.cursor = [i, j];
  const v = values[order[i]][order[j]], a = behaviour.clients[order[i]], b = behaviour.clients[order[j]];
  sayHeat(Number.isFinite(v) ? `client ${a}, client ${b}: ${kind} ${short(v)}` : `clients ${a} and ${b} did not meet`);
}
function showWeights(behaviour, order, at) {
  const room = Math.min(420, $("weights").parentElement.clientWidth), margin = 26, n = behaviour.clients.length, m = behaviour.snapshots.length;
  const pen = canvas($("weights"), room, room), wide = (room - margin) / m, tall = (room - margin) / n;
  const place = new Map(order.map((a, i) => [behaviour.clients[a], i])), every = behaviour.snapshots.flatMap((s) => s.weights), top = every.reduce((a, b) => Math.max(a, b)), least = every.reduce((a, b) => Math.min(a, b));
  behaviour.snapshots.forEach((snapshot, t) => snapshot.clients.forEach((client, i) => {
    if (!place.has(client)) return;
    pen.fillStyle = shade((snapshot.weights[i] - least) / (top - least || 1));
    pen.fillRect(margin + t * wide, place.get(client) * tall, Math.ceil(wide), Math.ceil(tall));
  }));
  pen.fillStyle = soft();
  const step = Math.max(1, Math.ceil(n / 15));
  order.forEach((a, i) => { if (i % step === 0) pen.fillText(behaviour.clients[a], 4, (i + 0.5) * tall + 4); });
  pen.fillText("round " + behaviour.snapshots[0].round, margin, room - 8);
  const last = String(behaviour.snapshots[m - 1].round);
  pen.fillText(last, room - 8 * last.length, room - 8);
  pen.strokeStyle = isDark() ? "#ffb454" : "#d55e00";
  pen.lineWidth = 2;
  pen.strokeRect(margin + at * wide, 0, Math.max(2, wide), room - margin);
}
function showScatter() {
  const [run] = watched[$("behaviour-pick").value || 0], { pairs, correlation, matching, clusters, clients } = run.behaviour;
  $("scatter").replaceChildren();
  if (pairs && pairs.length) {
    const wide = 380, tall = 340, left = 44, bottom = 36;
    const svg = draw("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": "Similarity of updates against similarity of labels" }, $("scatter"));
    const ys = pairs.map((p) => p[1]), y0 = Math.min(0, ...ys), y1 = Math.max(...ys, y0 + 1e-6); // at most 3,000
    const X = (x) => left + x * (wide - left - 10), Y = (y) => 8 + (1 - (y - y0) / (y1 - y0)) * (tall - bottom - 8);
    for (const t of ticks(y0, y1, 5)) { draw("line", { x1: left, x2: wide - 10, y1: Y(t), y2: Y(t), class: "grid" }, svg); draw("text", { x: left - 6, y: Y(t) + 4, "text-anchor": "end" }, svg).textContent = short(t); }
    for (const t of [0, 0.25, 0.5, 0.75, 1]) draw("text", { x: X(t), y: tall - 20, "text-anchor": "middle" }, svg).textContent = t;
    draw("text", { x: (left + wide) / 2, y: tall - 4, "text-anchor": "middle" }, svg).textContent = "similarity of labels (1 - total variation)";
    for (const [x, y] of pairs) draw("circle", { cx: X(x), cy: Y(y), r: pairs.length > 500 ? 1.8 : 3, fill: isDark() ? "#6cb8f0" : "#0072b2", opacity: 0.55 }, svg);
  }
  const rate = matching ? ` Matching rate ${percent(matching.rate)} of ${matching.pairs} pairs that share a label; ${percent(matching.zero)} of all pairs score exactly 0.` : "";
  $("scatter-says").textContent = pairs ? `Cosine of two clients' updates against the similarity of their labels, a dot a pair. Correlation ${correlation === null ? "not defined" : correlation.toFixed(3)}.${rate}` : "No label counts were kept with this run.";
  const found = new Map();
  clusters.forEach((c, i) => found.set(c, [...(found.get(c) || []), clients[i]]));
  $("clusters-say").textContent = `Found clusters, from updates alone: ${[...found.values()].map((members) => `{${members.slice(0, 12).join(", ")}${members.length > 12 ? ", …" : ""}}`).join(" ")}`;
}
function pickBehaviour() {
  const [run] = watched[$("behaviour-pick").value || 0];
  $("slider").max = run.behaviour.snapshots.length - 1;
  $("slider").value = Math.min(+$("slider").value, +$("slider").max);
  showBehaviour();
  showScatter();
}

// --- configuration, tables ----------------------------------------------------------------------------------------
function showConfigs() {
  const keys = [...new Set(data.runs.flatMap((r) => Object.keys(r.config)))];
  const differing = keys.filter((k) => new Set(data.runs.map((r) => JSON.stringify(r.config[k]))).size > 1);
  for (const run of data.runs) {
    const rows = [...differing, ...keys.filter((k) => !differing.includes(k))].filter((k) => k in run.config);
    const lines = [["digest", run.digest], ...rows.map((k) => [(differing.includes(k) ? "≠ " : "") + k, JSON.stringify(run.config[k])]),
      ...Object.entries(run.environment)].map(([k, v]) => make("tr", {}, make("th", { scope: "row" }, k), make("td", { class: "long" }, make("code", {}, String(v)))));
    $("configs").append(make("details", {}, make("summary", {}, `${run.name}: ${run.label}, seed ${run.seed}`), make("div", { class: "scroll" }, make("table", {}, ...lines))));
  }
}
function showTables() {
  if (!data.tables) return;
  $("tables").hidden = false;
  const body = $("tables").querySelector(".body");
  const table = (head, rows, long) => make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...head.map((h) => make("th", { scope: "col" }, h)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((c, i) => make("td", { class: (i && !long ? "n" : "") + (long ? " long" : "") }, c)))))));
  for (const t of data.tables) body.append(make("h3", {}, t.title), table(t.header, t.rows), ...[...t.above, ...t.below].map((line) => make("p", { class: "note" }, line)));
  if (data.verdicts) body.append(make("h3", {}, "The paper's claims"), table(["claim", "verdict", "why"], data.verdicts, true));
}

// --- everything together ------------------------------------------------------------------------------------------
function options(select, names) { names.forEach((name, i) => select.append(make("option", { value: i }, name))); }
function start() {
  showTables();
  showRuns();
  showCharts();
  showConfigs();
  for (const [id, there] of [["partition", partitions.length], ["behaviour", watched.length], ["runs", data.runs.length], ["curves", data.runs.length], ["details", data.runs.length]]) $(id).hidden = !there;
  options($("partition-pick"), partitions.map((p) => `${p.rule} ${p.sha256.slice(0, 8)}`));
  options($("behaviour-pick"), watched.map(([run]) => `${run.name}: ${run.label}, seed ${run.seed}`));
  if (partitions.length) showPartition();
  if (watched.length) pickBehaviour();
  document.querySelector("nav").append(...[...document.querySelectorAll("main section")].filter((s) => !s.hidden).map((s) => make("a", { href: "#" + s.id }, s.querySelector("h2").textContent)));
  document.querySelectorAll("input[name=axis]").forEach((i) => i.addEventListener("change", showCharts));
  document.querySelectorAll("input[name=kind], input[name=span], #ordered").forEach((i) => i.addEventListener("change", showBehaviour));
  $("slider").addEventListener("input", showBehaviour);
  $("behaviour-pick").addEventListener("change", pickBehaviour);
  $("partition-pick").addEventListener("change", showPartition);
  $("heat").addEventListener("pointermove", (e) => sayCell(Math.floor((e.offsetY - heat.margin) / heat.cell), Math.floor((e.offsetX - heat.margin) / heat.cell)));
  $("heat").addEventListener("keydown", (e) => {
    const [i, j] = heat.cursor, moves = { ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1] };
    if (moves[e.key]) { e.preventDefault(); sayCell(...moves[e.key]); }
  });
  const again = () => { showCharts(); if (partitions.length) showPartition(); if (watched.length) showBehaviour(); };
  $("theme").addEventListener("click", () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; again(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let wide = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; again(); } });
  document.body.dataset.ready = "yes";
}
start();

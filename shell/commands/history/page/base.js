/* What all views share: elements, numbers, the runs and what is chosen of them. */
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
function fill(e, attrs, kids) {
  for (const [k, v] of Object.entries(attrs || {})) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v === true) e.setAttribute(k, "");
    else if (v !== false && v !== null && v !== undefined) e.setAttribute(k, v);
  }
  for (const kid of kids.flat()) if (kid !== null && kid !== undefined) e.append(kid);
  return e;
}
const el = (tag, attrs, ...kids) => fill(document.createElement(tag), attrs, kids);
const sv = (tag, attrs, ...kids) => fill(document.createElementNS(SVG, tag), attrs, kids);

const isNumber = (v) => typeof v === "number" && Number.isFinite(v);
/* "1e-3" as a number; text as it is; nothing as undefined. */
function asNumber(v) {
  if (typeof v === "number") return v;
  if (typeof v !== "string" || !v.trim()) return NaN;
  return Number(v);
}
function short(v) {
  if (v === null || v === undefined || Number.isNaN(v)) return "";
  if (typeof v !== "number") return String(v);
  if (Number.isInteger(v) && Math.abs(v) < 1e7) return String(v);
  const s = Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(3) : v.toPrecision(5);
  return s.includes("e") ? s.replace(/\.?0+e/, "e") : s.includes(".") ? s.replace(/\.?0+$/, "") : s;
}
function duration(s) {
  if (!isNumber(s)) return "";
  if (s < 60) return (s < 1 ? +s.toPrecision(2) : s.toFixed(s < 10 ? 1 : 0)) + " s";
  const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  return h ? `${h}h ${String(m).padStart(2, "0")}m` : `${m}m ${String(Math.floor(s) % 60).padStart(2, "0")}s`;
}
const when = (ms) => { const d = new Date(ms); return isNumber(ms) ? d.toLocaleString("sv-SE").slice(0, 16) : ""; };

const D = JSON.parse($("data").textContent);
const state = { filter: "", sort: ["id", -1], chosen: new Set(), tab: "runs", brush: { __proto__: null } };
const byId = new Map();

/* A colour that a run keeps. */
const colour = (id) => `hsl(${(id * 137.508) % 360} 68% ${42 + (id % 3) * 7}%)`;
const ramp = (t) => `hsl(${250 - 210 * t} 75% ${38 + 16 * t}%)`;

const UP = /(^|[_.\-@ ])(acc|accuracy|top1|top5|f1|auc|auroc|auprc|ap|map|precision|recall|r2|bleu|rouge|psnr|ssim|m?iou|dice|throughput|mcc|kappa|score|rate|reward|return|speed|sps|fps|cosine)($|[_.\-@ ])/i;
const DOWN = /(^|[_.\-@ ])(loss|err|error|lr|perplexity|ppl)($|[_.\-@ ])/i;
function direction(metric) {
  const name = metric.slice(metric.lastIndexOf("/") + 1);
  return !DOWN.test(name) && UP.test(name) ? 1 : -1;
}

/* [points, last, min, max, first, mean] of a metric of a run. */
const stats = (run, metric) => run.m[D.metrics.indexOf(metric)];
function metricOf(run, metric, how) {
  const m = stats(run, metric);
  if (!m) return undefined;
  const which = how === "best" ? (direction(metric) > 0 ? "max" : "min") : how || "last";
  const v = m[["n", "last", "min", "max", "first", "mean"].indexOf(which)];
  return v === null ? NaN : v;
}
function fullMetric(name) {
  for (const m of [name === "loss" ? "train/loss" : name, "train/" + name, "test/" + name, "val/" + name])
    if (D.metrics.includes(m)) return m;
  return D.metrics.find((m) => m.endsWith("/" + name));
}
const COLUMNS = {
  __proto__: null, // metrics may have the names of what other objects inherit
  id: (r) => r.id, name: (r) => r.name, status: (r) => r.status, experiment: (r) => r.experiment, group: (r) => r.group,
  started: (r) => r.started, seconds: (r) => r.seconds, tag: (r) => r.tags.join(" "), note: (r) => r.note, error: (r) => r.error,
  host: (r) => r.host, device: (r) => r.device, seed: (r) => r.seed, model: (r) => r.model, n_params: (r) => r.n_params,
  dataset: (r) => r.dataset, commit: (r) => r.commit, script: (r) => r.script, parent: (r) => r.parent, sweep: (r) => r.sweep,
};
const CALL = /^(min|max|last|first|mean|best|n)\((.+)\)$/;
/* What a name means for a run: a parameter, a column, or a metric, also as min(val/loss). */
function valueOf(run, name) {
  const p = D.params.indexOf(name);
  if (p >= 0 && run.p[p] !== undefined) return run.p[p];
  if (COLUMNS[name]) return COLUMNS[name](run);
  const call = CALL.exec(name), metric = fullMetric(call ? call[2] : name);
  return metric ? metricOf(run, metric, call ? call[1] : "last") : undefined;
}
const isName = (name) => D.params.includes(name) || COLUMNS[name] || fullMetric(name.replace(CALL, "$2"));

let shown = []; /* the runs that the filter leaves, in the order of the table */
function refilter() {
  let test = () => true, wrong = "";
  try { if (state.filter.trim()) test = parseFilter(state.filter); } catch (e) { wrong = e.message; }
  const [key, sign] = state.sort;
  const keyed = D.runs.filter((r) => test(r) && inBrush(r)).map((r) => [valueOf(r, key), r]);
  keyed.sort(([a], [b]) => {
    const none = (v) => v === undefined || v === null || v === "" || Number.isNaN(v);
    if (none(a) || none(b)) return none(a) - none(b);
    const x = asNumber(a), y = asNumber(b);
    return sign * (Number.isNaN(x) || Number.isNaN(y) ? String(a).localeCompare(String(b)) : x - y);
  });
  shown = keyed.map(([, r]) => r);
  return wrong;
}
/* Ranges chosen on the axes of the parallel coordinates. */
const inBrush = (r) => Object.entries(state.brush).every(([name, test]) => test(valueOf(r, name)));
const chosenRuns = () => shown.filter((r) => state.chosen.has(r.id));

function addRun(r) {
  r.search = [r.id, r.name, r.status, r.experiment, r.group, r.note, r.error, r.host, r.model, r.dataset, r.script, ...r.tags,
    ...Object.values(r.p)].join("\n").toLowerCase();
  if (byId.has(r.id)) D.runs[D.runs.findIndex((x) => x.id === r.id)] = r;
  else if (!D.runs.includes(r)) D.runs.push(r);
  byId.set(r.id, r);
}
/* Parameters with several values, and those that only some runs have, with one value. */
const varying = () => D.params.filter((_, i) => new Set(D.runs.map((r) => r.p[i]).filter((v) => v !== undefined)).size > 1);
const partly = () => D.params.filter((_, i) => {
  const set = new Set(D.runs.map((r) => r.p[i]));
  return set.size === 2 && set.has(undefined);
});
/* Metrics, those of the machine and of the training's course last. */
const COURSE = /^(system|perf)\/|(^|\/)(epoch|lr|grad_norm|best_step)$|^update_ratio/;
const metrics = () => [...D.metrics.filter((m) => !COURSE.test(m)), ...D.metrics.filter((m) => COURSE.test(m))];
function tip(e, text) {
  const t = $("tip");
  t.hidden = !text;
  if (!text) return;
  t.textContent = text;
  const w = t.offsetWidth, h = t.offsetHeight;
  t.style.left = Math.max(4, e.clientX + 16 + w > innerWidth ? e.clientX - w - 12 : e.clientX + 16) + "px";
  t.style.top = Math.max(4, Math.min(e.clientY + 12, innerHeight - h - 6)) + "px";
}
function choice(values, value, change, label) {
  const s = el("select", { "aria-label": label, onchange: (e) => change(e.target.value) },
    values.map((v) => el("option", { value: v, selected: v === value }, v)));
  return el("label", {}, label ? label + " " : "", s);
}

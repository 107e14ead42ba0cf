/* Charts of metrics: curves of the chosen runs, or means of groups with a band; dragging zooms, the pointer reads values. */
const W = 460, H = 250, BOX = { l: 54, r: 10, t: 8, b: 26 };
const options = { smooth: 0, logy: false, logx: false, x: "step", group: "", search: "" };

/* Round places between two numbers, and what is written there. */
function ticks(lo, hi, log, most) {
  if (log) {
    const a = Math.ceil(Math.log10(lo) - 1e-9), b = Math.floor(Math.log10(hi) + 1e-9);
    if (b - a >= 1) {
      const every = Math.ceil((b - a + 1) / most);
      return Array.from({ length: Math.floor((b - a) / every) + 1 }, (_, i) => 10 ** (a + i * every));
    }
  }
  const raw = hi / most - lo / most || 1, e = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((k) => k * e >= raw) * e;
  const out = [];
  for (let v = Math.ceil(lo / step - 1e-9) * step; v <= hi + step * 1e-9 && out.length < 50; v += step) out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return out;
}
const tickText = (v) => Math.abs(v) >= 1e4 || (v && Math.abs(v) < 1e-3) ? v.toExponential(3).replace(/\.?0*e\+?/, "e") : String(+v.toPrecision(4));

/* A scale from numbers to places; log ones leave out what is not positive. */
function scale(lo, hi, from, to, log) {
  /* halves: the span of numbers near the largest ones has no number of its own */
  const f = log ? (v) => Math.log10(v) / 2 : (v) => v / 2, a = f(lo), b = f(hi), span = b - a || 0.5;
  const s = (v) => from + ((f(v) - a) / span) * (to - from);
  s.invert = (p) => { const v = 2 * (a + ((p - from) / (to - from)) * span); return log ? 10 ** v : v; };
  s.lo = lo; s.hi = hi; s.log = log;
  return s;
}
function extent(values, log) {
  let lo = Infinity, hi = -Infinity;
  for (const v of values) if (isNumber(v) && (!log || v > 0)) { if (v < lo) lo = v; if (v > hi) hi = v; }
  if (lo > hi) return log ? [1, 10] : [0, 1];
  if (lo === hi) return log ? [lo / 2, hi * 2] : [lo - Math.abs(lo || 1) * 0.05, hi + Math.abs(hi || 1) * 0.05];
  return [lo, hi];
}
function padded([lo, hi], log) {
  const k = log ? (hi / lo) ** 0.03 : hi * 0.03 - lo * 0.03, most = Number.MAX_VALUE;
  return log ? [lo / k, hi * k] : [Math.max(lo - k, -most), Math.min(hi + k, most)];
}
/* An exponential mean that begins without bias. */
function smooth(y, weight) {
  let sum = 0, norm = 0;
  return y.map((v) => {
    if (!isNumber(v)) return v;
    sum = weight * sum + (1 - weight) * v;
    norm = weight * norm + (1 - weight);
    return sum / norm;
  });
}
function curveOf(run, metric) {
  const c = run.c[D.metrics.indexOf(metric)];
  if (!c) return null;
  const x = options.x === "step" ? c.s : options.x === "time" ? c.t : epochs(run, c);
  return x ? { x, y: c.v, run, label: `${run.id} ${run.name}`, colour: colour(run.id) } : null;
}
/* The epoch of each point, by the metric of that name. */
function epochs(run, c) {
  const e = run.c[D.metrics.indexOf(D.metrics.find((m) => /(^|\/)epoch$/.test(m)))];
  return e ? c.s.map((s) => at(e.s, e.v, s)) : null;
}
/* The value at x between points; nothing outside. */
function at(xs, ys, x) {
  let lo = 0, hi = xs.length - 1;
  if (!xs.length || x < xs[0] || x > xs[hi]) return NaN;
  while (hi - lo > 1) { const mid = (lo + hi) >> 1; if (xs[mid] <= x) lo = mid; else hi = mid; }
  if (lo === hi || xs[hi] === xs[lo]) return ys[lo];
  return ys[lo] + ((ys[hi] - ys[lo]) * (x - xs[lo])) / (xs[hi] - xs[lo]);
}
/* Curves of runs that have the same value of a parameter become their mean, with the standard deviation as a band. */
const groupOf = (run, name) => String(valueOf(run, name) ?? "none");
/* The groups of the chosen runs; their places give them colours that are the same in all charts. */
const groupsOf = (name) => [...new Set(chosenRuns().map((r) => groupOf(r, name)))];
function grouped(curves, name) {
  const groups = new Map(), all = groupsOf(name);
  for (const c of curves) {
    const key = groupOf(c.run, name);
    groups.set(key, [...(groups.get(key) || []), c]);
  }
  return [...groups].map(([key, list]) => {
    const [lo, hi] = extent(list.flatMap((c) => [c.x[0], c.x[c.x.length - 1]])), n = 120;
    const x = [], y = [], low = [], high = [];
    for (let k = 0; k <= n; k++) {
      const p = lo + ((hi - lo) * k) / n, v = list.map((c) => at(c.x, c.y, p)).filter(isNumber);
      if (!v.length) continue;
      const mean = v.reduce((a, b) => a + b) / v.length;
      const sd = v.length > 1 ? Math.sqrt(v.reduce((a, b) => a + (b - mean) ** 2, 0) / (v.length - 1)) : 0;
      x.push(p); y.push(mean); low.push(mean - sd); high.push(mean + sd);
    }
    return { x, y, low, high, label: `${name}=${key} (${list.length})`, colour: colour(all.indexOf(key) + 1) };
  });
}

function path(xs, ys, sx, sy) {
  let d = "", pen = false;
  for (let i = 0; i < xs.length; i++) {
    const v = ys[i];
    if (!isNumber(v) || (sy.log && v <= 0) || (sx.log && xs[i] <= 0)) { pen = false; continue; }
    d += (pen ? "L" : "M") + sx(xs[i]).toFixed(1) + " " + sy(v).toFixed(1);
    pen = true;
  }
  return d;
}

class Chart {
  constructor(metric) {
    this.metric = metric;
    this.zoom = null;
    this.svg = sv("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": metric });
    this.back = el("button", { title: "show all", onclick: () => { this.zoom = null; this.draw(); } }, "");
    this.box = el("div", { class: "chart", "data-metric": metric },
      el("h3", {}, metric, el("span", {}, this.back,
        el("button", { title: "larger", onclick: () => this.box.classList.toggle("wide") }, "\u2922"))), this.svg);
    this.svg.addEventListener("pointerdown", (e) => this.press(e));
    this.svg.addEventListener("pointermove", (e) => this.move(e));
    this.svg.addEventListener("pointerup", (e) => this.release(e));
    this.svg.addEventListener("pointerleave", () => { tip(null, ""); this.cross?.remove(); });
    this.svg.addEventListener("dblclick", () => { this.zoom = null; this.draw(); });
    this.svg.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
  }
  place(e) {
    const r = this.svg.getBoundingClientRect();
    return [((e.clientX - r.left) / r.width) * W, ((e.clientY - r.top) / r.height) * H];
  }
  draw() {
    const runs = chosenRuns(), raw = runs.map((r) => curveOf(r, this.metric)).filter(Boolean);
    let curves = raw.map((c) => (options.smooth ? { ...c, y: smooth(c.y, options.smooth) } : c));
    if (options.group) curves = grouped(curves, options.group);
    this.curves = curves;
    const [x0, x1] = this.zoom?.x || extent(raw.flatMap((c) => c.x), options.logx);
    const inside = (c, ys) => ys.filter((_, i) => c.x[i] >= x0 && c.x[i] <= x1);
    const all = curves.flatMap((c) => inside(c, c.low || c.y).concat(c.high ? inside(c, c.high) : []));
    const [y0, y1] = this.zoom?.y || padded(extent(all, options.logy), options.logy);
    const sx = scale(x0, x1, BOX.l, W - BOX.r, options.logx), sy = scale(y0, y1, H - BOX.b, BOX.t, options.logy);
    this.sx = sx; this.sy = sy;
    const clip = "clip-" + this.metric.replace(/\W/g, "_");
    const g = sv("g", { "clip-path": `url(#${clip})` });
    for (const c of curves) {
      if (c.low) g.append(sv("path", { class: "band", fill: c.colour, d: path([...c.x, ...[...c.x].reverse()], [...c.high, ...[...c.low].reverse()], sx, sy) }));
    }
    if (options.smooth && !options.group) for (const c of raw) g.append(sv("path", { class: "raw", stroke: c.colour, d: path(c.x, c.y, sx, sy) }));
    for (const c of curves) {
      const d = path(c.x, c.y, sx, sy);
      g.append(c.x.length > 1 ? sv("path", { class: "curve", stroke: c.colour, d, "data-run": c.run?.id })
        : sv("circle", { cx: sx(c.x[0]), cy: sy(c.y[0]), r: 2.5, fill: c.colour, "data-run": c.run?.id }));
    }
    this.svg.replaceChildren(
      sv("clipPath", { id: clip }, sv("rect", { x: BOX.l, y: BOX.t, width: W - BOX.l - BOX.r, height: H - BOX.t - BOX.b })),
      ...ticks(y0, y1, options.logy, 6).map((v) => sv("g", {}, sv("line", { class: "grid", x1: BOX.l, x2: W - BOX.r, y1: sy(v), y2: sy(v) }),
        sv("text", { x: BOX.l - 6, y: sy(v) + 4, "text-anchor": "end" }, tickText(v)))),
      ...ticks(x0, x1, options.logx, 7).map((v) => sv("g", {}, sv("line", { class: "grid", x1: sx(v), x2: sx(v), y1: BOX.t, y2: H - BOX.b }),
        sv("text", { x: sx(v), y: H - BOX.b + 15, "text-anchor": "middle" }, options.x === "time" ? duration(v) : tickText(v)))),
      sv("line", { class: "axis", x1: BOX.l, x2: W - BOX.r, y1: H - BOX.b, y2: H - BOX.b }), g);
    this.back.textContent = this.zoom ? "show all" : "";
    this.box.hidden = !curves.length;
  }
  press(e) {
    this.from = this.place(e);
    this.svg.setPointerCapture?.(e.pointerId);
    this.frame = sv("rect", { class: "zoombox" });
    this.svg.append(this.frame);
  }
  move(e) {
    const [x, y] = this.place(e);
    if (this.from) {
      const [a, b] = this.from;
      fill(this.frame, { x: Math.min(a, x), y: BOX.t, width: Math.abs(x - a), height: H - BOX.t - BOX.b }, []);
      if (Math.abs(y - b) > 24) fill(this.frame, { y: Math.min(b, y), height: Math.abs(y - b) }, []);
    } else this.read(e, x, y);
  }
  release(e) {
    const from = this.from, [x, y] = this.place(e);
    this.from = null;
    this.frame?.remove();
    if (!from || Math.abs(x - from[0]) < 5) return;
    const order = (a, b) => (a < b ? [a, b] : [b, a]);
    this.zoom = { x: order(this.sx.invert(from[0]), this.sx.invert(x)),
      y: Math.abs(y - from[1]) > 24 ? order(this.sy.invert(from[1]), this.sy.invert(y)) : null };
    tip(null, "");
    this.draw();
  }
  wheel(e) {
    e.preventDefault();
    const [x] = this.place(e), k = e.deltaY > 0 ? 1.25 : 0.8;
    const ends = [BOX.l, W - BOX.r].map((p) => this.sx.invert(x + (p - x) * k));
    this.zoom = { x: ends, y: this.zoom?.y || null };
    this.draw();
  }
  read(e, x, y) {
    this.cross?.remove();
    if (x < BOX.l || x > W - BOX.r || !this.curves.length) { tip(null, ""); return; }
    const value = this.sx.invert(x);
    const near = this.curves.map((c) => ({ c, v: at(c.x, c.y, value) })).filter((o) => isNumber(o.v))
      .map((o) => ({ ...o, d: Math.abs(this.sy(o.v) - y) })).sort((a, b) => a.d - b.d).slice(0, 12);
    this.cross = sv("g", {}, sv("line", { class: "cross", x1: x, x2: x, y1: BOX.t, y2: H - BOX.b }),
      ...near.map((o) => sv("circle", { cx: x, cy: this.sy(o.v), r: 3, fill: o.c.colour })));
    this.svg.append(this.cross);
    const head = options.x === "time" ? duration(value) : `${options.x} ${short(+value.toPrecision(6))}`;
    tip(e, near.length ? `${this.metric}  ${head}\n` + near.map((o) => `${short(o.v).padEnd(10)} ${o.c.label}`).join("\n") : "");
  }
}

const charts = new Map();
function drawCharts() {
  for (const c of charts.values()) {
    const wanted = c.metric.toLowerCase().includes(options.search.toLowerCase());
    c.box.hidden = !wanted;
    if (wanted) c.draw();
  }
  const runs = chosenRuns(), keys = options.group
    ? groupsOf(options.group).map((key, i) => [i + 1, `${options.group}=${key}`]) : runs.map((r) => [r.id, `${r.id} ${r.name}`]);
  $("chosen").replaceChildren(...keys.slice(0, 24).map(([number, text]) => el("span", { class: "key" },
    el("span", { class: "dot", style: `background:${colour(number)}` }), text)),
    `${runs.length} runs drawn; choose them in the table`);
}
function chartsTab() {
  const redo = drawCharts, bar = el("div", { class: "bar" },
    el("input", { type: "search", placeholder: "metrics, as val/", "aria-label": "metrics", oninput: (e) => { options.search = e.target.value; redo(); } }),
    el("label", {}, "smoothing ", el("input", { type: "range", id: "smoothing", min: 0, max: 0.99, step: 0.01, value: 0,
      oninput: (e) => { options.smooth = +e.target.value; redo(); } })),
    el("label", {}, el("input", { type: "checkbox", id: "logy", onchange: (e) => { options.logy = e.target.checked; redo(); } }), " log y"),
    el("label", {}, el("input", { type: "checkbox", id: "logx", onchange: (e) => { options.logx = e.target.checked; redo(); } }), " log x"),
    choice(["step", "time", ...(D.metrics.some((m) => /(^|\/)epoch$/.test(m)) ? ["epoch"] : [])], options.x,
      (v) => { options.x = v; for (const c of charts.values()) c.zoom = null; redo(); }, "x"),
    choice(["", ...varying(), ...partly(), "group", "model", "name"], options.group, (v) => { options.group = v; redo(); }, "mean by"),
    el("span", { id: "chosen" }));
  const box = el("div", { id: "charts" });
  for (const m of metrics()) {
    if (!charts.has(m)) charts.set(m, new Chart(m));
    box.append(charts.get(m).box);
  }
  $("tab-charts").replaceChildren(bar, box);
  drawCharts();
}

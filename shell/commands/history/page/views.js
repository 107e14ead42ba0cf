/* The table, parallel coordinates, scatter plots with the weight of parameters, differences of two runs, pictures. */

/* ---- table */
function tableColumns() {
  const fixed = ["id", "name", "status", "started", "seconds"];
  const extra = ["experiment", "group", "tag", "model", "dataset", "note"].filter((c) => new Set(D.runs.map(COLUMNS[c])).size > 1);
  const params = D.runs.length > 1 ? varying() : D.params, named = (m) => !params.includes(m);
  return [...fixed, ...extra, ...params, ...metrics().filter(named), ...(D.runs.length > 1 ? partly() : [])];
}
function cell(r, name) {
  const v = valueOf(r, name);
  if (name === "started") return when(v);
  if (name === "seconds") return duration(v);
  if (D.params.includes(name) && !Number.isNaN(asNumber(v))) return short(asNumber(v));
  return typeof v === "number" ? short(v) : v === undefined || v === null ? "" : String(v);
}
function isNumeric(name, v) { return typeof v === "number" || (D.params.includes(name) && !Number.isNaN(asNumber(v))); }
function bests(columns) {
  const out = { __proto__: null };
  for (const m of columns.filter((c) => D.metrics.includes(c) && !COURSE.test(c))) {
    const v = shown.map((r) => valueOf(r, m)).filter(isNumber);
    if (v.length > 1) out[m] = direction(m) > 0 ? Math.max(...v) : Math.min(...v);
  }
  return out;
}
function row(r, columns, best) {
  const check = el("input", { type: "checkbox", "aria-label": `draw run ${r.id}`, onchange: (e) => choose(r.id, e.target.checked) });
  check.checked = state.chosen.has(r.id);
  return el("tr", { "data-run": r.id, title: r.error || r.note || null }, el("td", {}, check), columns.map((c) => {
    const v = valueOf(r, c), number = isNumeric(c, v);
    const mark = c === "id" ? el("span", { class: "dot", style: `background:${colour(r.id)}` }) : null;
    return el("td", { class: [number && "num", c === "status" && "status-" + r.status, c in best && v === best[c] && "best"].filter(Boolean).join(" ") || null },
      mark, cell(r, c));
  }));
}
function choose(id, on) {
  if (on) state.chosen.add(id); else state.chosen.delete(id);
  later();
}
function drawTable() {
  const wrong = refilter(), columns = tableColumns(), best = bests(columns), input = $("filter");
  input.classList.toggle("wrong", !!wrong);
  $("matches").textContent = wrong || `${shown.length} of ${D.runs.length} runs`;
  const all = el("input", { type: "checkbox", "aria-label": "draw all", onchange: (e) => {
    for (const r of shown) if (e.target.checked) state.chosen.add(r.id); else state.chosen.delete(r.id);
    drawTable();
  } });
  all.checked = shown.length > 0 && shown.every((r) => state.chosen.has(r.id));
  const numeric = (c) => shown.length > 0 && shown.every((r) => { const v = valueOf(r, c); return v === undefined || v === null || v === "" || isNumeric(c, v); });
  const head = el("tr", {}, el("th", {}, all), columns.map((c) => el("th", { "data-column": c, class: [numeric(c) && "num", c === state.sort[0] && "sorted"].filter(Boolean).join(" ") || null, onclick: () => {
    state.sort = state.sort[0] === c ? [c, -state.sort[1]] : [c, D.metrics.includes(c) ? -direction(c) : 1];
    drawTable();
  } }, c + (c === state.sort[0] ? (state.sort[1] > 0 ? " \u25b2" : " \u25bc") : ""))));
  $("runs").replaceChildren(el("thead", {}, head), el("tbody", {}, shown.map((r) => row(r, columns, best))));
}
function runsTab() {
  if (!$("runs")) $("tab-runs").append(
    el("div", { class: "bar" }, el("input", { type: "search", id: "filter", placeholder: "lr < 0.01 and status = finished, or any word", "aria-label": "filter",
      value: state.filter, oninput: (e) => { state.filter = e.target.value; drawTable(); } }), el("span", { id: "matches" }),
      el("button", { onclick: () => { state.chosen = new Set(shown.slice(0, 10).map((r) => r.id)); drawTable(); } }, "draw the first 10")),
    el("div", { class: "scroll" }, el("table", { id: "runs" })));
  drawTable();
}

/* ---- parallel coordinates */
const pc = { axes: null, metric: "" };
function defaultMetric() {
  return ["val/loss", "test/loss", "test/acc", "val/acc", "train/loss"].find((m) => D.metrics.includes(m)) || D.metrics[0] || "";
}
/* Places of the values of a name: a scale of numbers, or the words side by side. */
function axis(name, runs, from, to) {
  const values = runs.map((r) => valueOf(r, name)).filter((v) => v !== undefined && v !== null && v !== "");
  const numbers = values.map(asNumber);
  if (values.length && numbers.every((v) => !Number.isNaN(v))) {
    const log = numbers.every((v) => v > 0) && Math.max(...numbers) / Math.min(...numbers) > 50;
    const [lo, hi] = extent(numbers, log), s = scale(lo, hi, from, to, log);
    return { name, at: (v) => (v === undefined || v === "" || Number.isNaN(asNumber(v)) ? NaN : s(asNumber(v))), marks: ticks(lo, hi, log, 5).map((v) => [s(v), tickText(v)]), log };
  }
  const words = [...new Set(values.map(String))].sort(), place = (i) => (words.length > 1 ? from + ((to - from) * i) / (words.length - 1) : (from + to) / 2);
  return { name, at: (v) => (words.includes(String(v)) ? place(words.indexOf(String(v))) : NaN), marks: words.slice(0, 40).map((w, i) => [place(i), w.slice(0, 18)]), words: true };
}
function parallelTab() {
  if (!pc.axes) {
    pc.metric = defaultMetric();
    const first = importance(D.runs.filter((r) => isNumber(metricOf(r, pc.metric, "best"))), pc.metric).slice(0, 8).map((o) => o.p);
    pc.axes = varying().filter((p) => !first.length || first.includes(p)).slice(0, 8);
  }
  refilter();
  const names = [...pc.axes, `best(${pc.metric})`], w = 1100, h = 380, top = 34, bottom = 24;
  const runs = D.runs.filter((r) => isNumber(metricOf(r, pc.metric, "best")));
  const axes = names.map((n) => axis(n, runs, h - bottom, top)), x = (i) => 70 + (i * (w - 150)) / Math.max(1, axes.length - 1);
  const last = axes[axes.length - 1], visible = new Set(shown.map((r) => r.id));
  const lines = sv("g", { fill: "none" });
  for (const r of runs) {
    const y = axes.map((a) => a.at(valueOf(r, a.name))), t = (y[y.length - 1] - top) / (h - bottom - top);
    const d = y.map((v, i) => (Number.isNaN(v) ? "" : `${i && !Number.isNaN(y[i - 1]) ? "L" : "M"}${x(i)} ${v.toFixed(1)}`)).join("");
    const on = visible.has(r.id);
    lines.append(sv("path", { d, stroke: on ? ramp(direction(pc.metric) > 0 ? 1 - t : t) : "#98a2b3", "stroke-width": 1.4, opacity: on ? 0.75 : 0.12, "data-run": r.id, class: on ? "line on" : "line",
      onpointermove: (e) => { e.target.setAttribute("stroke-width", 4); tip(e, `${r.id} ${r.name}\n` + names.map((n) => `${n} = ${cell(r, n)}`).join("\n")); },
      onpointerleave: (e) => { e.target.setAttribute("stroke-width", 1.4); tip(null, ""); } }));
  }
  const svg = sv("svg", { viewBox: `0 0 ${w} ${h}`, id: "pcoord" }, lines, axes.map((a, i) => {
    const bar = sv("rect", { class: "handle", x: x(i) - 12, y: top, width: 24, height: h - bottom - top, fill: "transparent", "data-axis": a.name });
    const g = sv("g", {}, sv("line", { class: "axis", x1: x(i), x2: x(i), y1: top, y2: h - bottom }),
      sv("text", { x: x(i), y: 16, "text-anchor": "middle", style: "font-weight:600" }, a.name + (a.log ? " (log)" : "")),
      a.marks.map(([y, t]) => sv("text", { x: x(i) + 6, y: y + 4 }, t)), bar);
    const b = state.brush[a.name];
    if (b) g.append(sv("rect", { class: "brush", x: x(i) - 8, width: 16, y: b.from, height: b.to - b.from, "pointer-events": "none" }));
    const place = (e) => { const r = svg.getBoundingClientRect(); return Math.max(top, Math.min(h - bottom, ((e.clientY - r.top) / r.height) * h)); };
    bar.addEventListener("pointerdown", (e) => { bar.from = place(e); bar.setPointerCapture?.(e.pointerId); });
    bar.addEventListener("pointerup", (e) => {
      const y = place(e), [from, to] = bar.from < y ? [bar.from, y] : [y, bar.from];
      if (to - from < 4) delete state.brush[a.name];
      else state.brush[a.name] = Object.assign((v) => { const p = a.at(v); return p >= from - 1 && p <= to + 1; }, { from, to });
      parallelTab();
    });
    return g;
  }));
  $("tab-parallel").replaceChildren(el("div", { class: "bar" },
    choice(metrics(), pc.metric, (v) => { pc.metric = v; state.brush = { __proto__: null }; parallelTab(); }, "metric"),
    [...varying(), ...partly()].slice(0, 30).map((p) => { const c = el("input", { type: "checkbox", onchange: (e) => {
      pc.axes = e.target.checked ? [...pc.axes, p] : pc.axes.filter((a) => a !== p); delete state.brush[p]; parallelTab(); } });
      c.checked = pc.axes.includes(p); return el("label", {}, c, " " + p); }),
    el("button", { onclick: () => { state.brush = { __proto__: null }; parallelTab(); } }, "clear"),
    [["worst", 0], ["best", 1]].map(([word, t]) => el("span", {}, el("span", { class: "dot", style: `background:${ramp(t)}` }), word)),
    el("span", { id: "brushed" }, `${runs.filter((r) => visible.has(r.id)).length} of ${runs.length} runs; drag along an axis to choose a range`)), svg);
}

/* ---- scatter and importance */
function ranks(v) {
  const order = v.map((x, i) => [x, i]).sort((a, b) => a[0] - b[0]), out = [];
  for (let i = 0; i < order.length;) {
    let j = i;
    while (j < order.length && order[j][0] === order[i][0]) j++;
    for (let k = i; k < j; k++) out[order[k][1]] = (i + j - 1) / 2;
    i = j;
  }
  return out;
}
function correlation(x, y) {
  const n = x.length, mx = x.reduce((a, b) => a + b, 0) / n, my = y.reduce((a, b) => a + b, 0) / n;
  let xy = 0, xx = 0, yy = 0;
  for (let i = 0; i < n; i++) { xy += (x[i] - mx) * (y[i] - my); xx += (x[i] - mx) ** 2; yy += (y[i] - my) ** 2; }
  return xx && yy ? xy / Math.sqrt(xx * yy) : NaN;
}
/* The share of the variance of the ranks of the metric that the values of a parameter, each for itself, explain; NaN for
   values that hardly occur twice, which explain anything. */
function explained(keys, y) {
  const groups = new Map(), mean = y.reduce((a, b) => a + b, 0) / y.length;
  keys.forEach((k, i) => groups.set(k, [...(groups.get(k) || []), y[i]]));
  let between = 0, all = 0;
  for (const g of groups.values()) between += g.length * (g.reduce((a, b) => a + b, 0) / g.length - mean) ** 2;
  for (const v of y) all += (v - mean) ** 2;
  const k = groups.size, n = y.length;
  return all && n >= 2 * k ? Math.max(0, 1 - ((1 - between / all) * (n - 1)) / (n - k)) : NaN;
}
function importance(runs, metric) {
  return varying().map((p) => {
    const some = runs.filter((r) => valueOf(r, p) !== undefined), y = ranks(some.map((r) => metricOf(r, metric, "best")));
    const v = some.map((r) => valueOf(r, p)), x = v.map(asNumber), numeric = x.every((k) => !Number.isNaN(k));
    if (some.length < 3) return null;
    const rho = numeric ? correlation(ranks(x), y) : NaN, eta = explained(v.map(String), y);
    const weight = Math.max(Number.isNaN(rho) ? 0 : rho * rho, Number.isNaN(eta) ? 0 : eta);
    return { p, rho, weight, n: some.length };
  }).filter(Boolean).sort((a, b) => b.weight - a.weight);
}
const sc = { x: "", y: "" };
function scatterTab() {
  if (!sc.y) {
    sc.y = defaultMetric();
    sc.x = (importance(D.runs.filter((r) => isNumber(metricOf(r, sc.y, "best"))), sc.y)[0] || { p: varying()[0] || "id" }).p;
  }
  refilter();
  const runs = shown.filter((r) => isNumber(metricOf(r, sc.y, "best"))), w = 760, h = 380;
  const y = axis(`best(${sc.y})`, runs, h - 30, 12), a = axis(sc.x, runs, 70, w - 20);
  const svg = sv("svg", { viewBox: `0 0 ${w} ${h}`, id: "scatter", style: "max-width:900px" },
    sv("line", { class: "axis", x1: 60, x2: w - 12, y1: h - 30, y2: h - 30 }), sv("line", { class: "axis", x1: 60, x2: 60, y1: 8, y2: h - 30 }),
    a.marks.map(([p, t]) => sv("text", { x: p, y: h - 12, "text-anchor": "middle" }, t)),
    y.marks.map(([p, t]) => sv("g", {}, sv("line", { class: "grid", x1: 60, x2: w - 12, y1: p, y2: p }), sv("text", { x: 54, y: p + 4, "text-anchor": "end" }, t))),
    runs.map((r) => [r, a.at(valueOf(r, sc.x)), y.at(metricOf(r, sc.y, "best"))]).filter(([, p, q]) => isNumber(p) && isNumber(q))
      .map(([r, p, q]) => sv("circle", { cx: p.toFixed(1), cy: q.toFixed(1), r: 4, fill: colour(r.id), opacity: 0.8, "data-run": r.id,
        onpointermove: (e) => tip(e, `${r.id} ${r.name}\n${sc.x} = ${cell(r, sc.x)}\nbest ${sc.y} = ${short(metricOf(r, sc.y, "best"))}`), onpointerleave: () => tip(null, "") })));
  const rows = importance(runs, sc.y);
  $("tab-scatter").replaceChildren(el("div", { class: "bar" },
    choice([...new Set([...varying(), "id", "seconds", "n_params", "seed", ...metrics()])], sc.x, (v) => { sc.x = v; scatterTab(); }, "x"),
    choice(metrics(), sc.y, (v) => { sc.y = v; scatterTab(); }, "y, best of")), svg,
    el("h2", {}, `What goes with ${sc.y}`),
    el("p", { class: "bar" }, "Weight: the share of the variance of the ranks that a parameter alone accounts for, by its order or by its values. The sign tells whether larger values go with a larger metric. No statement about causes."),
    el("table", { id: "importance" }, el("tr", {}, ["parameter", "weight", "", "rank correlation", "runs"].map((t) => el("th", {}, t))),
      rows.map((o) => el("tr", { onclick: () => { sc.x = o.p; scatterTab(); } }, el("td", {}, o.p), el("td", { class: "num" }, o.weight.toFixed(3)),
        el("td", {}, el("span", { class: "meter", style: `width:${(160 * o.weight).toFixed(0)}px` })), el("td", { class: "num" }, Number.isNaN(o.rho) ? "" : o.rho.toFixed(3)), el("td", { class: "num" }, o.n)))));
}

/* ---- difference of two runs */
function lineDiff(a, b) {
  const x = a.split("\n"), y = b.split("\n");
  let from = 0, i1 = x.length, j1 = y.length;
  while (from < i1 && from < j1 && x[from] === y[from]) from++;
  while (i1 > from && j1 > from && x[i1 - 1] === y[j1 - 1]) i1--, j1--;
  const n = i1 - from, m = j1 - from, t = n * m < 4e6 ? Array.from({ length: n + 1 }, () => new Uint16Array(m + 1)) : null;
  for (let i = n - 1; t && i >= 0; i--) for (let j = m - 1; j >= 0; j--)
    t[i][j] = x[from + i] === y[from + j] ? t[i + 1][j + 1] + 1 : Math.max(t[i + 1][j], t[i][j + 1]);
  const out = [];
  const same = (k) => out.push([" ", x[k]]);
  for (let k = Math.max(0, from - 3); k < from; k++) same(k);
  let i = 0, j = 0;
  while (i < n || j < m) {
    if (t && i < n && j < m && x[from + i] === y[from + j]) { same(from + i); i++; j++; }
    else if (i < n && (j >= m || !t || t[i + 1][j] >= t[i][j + 1])) out.push(["-", x[from + i++]]);
    else out.push(["+", y[from + j++]]);
  }
  for (let k = i1; k < Math.min(x.length, i1 + 3); k++) same(k);
  return out;
}
const pair = [null, null];
function diffTab() {
  const ids = D.runs.map((r) => r.id), picked = chosenRuns();
  for (const k of [0, 1]) if (!byId.has(pair[k])) pair[k] = (picked[k] || D.runs[k] || D.runs[0] || {}).id;
  const [a, b] = pair.map((id) => byId.get(id)), list = D.runs.map((r) => `${r.id} ${r.name}`);
  const pick = (k) => choice(list, `${pair[k]} ${byId.get(pair[k])?.name}`, (v) => { pair[k] = ids[list.indexOf(v)]; diffTab(); }, k ? "and" : "between");
  const out = [el("div", { class: "bar" }, pick(0), pick(1))];
  if (a && b) {
    const facts = Object.keys(COLUMNS).filter((c) => !["id", "started", "tag"].includes(c));
    const rows = [...new Set([...D.params, ...facts, ...metrics()])].map((n) => [n, cell(a, n), cell(b, n)]).filter(([, x, y]) => x !== y);
    out.push(el("table", { id: "differences" }, el("tr", {}, el("th", {}, "name"), el("th", {}, `${a.id} ${a.name}`), el("th", {}, `${b.id} ${b.name}`)),
      rows.map((r) => el("tr", {}, r.map((v) => el("td", {}, v))))));
    for (const [title, key] of [["Model", "modelText"], ["Script", "scriptText"]]) {
      const x = D.texts[a[key]] || "", y = D.texts[b[key]] || "";
      if (x !== y) out.push(el("h2", {}, title), el("pre", {}, lineDiff(x, y).map(([s, t]) => el("span", { class: s === "+" ? "add" : s === "-" ? "del" : null }, `${s} ${t}\n`))));
    }
  }
  $("tab-diff").replaceChildren(...out);
}

/* ---- pictures */
function picturesTab() {
  const some = D.pictures.filter((p) => shown.some((r) => r.id === p.run));
  $("tab-pictures").replaceChildren(el("div", {}, some.length ? some.map((p) => el("figure", {}, el("img", { src: p.src, alt: p.name, loading: "lazy" }),
    el("figcaption", {}, `run ${p.run} ${byId.get(p.run)?.name || ""}: ${p.name}, step ${p.step}`))) : "The runs shown have kept no pictures."));
}

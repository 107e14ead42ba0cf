/* The tabs, the first look, and following a store while runs train. */
const tabs = { runs: ["Runs", runsTab], charts: ["Charts", chartsTab], parallel: ["Parallel coordinates", parallelTab],
  scatter: ["Parameters", scatterTab], diff: ["Two runs", diffTab], pictures: ["Pictures", picturesTab] };

function show(tab) {
  state.tab = tab;
  for (const name of Object.keys(tabs)) {
    $("tab-" + name).hidden = name !== tab;
    $("button-" + name).className = name === tab ? "on" : "";
  }
  tip(null, "");
  if (tab !== "runs") refilter();
  tabs[tab][1]();
}
let waiting = 0;
function later() {
  clearTimeout(waiting);
  waiting = setTimeout(() => state.tab === "runs" ? drawTable() : state.tab === "charts" ? drawCharts() : null, 60);
}
function summary() {
  const running = D.runs.filter((r) => r.status === "running").length;
  $("summary").textContent = `${D.runs.length} run${D.runs.length === 1 ? "" : "s"}${running ? `, ${running} running` : ""}, ${when(D.made)}`;
}

/* New runs and new points: numbers of parameters and metrics are those of the answer. */
function merge(more) {
  const p = more.params.map((k) => { if (!D.params.includes(k)) D.params.push(k); return D.params.indexOf(k); });
  const m = more.metrics.map((k) => { if (!D.metrics.includes(k)) D.metrics.push(k); return D.metrics.indexOf(k); });
  const renumber = (o, to) => Object.fromEntries(Object.entries(o).map(([k, v]) => [to[k], v]));
  Object.assign(D.texts, more.texts);
  for (const r of more.runs) {
    const fresh = !byId.has(r.id);
    addRun({ ...r, p: renumber(r.p, p), m: renumber(r.m, m), c: renumber(r.c, m) });
    if (fresh) state.chosen.add(r.id);
  }
  D.pictures = D.pictures.filter((x) => !more.runs.some((r) => r.id === x.run)).concat(more.pictures);
  D.made = more.made;
  return more.runs.length;
}
async function follow() {
  const token = new URLSearchParams(location.search).get("token") || "";
  let wait = 1500;
  try {
    const answer = await fetch(`data?token=${encodeURIComponent(token)}&since=${D.made - 1000}`);
    if (!answer.ok) throw Error(answer.statusText);
    const metrics = D.metrics.length;
    const changed = merge(await answer.json());
    $("live").className = "";
    $("live").textContent = "live";
    summary();
    if (changed && !document.querySelector(".zoombox")) {
      refilter();
      if (state.tab === "runs") drawTable();
      else if (state.tab === "charts") metrics === D.metrics.length ? drawCharts() : chartsTab();
      else if (state.tab === "parallel" || state.tab === "scatter") tabs[state.tab][1]();
    }
  } catch (e) {
    $("live").className = "lost";
    $("live").textContent = "the server does not answer";
    wait = 5000;
  }
  setTimeout(follow, wait);
}

for (const r of [...D.runs]) addRun(r);
for (const r of D.runs.slice(0, 10)) state.chosen.add(r.id);
document.title = $("title").textContent = D.title;
for (const [name, [text]] of Object.entries(tabs)) $("tabs").append(el("button", { id: "button-" + name, onclick: () => show(name) }, text));
summary();
show("runs");
if (D.live) { $("live").hidden = false; follow(); }

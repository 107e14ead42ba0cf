# The page of `report`: it needs nothing else, its numbers are those of the store, its charts can be used; `serve` gives
# it live to who has the token.
cat > fill.dlsh <<'END2'
for i in range(6) {
    r = start_run(format("run-%d </script>", i), lr=10.0 ** (i - 5), opt=["sgd", "adam"][i % 2], trial=i // 2, note="a \"note\" <b>")
    for s in range(300) { r.log("train/loss", 1 + i / 10.0 + exp(-s / 40.0), step=s); if s % 30 == 0 { r.log("val/acc", 0.5 + i / 20.0, step=s) } }
    r.log("__proto__", nan, step=0)
    r.end()
}
tag 4 good
END2
dlsh -n --db runs.db fill.dlsh
dlsh -n --db runs.db -k -c 'report page.html title="Six & more"
report some.html where="opt = adam" limit=2
report page.pdf
report page
report x.html where="opt = "
report x.html where="nothing = 3"' 2>&1
cat > look.py <<'END2'
import json, re, sys
text = open(sys.argv[1]).read()
data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S).group(1))
print(data["title"], data["params"], data["metrics"], [r["id"] for r in data["runs"]])
print("outside", [u for u in re.findall(r'(?:https?:)?//[\w.]+', text) if "w3.org" not in u and re.search(r'(src|href|url)\W{0,3}' + re.escape(u), text)])
r = data["runs"][-1]
loss = str(data["metrics"].index("train/loss"))
print(r["name"], r["m"][loss], len(r["c"][loss]["s"]), r["c"][loss]["v"][0], data["texts"][r["scriptText"]].splitlines()[0])
END2
python3 look.py page.html; python3 look.py some.html

dlsh -n --db runs.db serve port=0 'where=opt = sgd' > said.txt 2>&1 & server=$!
until grep -qs Ctrl-C said.txt; do sleep 0.05; done
python3 - "$(head -1 said.txt)" <<'END2'
import http.client, json, sys, urllib.parse
u = urllib.parse.urlparse(sys.argv[1])
def get(path, host=None, method="GET"):
    c = http.client.HTTPConnection("127.0.0.1", u.port, timeout=20)
    c.request(method, path, headers={"Host": host} if host else {})
    r = c.getresponse()
    return r.status, r.read().decode()
print(u.hostname, len(u.query))
print("page", get("/?" + u.query)[0], "no token", get("/")[0], get("/?token=" + "0" * 32)[0], "foreign", get("/?" + u.query, "evil.example")[0],
      "post", get("/?" + u.query, method="POST")[0], "elsewhere", get("/x?" + u.query)[0])
status, text = get("/data?" + u.query)
data = json.loads(text)
print(status, [r["id"] for r in data["runs"]], data["live"])
print([r["id"] for r in json.loads(get(f"/data?{u.query}&since={data['made'] + 60000}")[1])["runs"]])
END2
kill -INT $server; wait $server; echo "status $?"; sed 1d said.txt

command -v chromium > /dev/null || { echo "no chromium"; exit 77; }
python3 - <<'END2'
text = open("page.html").read()
act = """
try {
  const said = [];
  const fire = (e, type, x, y) => { const r = e.getBoundingClientRect();
    e.dispatchEvent(new PointerEvent(type, {clientX: r.left + x * r.width, clientY: r.top + y * r.height, bubbles: true, pointerId: 1})); };
  const type = (e, text) => { e.value = text; e.dispatchEvent(new Event("input")); };
  const rows = () => [...document.querySelectorAll("#runs tbody tr")].map((r) => r.dataset.run).join(" ");
  said.push("all " + rows());
  type($("filter"), "lr > 0.001 and not opt = adam"); said.push("filter " + rows());
  type($("filter"), "tag = good or lr = 1e-5"); said.push("filter " + rows());
  type($("filter"), "lr > "); said.push("wrong " + $("matches").textContent);
  for (const q of ["opt in(sgd) and name ~~ '^run-[02]'", "started > 2d ago and not name like '%-4%'", "tag != good and started > yesterday", "seconds > 1h", "mean(loss) > 1.3 && lr != none",
    "status = killed", "status = finnished", "started > soon", "lr < many", "opt > 3", "name ~~ 'a['"]) { type($("filter"), q); said.push(q + ": " + ($("filter").className ? $("matches").textContent : rows())); }
  said.push("ticks " + [1.5e6, 20000, 1e-4, 0.25].map(tickText).join(" "));
  type($("filter"), ""); document.querySelector('[data-column="train/loss"]').click(); said.push("sorted " + rows());
  document.querySelectorAll("#runs tbody input")[0].click();
  $("button-charts").click();
  const chart = document.querySelector('[data-metric="train/loss"]'), svg = chart.querySelector("svg"), c = charts.get("train/loss");
  said.push("curves " + chart.querySelectorAll("path.curve").length);
  fire(svg, "pointermove", 0.5, 0.5); said.push("tip " + $("tip").textContent.split("\\n").slice(0, 2).join("; ").replace(/ +/g, " "));
  const wide = c.sx.hi - c.sx.lo;
  fire(svg, "pointerdown", 0.4, 0.5); fire(svg, "pointermove", 0.6, 0.5); fire(svg, "pointerup", 0.6, 0.5);
  said.push("zoomed " + ((c.sx.hi - c.sx.lo) / wide).toFixed(2));
  svg.dispatchEvent(new MouseEvent("dblclick")); said.push("back " + ((c.sx.hi - c.sx.lo) / wide).toFixed(2));
  $("smoothing").value = 0.9; $("smoothing").dispatchEvent(new Event("input")); said.push("raw " + chart.querySelectorAll("path.raw").length);
  $("logy").click(); said.push("log " + c.sy.log); $("logy").click();
  options.group = "opt"; drawCharts(); said.push("bands " + chart.querySelectorAll("path.band").length);
  $("button-parallel").click(); const handle = document.querySelector('[data-axis="lr"]');
  said.push("right " + [...document.querySelectorAll("#runs th.num")].map((t) => t.dataset.column).slice(0, 3));
  said.push("lines " + document.querySelectorAll("#pcoord path.on").length);
  fire(handle, "pointerdown", 0.5, 0.0); fire(handle, "pointerup", 0.5, 0.5); said.push("brushed " + document.querySelectorAll("#pcoord path.on").length);
  state.brush = {};
  $("button-scatter").click(); said.push("points " + document.querySelectorAll("#scatter circle").length + " first " + document.querySelectorAll("#importance td")[0].textContent);
  $("button-diff").click(); said.push("differ " + [...document.querySelectorAll("#differences tr")].slice(1).map((r) => r.cells[0].textContent).filter((n) => n !== "seconds").join(" "));
  document.title = said.join("|");
} catch (e) { document.title = "error " + e.stack; }
"""
open("act.html", "w").write(text.replace("</body>", "<script>" + act + "</script></body>"))
END2
timeout 60 chromium --headless --no-sandbox --disable-gpu --window-size=1400,900 --dump-dom "file://$PWD/act.html" 2> /dev/null | grep -o '<title>[^<]*' | sed 's/<title>//; s/&gt;/>/g; s/&lt;/</g' | tr '|' '\n'

"""The notebook in headless Chromium, driven as a user would: run cells, complete, inspect, interrupt a long training, restart,
a live display. browser.py [FOLDER]: pictures of what it looks like are left there."""
import atexit
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, "tests/support")
import kernel

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError as e:
    print(f"skipped: {e} (Debian: python3-selenium)")
    sys.exit(77)
for program in ("/usr/bin/jupyter-notebook", "/usr/bin/chromium", "/usr/bin/chromedriver"):
    if not shutil.which(program):
        print(f"skipped: no {program} (Debian: jupyter-notebook, chromium, chromium-driver)")
        sys.exit(77)
PICTURES = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None

CELLS = ["6 * 7", 'd = dataset("digits"); net m { flatten -> linear 32 -> relu -> linear 10 }\nt = trainer(m, d, opt=adam(lr=1e-3), batch=32)\ntrain t epochs=2\nimg d n=4',
         "train t epochs=100000", "after = t.step > 0\nafter", "cross_en", "randn(3, 4)", "1 +\n2 * missing_name"]

# Runs all cells; returns the most milliseconds between two that were sent, by the clock that their headers have.
RUN_ALL = """var of = Date.prototype.toISOString, sent = [];
Date.prototype.toISOString = function() { sent.push(+this); return of.call(this) };
Jupyter.notebook.clear_all_output();
Jupyter.notebook.execute_all_cells();
Date.prototype.toISOString = of;
return sent.length < 7 ? Infinity : Math.max(...sent.slice(1).map((t, i) => t - sent[i]))"""
ONE_BURST = 40  # ms, as the kernel has it


def start_notebook():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    cells = [{"cell_type": "code", "metadata": {}, "source": c, "outputs": [], "execution_count": None} for c in CELLS]
    spec = {"kernelspec": {"name": "dlsh", "display_name": "dlsh", "language": "dlsh"}}
    (kernel.HOME / "test.ipynb").write_text(json.dumps({"cells": cells, "metadata": spec, "nbformat": 4, "nbformat_minor": 4}))
    log = open(kernel.HOME / "notebook.log", "w")
    server = subprocess.Popen(["/usr/bin/jupyter-notebook", "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1",
                               "--NotebookApp.token=", "--NotebookApp.password=", f"--notebook-dir={kernel.HOME}"], stdout=log, stderr=log,
                              cwd=kernel.HOME)
    atexit.register(lambda: (server.terminate(), server.wait()))
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api")
            return f"http://127.0.0.1:{port}"
        except OSError:
            assert server.poll() is None, (kernel.HOME / "notebook.log").read_text()
            time.sleep(0.1)
    raise TimeoutError("the notebook server does not answer")


class Page:
    def __init__(self, url):
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,1500",
                     f"--user-data-dir={kernel.HOME}/chromium"):
            options.add_argument(word)
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        atexit.register(self.driver.quit)
        self.driver.get(url)
        self.wait(lambda: self.js("return !!(window.Jupyter && Jupyter.notebook && Jupyter.notebook.kernel && Jupyter.notebook.kernel.is_connected())"))

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def wait(self, test, seconds=60, what=""):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = test()
            if value:
                return value
            time.sleep(0.1)
        self.shot("failure")
        raise TimeoutError(what or "it did not happen")

    def shot(self, name):
        if PICTURES:
            PICTURES.mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(PICTURES / f"{name}.png"))

    def start(self, i):
        self.js("Jupyter.notebook.select(arguments[0]); Jupyter.notebook.execute_cell()", i)

    def busy(self, i):
        return self.js("return Jupyter.notebook.get_cell(arguments[0]).element.hasClass('running')", i)

    def number(self, i):
        return self.js("return Jupyter.notebook.get_cell(arguments[0]).input_prompt_number", i)

    def text(self, i):
        return self.js("return Jupyter.notebook.get_cell(arguments[0]).output_area.element.text()", i)

    def html(self, i):
        return self.js("return Jupyter.notebook.get_cell(arguments[0]).output_area.element.html()", i)

    def run(self, i, seconds=60):
        """Runs a cell that puts something out. Reply and outputs come to the page on ways of their own: both are waited for."""
        self.js("Jupyter.notebook.get_cell(arguments[0]).clear_output()", i)
        self.start(i)
        self.wait(lambda: not self.busy(i) and self.number(i) not in (None, "*") and self.text(i).strip() and
                  not self.js("return Jupyter.notebook.kernel_busy"), seconds, f"cell {i} does not end")
        return self.text(i)

    def edit(self, i):
        self.js("Jupyter.notebook.select(arguments[0]); Jupyter.notebook.edit_mode(); Jupyter.notebook.get_cell(arguments[0]).focus_editor();"
                "var c = Jupyter.notebook.get_cell(arguments[0]).code_mirror; c.execCommand('goDocEnd')", i)

    def keys(self, *keys):
        chain = ActionChains(self.driver)
        for k in keys:
            chain.send_keys(k)
        chain.perform()


def main():
    kernel.install()
    p = Page(start_notebook() + "/notebooks/test.ipynb")
    assert p.run(0).strip().endswith("42"), p.text(0)
    p.run(1)
    assert "img" in p.html(1) and "epoch" in p.text(1).lower(), p.text(1)
    p.shot("trained")

    # a long training: its display changes in place, then it is interrupted
    p.start(2)
    first = p.wait(lambda: p.text(2))
    p.wait(lambda: p.text(2) != first, what="the display does not change")
    count = p.js("return Jupyter.notebook.get_cell(2).output_area.outputs.length")
    p.shot("training")
    time.sleep(1)
    assert p.js("return Jupyter.notebook.get_cell(2).output_area.outputs.length") == count == 1, "one display, updated"
    p.js("Jupyter.notebook.kernel.interrupt()")
    p.wait(lambda: not p.busy(2), what="the training goes on")
    assert "interrupted" in p.text(2), p.text(2)
    assert "true" in p.run(3), p.text(3)

    # Tab completes, Shift-Tab shows help
    p.edit(4)
    p.keys(Keys.TAB)
    p.wait(lambda: p.js("return Jupyter.notebook.get_cell(4).get_text()") == "cross_entropy", what="Tab")
    p.driver.switch_to.active_element.send_keys(Keys.SHIFT, Keys.TAB)
    p.wait(lambda: "label_smoothing" in p.js("return $('.tooltiptext').text()"), what="Shift-Tab")
    time.sleep(1)  # it fades in
    p.shot("help")
    p.keys(Keys.ESCAPE)

    # a tensor, an error in colours
    p.run(5)
    p.run(6)
    assert re.search(r"In \[\d+\]:2:5: error: .*missing_name", p.text(6)), p.text(6)
    assert "ansi-red" in p.html(6), p.html(6)
    p.js("window.scrollTo(0, document.body.scrollHeight); Jupyter.notebook.scroll_to_bottom()")
    p.shot("error")

    # Run All stops at an error, though the first cell fails before the browser has sent the last one
    p.js("Jupyter.notebook.get_cell(0).set_text('missing_at_once'); for (var i = 1; i < 7; i++) Jupyter.notebook.get_cell(i).set_text('1 + ' + i)")
    for _ in range(30):
        time.sleep(0.2)  # output within moments of the last error belongs to it
        gap = p.js(RUN_ALL)
        p.wait(lambda: "missing_at_once" in p.text(0) and not any(p.busy(i) for i in range(7)), what="Run All")
        if gap < ONE_BURST:  # where others held up the browser, the kernel could not know that all was sent at once
            break
    assert gap < ONE_BURST, f"the browser never sends its cells at once: {gap} ms between two of them"
    time.sleep(0.5)
    assert [(p.number(i), p.text(i).strip()) for i in range(1, 7)] == [(None, "")] * 6, [p.text(i) for i in range(7)]
    for i in (0, 3):
        p.js("Jupyter.notebook.get_cell(arguments[0]).set_text(arguments[1])", i, CELLS[i])

    # restart: variables are gone, the kernel answers
    p.js("window.restarted = false; Jupyter.notebook.kernel.restart(function() { window.restarted = true })")
    p.wait(lambda: p.js("return window.restarted && Jupyter.notebook.kernel.is_connected()"), what="the restart")
    assert p.run(0).strip().endswith("42") and p.number(0) == 1, (p.text(0), p.number(0))
    assert "error" in p.run(3), "t has outlived the restart: " + p.text(3)
    print("Notebook in Chromium: cells, live training, interrupt, Tab, Shift-Tab, error, restart")


if __name__ == "__main__":
    main()

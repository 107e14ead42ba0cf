"""Cells in JupyterLab 4 and Notebook 7, in headless Chromium: the extension that `dlsh kernel install` puts there colours the
language and C in it, a cell runs, what is shown of a tensor is its table, the debugger of JupyterLab works. Debian has neither, so they are looked for as
jupyter-lab and jupyter-notebook on the PATH or in the folder DLSH_JUPYTERLAB, for example the bin of a virtual environment:

    python3 -m venv ~/lab && ~/lab/bin/pip install jupyterlab notebook
    DLSH_JUPYTERLAB=~/lab/bin python3 tests/jupyter/lab.py [FOLDER]

Pictures of what it looks like are left in FOLDER."""
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
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.common.keys import Keys
except ImportError as e:
    print(f"skipped: {e} (Debian: python3-selenium)")
    sys.exit(77)
PICTURES = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None

CELLS = ["net m {\n    conv 16 k=3 -> relu   # layers\n}\nstat m", "%%c\n/* twice */\nint twice(int n) { return 2 * n; }\n\n", "arange(6).reshape(2, 3)"]
# words that have a span of their own in each cell; as Python, conv, k and /* twice */ would have none
WANTED = {0: ["net", "conv", "16", "k", "->", "relu", "# layers", "stat"], 1: ["%%c", "/* twice */", "int", "twice", "return", "2"]}
TOKENS = """return Array.from(document.querySelectorAll('.jp-CodeCell')).map(cell =>
    Array.from(cell.querySelectorAll('.cm-line span')).filter(s => s.className.includes('ͼ')).map(s => s.textContent.trim()))"""


def find(name, least):
    """The program, when it is new enough."""
    path = shutil.which(name, path=os.environ.get("DLSH_JUPYTERLAB", "") + os.pathsep + os.environ.get("PATH", ""))
    version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout if path else ""
    return path if version and int(re.match(r"\d*", version)[0] or 0) >= least else None


def serve(program):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    log = open(kernel.HOME / "server.log", "w")
    server = subprocess.Popen([program, "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1", "--IdentityProvider.token=",
                               f"--ServerApp.root_dir={kernel.HOME}"], stdout=log, stderr=log, cwd=kernel.HOME)
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api")
            return server, f"http://127.0.0.1:{port}"
        except OSError:
            assert server.poll() is None, (kernel.HOME / "server.log").read_text()
            time.sleep(0.1)
    raise TimeoutError("the server does not answer")


def write_notebook(name="test", cells=CELLS):
    cells = [{"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": c, "outputs": [], "execution_count": None} for i, c in enumerate(cells)]
    spec = {"kernelspec": {"name": "dlsh", "display_name": "dlsh", "language": "dlsh"}}
    (kernel.HOME / f"{name}.ipynb").write_text(json.dumps({"cells": cells, "metadata": spec, "nbformat": 4, "nbformat_minor": 5}))


def browser():
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,1000",
                 f"--user-data-dir={kernel.HOME}/chromium"):
        options.add_argument(word)
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    atexit.register(driver.quit)
    return driver


def wait(test, what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = test()
        if value:
            return value
        time.sleep(0.2)
    raise TimeoutError(what)


def check(driver, name, url):
    driver.get(url)
    missing = lambda: [(i, w) for i, words in WANTED.items() for w in words if w not in (driver.execute_script(TOKENS) + [[]] * 9)[i]]
    try:
        wait(lambda: not missing(), "colours")
    except TimeoutError:
        raise AssertionError(f"{name}: without colour of their own: {missing()}")
    driver.execute_script("document.querySelectorAll('.jp-CodeCell')[2].querySelector('.cm-content').focus()")
    wait(lambda: "Idle" in driver.page_source or driver.execute_script("return !!document.querySelector('[data-status=idle]')"), "a kernel")
    ActionChains(driver).key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
    html = wait(lambda: driver.execute_script("var o = document.querySelectorAll('.jp-CodeCell')[2].querySelector('.jp-OutputArea-output'); return o && o.innerHTML"),
                "an output")
    assert "<table" in html and "i64[2,3]" in html, f"{name}: {html[:300]}"
    if PICTURES:
        PICTURES.mkdir(parents=True, exist_ok=True)
        driver.save_screenshot(str(PICTURES / f"{name}.png"))


DEBUGGED = "w = param(tensor([1.0, 2.0]))\nh = relu(w * 3)\nl = sum(h)\nbackward l\ndone = 1"
SIDE = "return document.querySelector('.jp-DebuggerSidebar').innerText"


def debug(driver, url):
    """JupyterLab's debugger: a breakpoint set with the mouse, a step to the next statement, a variable opened in the panel, a step into backward,
    over nodes, the node's values, the end."""
    driver.get(url)
    wait(lambda: driver.execute_script("return !!document.querySelector('[data-status=idle]')"), "a kernel")
    shown = "return Array.from(document.querySelectorAll('.jp-CodeCell .cm-content')).some(c => c.innerText.includes('backward l'))"
    wait(lambda: driver.execute_script(shown), "the notebook")
    def attached():
        """Clicks the bug until the side bar names the notebook: it may be there before the debugger is ready, and then does nothing."""
        driver.execute_script("var b = document.querySelector('.jp-DebuggerBugButton:not(.disabled)'); b && b.click()")
        time.sleep(1)
        return "DEBUGGED" in driver.execute_script("return (document.querySelector('.jp-DebuggerSidebar') || {innerText: ''}).innerText")

    wait(attached, "the debugger")

    def marked():
        """Clicks beside line 3 until the breakpoint is there: lines are drawn anew while the debugger starts."""
        if "3" in driver.execute_script(SIDE + ".split('BREAKPOINTS')[1].split('KERNEL')[0]"):
            return True
        gutter = driver.execute_script("return document.querySelectorAll('.cm-breakpoint-gutter .cm-gutterElement')[3]")
        try:
            ActionChains(driver).move_to_element(gutter).click().perform() if gutter else None
        except WebDriverException:  # it was drawn anew at this moment
            pass
        time.sleep(0.5)
        return False

    wait(marked, "the breakpoint")
    driver.execute_script("document.querySelector('.jp-CodeCell .cm-content').focus()")
    ActionChains(driver).key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
    stack = lambda: driver.execute_script(SIDE + ".split('CALLSTACK')[1].split('BREAKPOINTS')[0]")
    press = lambda command: driver.execute_script(f"document.querySelector('.jp-DebuggerSidebar [data-command=\"debugger:{command}\"]').click()")
    wait(lambda: ":3" in stack(), "the stop at the breakpoint")
    press("next")
    wait(lambda: ":4" in stack(), "the next statement")

    def opened():
        """Clicks the triangle of h until what it holds is shown: the panel is drawn anew at each stop."""
        if "shape" in driver.execute_script(SIDE):
            return True
        driver.execute_script("""var of = Array.from(document.querySelectorAll('.jp-DebuggerVariables [role=treeitem], .jp-DebuggerVariables-branch li'));
            var h = of.find(x => x.innerText.startsWith('h')); h && h.click()""")
        time.sleep(0.5)
        return False

    wait(opened, "the parts of a variable")
    if PICTURES:
        driver.save_screenshot(str(PICTURES / "variable.png"))
    for command, place in (("stepIn", "forward mul"), ("next", "forward relu"), ("next", "forward sum"), ("next", "backward sum"), ("next", "backward relu")):
        press(command)
        wait(lambda: place in stack(), place)
    wait(lambda: "f32[2] n=2 in [3, 6]" in driver.execute_script(SIDE), "the node's result")
    if PICTURES:
        driver.save_screenshot(str(PICTURES / "debugger.png"))
    for _ in range(2):
        press("continue")
        time.sleep(0.3)
    wait(lambda: driver.execute_script("return !!document.querySelector('[data-status=idle]')"), "the end of the cell")


def main():
    found = [(name, path, page) for name, least, page in (("jupyter-lab", 4, "lab/tree"), ("jupyter-notebook", 7, "notebooks"))
             if (path := find(name, least))]
    if not found or not shutil.which("/usr/bin/chromium"):
        print("skipped: neither JupyterLab 4 nor Notebook 7 is on the PATH or in DLSH_JUPYTERLAB, or there is no chromium")
        sys.exit(77)
    kernel.install()
    driver = browser()
    for name, path, page in found:
        write_notebook()
        server, url = serve(path)
        try:
            check(driver, name, f"{url}/{page}/test.ipynb")
            if name == "jupyter-lab":
                write_notebook("debugged", [DEBUGGED])
                debug(driver, f"{url}/{page}/debugged.ipynb?reset")
        finally:
            driver.get("about:blank")
            server.terminate()
            server.wait()
        print(f"{name}: colours of the language and of C; a tensor as a table" + ("; the debugger" if name == "jupyter-lab" else ""))


if __name__ == "__main__":
    main()

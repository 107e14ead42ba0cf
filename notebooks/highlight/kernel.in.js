// Highlighting of dlsh in the classic Notebook, loaded from the kernelspec when the kernel starts. `dlsh kernel install` makes
// kernel.js of kernel.in.js and mode.in.js.
define(["codemirror/lib/codemirror", "base/js/events"], function (CodeMirror, events) {
"use strict";
//= mode.in.js
CodeMirror.defineMode("dlsh", config => ({
    startState: mode.startState,
    copyState: mode.copyState,
    token: mode.token,
    indent: (state, after) => mode.columns(state, after, config.indentUnit || 4),
    lineComment: "#",
    electricInput: /^\s*\}$/,
    fold: "brace",
    closeBrackets: "()[]{}''\"\""
}));
CodeMirror.defineMIME("text/x-dlsh", "dlsh");

function use() {
    if (window.Jupyter && Jupyter.notebook) Jupyter.notebook.set_codemirror_mode("dlsh");
}
return {
    onload: function () {
        use();
        events.on("kernel_ready.Kernel", use); // after the notebook has chosen the mode that the kernel named for clients without this one
    }
};
});

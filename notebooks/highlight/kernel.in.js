// Highlighting of dlsh in the classic Notebook, loaded from the kernelspec when the kernel starts: a CodeMirror 5 mode whose names
// are made from the tables of dlsh. kernel.js is made from kernel.in.js; both stay in step through `ninja gen`.
define(["codemirror/lib/codemirror", "base/js/events", "codemirror/mode/clike/clike"], function (CodeMirror, events) {
"use strict";
const NAMES = {}
const known = {};
for (const kind in NAMES) known[kind] = new Set(NAMES[kind]);
const constants = new Set(["true", "false", "none"]);

// Where C begins: a C or CUDA block, a prototype, a whole cell.
const block = /^[^\S\n]*(?:CUDA|C)\b[^\n{}#]*\{/, prototype = /^[^\S\n]*extern\b(?:[^\S\n]+"[^"\n]*")?/, cell = /^%%c\b/;

function word(stream, state) {
    const text = stream.current(), first = state.first, next = stream.string.slice(stream.pos);
    state.first = false;
    if (stream.string.charAt(stream.start - 1) === ".") return "property";
    if (constants.has(text)) return "atom";
    if (known.keywords.has(text)) return "keyword";
    if (known.dtypes.has(text)) return "type";
    if (/^=(?!=)/.test(next) && !first) return "attribute";
    if (first && /^:\s/.test(next)) {
        state.first = true;
        stream.next();
        return "attribute";
    }
    if (/^\(/.test(next)) return known.functions.has(text) || known.commands.has(text) ? "builtin" : "variable";
    const alone = !/^(?:[.\[]|\s*(?:[-+*\/]?=(?!=)|,))/.test(next);
    if (first && alone && known.commands.has(text)) return "builtin";
    if ((first || state.arrow) && alone && known.layers.has(text)) return "def";
    return "variable";
}

function token(stream, state) {
    if (stream.sol()) {
        state.first = true;
        state.arrow = false;
    }
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^"(?:\\.|[^"\\])*"?|^'(?:\\.|[^'\\])*'?/)) return "string";
    if (stream.match(/^0[xX][0-9a-fA-F]+|^(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?/)) return "number";
    if (stream.match(/^%%?\w+/)) return "meta";
    if (stream.match(/^[A-Za-z_]\w*/)) {
        const style = word(stream, state);
        state.arrow = false;
        return style;
    }
    state.arrow = !!stream.match("->");
    if (state.arrow) return "operator";
    if (stream.match(/^[;{}]/)) {
        state.first = true;
        return null;
    }
    state.first = false;
    return stream.match(/^[-+*\/%@!~&|^?:<>=]+/) ? "operator" : (stream.next(), null);
}

CodeMirror.defineMode("dlsh", function (config) {
    const c = CodeMirror.getMode(config, "text/x-csrc");
    function enter(stream, state) {
        state.c = CodeMirror.startState(c);
        const bare = stream.string.slice(0, stream.pos).trim();
        state.end = bare.endsWith("{") ? "}" : bare.startsWith("%%") ? "" : ";";
        state.depth = 0;
    }
    return {
        startState: () => ({first: true, arrow: false, c: null, depth: 0, end: ""}),
        copyState: s => Object.assign({}, s, {c: s.c && CodeMirror.copyState(c, s.c)}),
        token: function (stream, state) {
            if (!state.c) {
                if (stream.sol() && stream.match(cell)) {
                    stream.skipToEnd();
                    enter(stream, state);
                    return "meta";
                }
                if (stream.sol() && (stream.match(block) || stream.match(prototype))) {
                    enter(stream, state);
                    return "keyword";
                }
                return token(stream, state);
            }
            const next = stream.peek();
            if (next === state.end && !state.depth) {
                stream.next();
                state.c = null;
                state.first = true;
                return null;
            }
            const style = c.token(stream, state.c), text = stream.current();
            if (text === "{") state.depth++;
            if (text === "}") {
                state.depth--;
                if (state.end === ";" && !state.depth) state.c = null; // extern "lib" { ... }
            }
            return style;
        },
        lineComment: "#",
        electricInput: /^\s*\}$/,
        indent: function (state, after) {
            if (state.c && c.indent) return c.indent(state.c, after, after);
            return CodeMirror.Pass;
        },
        fold: "brace",
        closeBrackets: "()[]{}''\"\""
    };
});
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

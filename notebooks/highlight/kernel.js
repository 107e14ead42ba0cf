// Highlighting of dlsh in the classic Notebook, loaded from the kernelspec when the kernel starts: a CodeMirror 5 mode whose names
// are made from the tables of dlsh. kernel.js is made from kernel.in.js; both stay in step through `ninja gen`.
define(["codemirror/lib/codemirror", "base/js/events", "codemirror/mode/clike/clike"], function (CodeMirror, events) {
"use strict";
const NAMES = {
    keywords: [
        "if",
        "else",
        "while",
        "for",
        "in",
        "fn",
        "return",
        "break",
        "continue",
        "try",
        "catch",
        "true",
        "false",
        "none",
        "net",
        "extern",
        "C",
        "CUDA",],
    commands: [
        "print",
        "no_grad",
        "assert",
        "quit",
        "exit",
        "unset",
        "vars",
        "show",
        "seed",
        "time",
        "clear",
        "device",
        "precision",
        "empty_cache",
        "help",
        "set",
        "args",
        "read",
        "stat",
        "hist",
        "gradcheck",
        "op",
        "isolate",
        "graph",
        "step",
        "forward",
        "backward",
        "update",
        "train",
        "eval",
        "save",
        "load",
        "checkpoint",
        "rescue",
        "img",
        "runs",
        "run",
        "compare",
        "best",
        "sql",
        "tag",
        "note",
        "export",
        "plot",],
    functions: [
        "print",
        "quit",
        "exit",
        "error",
        "type",
        "len",
        "range",
        "bool",
        "int",
        "float",
        "record",
        "keys",
        "values",
        "get",
        "drop",
        "next",
        "has",
        "call",
        "str",
        "repr",
        "json",
        "format",
        "upper",
        "lower",
        "strip",
        "startswith",
        "endswith",
        "find",
        "words",
        "join",
        "replace",
        "append",
        "extend",
        "insert",
        "pop",
        "remove",
        "index",
        "copy",
        "reversed",
        "list",
        "map",
        "filter",
        "enumerate",
        "zip",
        "sorted",
        "max",
        "min",
        "sum",
        "floor",
        "ceil",
        "round",
        "abs",
        "atan2",
        "tensor",
        "param",
        "zeros_like",
        "ones_like",
        "rand_like",
        "randn_like",
        "item",
        "tolist",
        "numel",
        "size",
        "stride",
        "is_contiguous",
        "to",
        "cpu",
        "cuda",
        "detach",
        "contiguous",
        "requires_grad_",
        "copy_",
        "fill_",
        "zero_",
        "transpose",
        "t",
        "squeeze",
        "unsqueeze",
        "flatten",
        "view",
        "split",
        "chunk",
        "allclose",
        "equal",
        "seed",
        "input",
        "stat",
        "grad",
        "gradcheck",
        "isolate",
        "dataset",
        "loader",
        "sgd",
        "adam",
        "adamw",
        "schedule",
        "trainer",
        "step",
        "forward",
        "backward",
        "update",
        "train",
        "eval",
        "load",
        "best",
        "sql",
        "new",
        "cast",
        "sizeof",
        "add",
        "sub",
        "mul",
        "div",
        "floor_divide",
        "remainder",
        "pow",
        "maximum",
        "minimum",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_not",
        "bitwise_left_shift",
        "bitwise_right_shift",
        "isnan",
        "isinf",
        "isfinite",
        "neg",
        "abs",
        "sign",
        "square",
        "exp",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "sin",
        "cos",
        "tan",
        "atan",
        "tanh",
        "sigmoid",
        "erf",
        "relu",
        "leaky_relu",
        "gelu",
        "silu",
        "softplus",
        "floor",
        "ceil",
        "round",
        "clamp",
        "where",
        "to",
        "clone",
        "reshape",
        "permute",
        "expand",
        "slice",
        "select",
        "diagonal",
        "cat",
        "stack",
        "pad",
        "flip",
        "index_select",
        "index_add",
        "gather",
        "scatter_add",
        "embedding",
        "nonzero",
        "one_hot",
        "sum",
        "mean",
        "prod",
        "amax",
        "amin",
        "max_dim",
        "min_dim",
        "argmax",
        "argmin",
        "any",
        "all",
        "logsumexp",
        "cumsum",
        "var",
        "std",
        "norm",
        "matmul",
        "linear",
        "conv2d",
        "conv_transpose2d",
        "max_pool2d",
        "avg_pool2d",
        "adaptive_avg_pool2d",
        "softmax",
        "log_softmax",
        "cross_entropy",
        "nll_loss",
        "mse_loss",
        "l1_loss",
        "binary_cross_entropy_with_logits",
        "dropout",
        "batch_norm",
        "layer_norm",
        "group_norm",
        "full",
        "zeros",
        "ones",
        "arange",
        "eye",
        "linspace",
        "rand",
        "randn",
        "randint",
        "randperm",
        "bernoulli",],
    layers: [
        "linear",
        "fc",
        "dense",
        "conv",
        "conv2d",
        "convtranspose",
        "conv_transpose2d",
        "convtranspose2d",
        "deconv",
        "batchnorm",
        "batch_norm",
        "batchnorm1d",
        "batchnorm2d",
        "bn",
        "layernorm",
        "layer_norm",
        "ln",
        "groupnorm",
        "group_norm",
        "gn",
        "embedding",
        "maxpool",
        "max_pool2d",
        "maxpool2d",
        "pool",
        "avgpool",
        "avg_pool2d",
        "avgpool2d",
        "adaptiveavgpool",
        "adaptive_avg_pool2d",
        "adaptiveavgpool2d",
        "flatten",
        "relu",
        "leaky_relu",
        "lrelu",
        "gelu",
        "silu",
        "swish",
        "tanh",
        "sigmoid",
        "softplus",
        "softmax",
        "log_softmax",
        "dropout",
        "identity",
        "sequential",
        "seq",
        "residual",
        "repeat",],
    dtypes: [
        "bool",
        "u8",
        "i32",
        "i64",
        "f16",
        "bf16",
        "f32",
        "f64",],
};
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

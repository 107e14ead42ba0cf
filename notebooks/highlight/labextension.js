// Highlighting of dlsh in JupyterLab 4 and Notebook 7: an extension as they load them, a container of webpack's module federation,
// written by hand. labextension.js is made from labextension.in.js and mode.in.js; they stay in step through `ninja gen`.
(() => {
"use strict";
// How dlsh is coloured: a stream mode as CodeMirror 5 has them and CodeMirror 6 takes them. Its names are made from the tables of
// dlsh. kernel.js and labextension.js contain it; both are made by `ninja gen`.
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
        "rmsprop",
        "schedule",
        "clip_grad_norm",
        "clip_grad_value",
        "trainer",
        "step",
        "forward",
        "backward",
        "update",
        "train",
        "eval",
        "start_run",
        "load",
        "runs",
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
        "elu",
        "gelu",
        "silu",
        "softplus",
        "logsigmoid",
        "mish",
        "relu6",
        "hardtanh",
        "floor",
        "ceil",
        "round",
        "clamp",
        "where",
        "masked_fill",
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
        "roll",
        "tile",
        "tril",
        "triu",
        "index_select",
        "index_add",
        "gather",
        "scatter_add",
        "embedding",
        "nonzero",
        "one_hot",
        "sort",
        "argsort",
        "topk",
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
        "normalize",
        "cosine_similarity",
        "matmul",
        "linear",
        "mm",
        "mv",
        "bmm",
        "dot",
        "outer",
        "addmm",
        "einsum",
        "scaled_dot_product_attention",
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
        "smooth_l1_loss",
        "huber_loss",
        "kl_div",
        "binary_cross_entropy_with_logits",
        "dropout",
        "batch_norm",
        "layer_norm",
        "rms_norm",
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
        "rmsnorm",
        "rms_norm",
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
        "elu",
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
    if (known.dtypes.has(text)) return "builtin"; // JupyterLab has no colour for types
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

// C, as far as colours go.
const C_KEYWORDS = new Set(("break case continue default do else for goto if return switch while sizeof typedef static inline extern " +
    "struct union enum const volatile restrict register").split(" "));
const C_TYPES = new Set(("void char short int long float double signed unsigned bool _Bool complex real size_t ssize_t ptrdiff_t " +
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t FILE").split(" "));

function cToken(stream, state) {
    if (state.comment) {
        state.comment = !stream.match(/^.*?\*\//);
        if (state.comment) stream.skipToEnd();
        return "comment";
    }
    if (stream.eatSpace()) return null;
    if (stream.match(/^\/\/.*/)) return "comment";
    if (stream.match("/*")) {
        state.comment = true;
        return "comment";
    }
    if (/^\s*$/.test(stream.string.slice(0, stream.start)) && stream.match(/^#\s*\w*(?:\s*<[^>]*>)?/)) return "meta";
    if (stream.match(/^"(?:\\.|[^"\\])*"?|^'(?:\\.|[^'\\])*'?/)) return "string";
    if (stream.match(/^0[xX][0-9a-fA-F]+\w*|^(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\w*/)) return "number";
    if (stream.match(/^[A-Za-z_]\w*/)) {
        const text = stream.current();
        if (C_KEYWORDS.has(text) || (state.end === ";" && /^(?:out|keep)$/.test(text))) return "keyword";
        if (C_TYPES.has(text)) return "builtin";
        if (text === "NULL" || text === "true" || text === "false") return "atom";
        return /^\s*\(/.test(stream.string.slice(stream.pos)) ? "def" : "variable";
    }
    return stream.match(/^[-+*\/%!~&|^?:<>=]+/) ? "operator" : (stream.next(), null);
}

function enter(stream, state) {
    const bare = stream.string.slice(0, stream.pos).trim();
    state.c = true;
    state.comment = false;
    state.end = bare.endsWith("{") ? "}" : bare.startsWith("%%") ? "" : ";";
    state.depth = 0;
}

function inC(stream, state) {
    if (!state.comment && !state.depth && state.end && stream.peek() === state.end) {
        stream.next();
        state.c = false;
        state.first = true;
        return null;
    }
    const style = cToken(stream, state), text = stream.current();
    if (style) return style;
    if (text === "{") state.depth++;
    if (text === "}") {
        state.depth--;
        if (state.end === ";" && !state.depth) state.c = false; // extern "lib" { ... }
    }
    return null;
}

function tokenAnywhere(stream, state) {
    if (state.c) return inC(stream, state);
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

const mode = {
    startState: () => ({first: true, arrow: false, c: false, comment: false, depth: 0, end: "", open: 0}),
    copyState: s => Object.assign({}, s),
    token: (stream, state) => {
        const style = tokenAnywhere(stream, state);
        if (style === null || style === "keyword") // brackets are unnamed, or the end of "C {"
            for (const c of stream.current()) state.open += "([{".includes(c) ? 1 : ")]}".includes(c) && state.open ? -1 : 0;
        return style;
    },
    // By brackets that are open at the start of a line.
    columns: (state, after, unit) => unit * Math.max(0, state.open - (/^\s*[)\]}]/.test(after) ? 1 : 0))
};
let shared = {}; // name: {version: {get, loaded}}

/* A module of the application: the version it runs. */
async function take(name) {
    const versions = Object.values(shared[name] || {});
    const chosen = versions.find(v => v.loaded) || versions[versions.length - 1];
    if (!chosen) throw new Error("dlsh: this application has no " + name);
    return (await chosen.get())();
}

async function plugin() {
    const [{IEditorLanguageRegistry}, {LanguageSupport, StreamLanguage}] =
        await Promise.all([take("@jupyterlab/codemirror"), take("@codemirror/language")]);
    const language = StreamLanguage.define({
        name: "dlsh",
        startState: mode.startState,
        copyState: mode.copyState,
        token: mode.token,
        indent: (state, after, context) => mode.columns(state, after, context.unit),
        languageData: {
            commentTokens: {line: "#"},
            closeBrackets: {brackets: ["(", "[", "{", "'", '"']},
            indentOnInput: /^\s*[)\]}]$/
        }
    });
    return {
        id: "dlsh:language",
        description: "Highlighting of dlsh",
        autoStart: true,
        requires: [IEditorLanguageRegistry],
        activate: (app, languages) => {
            languages.addLanguage({
                name: "dlsh",
                mime: "text/x-dlsh",
                extensions: ["dlsh"],
                support: new LanguageSupport(language)
            });
        }
    };
}

(window._JUPYTERLAB = window._JUPYTERLAB || {}).dlsh = {
    init: scope => { shared = scope; },
    get: async module => {
        if (module !== "./extension") throw new Error("dlsh: there is no module " + module);
        const made = await plugin();
        return () => ({__esModule: true, default: made});
    }
};
})();

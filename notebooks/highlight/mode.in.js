// How dlsh is coloured: a stream mode as CodeMirror 5 has them and CodeMirror 6 takes them. The scripts
// for notebooks contain it. `dlsh kernel install` fills in the names, from the tables of dlsh.
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

/* Conditions, as those of where=: lr < 0.01 and (opt in (adam, sgd) or started > 2d ago). Words without a comparison are looked
   for in all texts of a run. */
const SECONDS = { ms: 1e-3, s: 1, m: 60, h: 3600, d: 86400, w: 604800, mo: 30 * 86400, y: 365 * 86400 };
/* "min", "hours", "mo", "months" as keys of SECONDS. */
function unitOf(word) {
  if (/^(s|secs?|seconds?)$/.test(word)) return "s";
  if (/^(m|mins?|minutes?)$/.test(word)) return "m";
  if (/^(h|hrs?|hours?)$/.test(word)) return "h";
  if (/^(mo|months?)$/.test(word)) return "mo";
  if (/^(y|yrs?|years?)$/.test(word)) return "y";
  return /^(ms|d|days?|w|weeks?)$/.test(word) ? (word === "ms" ? word : word[0]) : null;
}
/* 1h30m, 2 days: pairs of a number and a unit; null: something else. */
function spanOf(text) {
  if (!/^\s*(\d*\.?\d+\s*[a-z]+[\s,]*)+$/.test(text)) return null;
  const parts = [...text.matchAll(/(\d*\.?\d+)\s*([a-z]+)/g)].map((m) => [+m[1], unitOf(m[2])]);
  return parts.every(([, unit]) => unit) ? parts : null;
}
/* 90, 90s, 5min, 1h30m, 1:30 as seconds; NaN: none of these. */
function durationOf(text) {
  if (text.trim() && !Number.isNaN(Number(text))) return Number(text);
  if (/^\d+(:[0-5]?\d(\.\d+)?){1,2}$/.test(text)) return text.split(":").reduce((s, part) => s * 60 + Number(part), 0);
  const parts = spanOf(text.toLowerCase());
  return parts ? parts.reduce((s, [n, unit]) => s + n * SECONDS[unit], 0) : NaN;
}
const DAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/* From when to when, in milliseconds: 2026-11-22, 22 Nov 2026, "2026-11-22 10:30", 10:30, yesterday, 2d ago; null: no date. */
function whenOf(written) {
  const text = written.trim().toLowerCase(), now = new Date(), today = [now.getFullYear(), now.getMonth(), now.getDate()];
  if (text === "now") return [+now, +now];
  if (/^\d{5,}(\.\d+)?$/.test(text)) return [1000 * text, 1000 * text];
  const ago = /^(.*\S)\s*ago$/.exec(text), parts = ago && spanOf(ago[1]);
  if (ago) {
    if (!parts) return null;
    const months = parts.reduce((n, [k, unit]) => n + (unit === "mo" ? k : unit === "y" ? 12 * k : 0), 0), at = new Date(+now);
    at.setMonth(at.getMonth() - months);
    const t = +at - 1000 * parts.reduce((s, [k, unit]) => s + (unit === "mo" || unit === "y" ? 0 : k * SECONDS[unit]), 0);
    return [t, t];
  }
  let m, day = null, unit = 2, rest = text;
  const take = (re) => { m = re.exec(rest); if (m) rest = rest.slice(m[0].length); return m; };
  if (take(/^(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2}))?)?(?![\d:])/)) { day = [+m[1], (m[2] || 1) - 1, +(m[3] || 1)]; unit = m[3] ? 2 : m[2] ? 1 : 0; }
  else if (take(/^(\d{1,2})\.(\d{1,2})\.(\d{4})/)) day = [+m[3], m[2] - 1, +m[1]];
  else if (take(/^(?:(\d{1,2})\s+)?([a-z]{3,9})\s*(?:(\d{1,2})(?![\d:]))?,?\s*(\d{4})?/) && MONTHS.includes(m[2].slice(0, 3))) {
    const d = m[1] || m[3];
    day = [+(m[4] || today[0]), MONTHS.indexOf(m[2].slice(0, 3)), +(d || 1)];
    unit = d ? 2 : 1;
  } else if ((rest = text, take(/^[a-z]{3,}/))) {
    const back = { today: 0, yesterday: 1, tomorrow: -1 }[m[0]], week = DAYS.findIndex((n) => n.startsWith(m[0]));
    if (back === undefined && week < 0) return null;
    day = [today[0], today[1], today[2] - (back ?? ((now.getDay() - week + 6) % 7) + 1)];
  } else if (/^\d{1,2}:/.test(text)) day = today;
  if (!day || day[1] > 11 || (unit === 2 && day[2] > 31)) return null;
  const ends = [...day, 0, 0, 0];
  if (unit === 2 && take(/^[t\s]*(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?/)) { ends.splice(3, 3, +m[1], +m[2], +(m[3] || 0)); unit = m[3] ? 5 : 4; }
  const zone = take(/^\s*(?:z|utc|gmt)?([+-]\d{2}:?(?:\d{2})?)?/), next = [...ends];
  if (rest.trim()) return null;
  next[unit]++;
  if (!zone[0].trim()) return [+new Date(...ends), +new Date(...next)];
  const off = zone[1] ? (zone[1][0] === "-" ? -1 : 1) * (+zone[1].slice(1, 3) * 60 + +(zone[1].slice(3).replace(":", "") || 0)) * 60000 : 0;
  return [Date.UTC(...ends) - off, Date.UTC(...next) - off];
}

/* ---- reading them */
const STATUSES = ["running", "paused", "finished", "failed", "killed", "diverged"];
const OPERATORS = /^(<|>|<=|>=|=|==|!=|<>|~|!~|~~|!~~|like|in|is)$/;
function parseFilter(text) {
  const words = text.match(/"[^"]*"|'[^']*'|!~~|~~|!=|<>|<=|>=|==|!~|&&|\|\||[()<>=~,!]|[^\s()<>=~!,"'&|]+(?:\([^\s()]*\))?/g) || [];
  const tokens = words.flatMap((w) => {
    const m = /^(in|not|and|or)\((.*)\)$/i.exec(w); /* in(a,b) looks like min(loss) */
    return m ? [m[1], "(", ...m[2].split(/(,)/), ")"] : [w];
  });
  let at = 0;
  const same = { "&&": "and", "||": "or", "!": "not" };
  const peek = (k = 0) => { const t = (tokens[at + k] || "").toLowerCase(); return same[t] || t; };
  const plain = (t) => t.replace(/^(["'])(.*)\1$/, "$2"), quoted = (t) => /^["']/.test(t);
  function or() { let a = and(); while (peek() === "or") { at++; const b = and(), c = a; a = (r) => c(r) || b(r); } return a; }
  function and() {
    let a = not();
    while (at < tokens.length && peek() !== "or" && peek() !== ")") {
      if (peek() === "and") at++;
      const b = not(), c = a;
      a = (r) => c(r) && b(r);
    }
    return a;
  }
  function not() { if (peek() === "not") { at++; const a = not(); return (r) => !a(r); } return one(); }
  /* a value; a date or a duration may have several words */
  function value(name) {
    const t = tokens[at++];
    if (t === undefined) throw Error("a value is missing");
    if (!quoted(t) && !/^[^\s()<>=~!,&|]+$/.test(t)) throw Error(`a value stands here, not ${t}`);
    if (quoted(t) || (name !== "started" && name !== "seconds")) return plain(t);
    let words = t;
    while (at < tokens.length && /^[\w.:+-]+$/.test(tokens[at]) && !/^(and|or|not)$/.test(peek()) && !OPERATORS.test(peek(1))) words += " " + tokens[at++];
    return words;
  }
  function list(name) {
    if (tokens[at++] !== "(") throw Error("in has values in parentheses: in (a, b)");
    const values = [value(name)];
    while (peek() === ",") { at++; values.push(value(name)); }
    if (tokens[at++] !== ")") throw Error("a ) is missing");
    return values;
  }
  function one() {
    if (peek() === "(") {
      at++;
      const a = or();
      if (peek() !== ")") throw Error("a ) is missing");
      at++;
      return a;
    }
    if (at >= tokens.length) throw Error("something is missing at the end");
    const name = tokens[at++], negated = peek() === "not" && /^(in|like)$/.test(peek(1));
    if (negated) at++;
    const op = peek();
    if (OPERATORS.test(op) && !quoted(name)) {
      if (!isName(name)) throw Error(`no run has ${name}`);
      at++;
      const tests = (op === "in" ? list(name) : [value(name)]).map((v) => comparison(name, op === "in" ? "=" : op, v));
      return (r) => tests.some((t) => t(r)) !== negated && (!negated || name === "tag" || hasValue(valueOf(r, name)));
    }
    const word = plain(name).toLowerCase();
    return (r) => r.search.includes(word);
  }
  const test = or();
  if (at < tokens.length) throw Error(`${tokens[at]} is not expected here`);
  return test;
}
const hasValue = (v) => v !== undefined && v !== null && v !== "" && !Number.isNaN(v);
function pattern(text) {
  try { return new RegExp(text, "u"); } catch { throw Error(`${text} is not a regular expression`); }
}
/* What % and _ stand for. */
const likeness = (text) => new RegExp("^" + text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/%/g, "[^]*").replace(/_/g, "[^]") + "$", "iu");

/* Tests of a value that is there; those on a span compare with its ends. */
function ordered(op, from, to) {
  return { "=": (x) => x >= from && (x < to || x === from), "!=": (x) => !(x >= from && (x < to || x === from)), "<": (x) => x < from,
    ">": (x) => x > from, ">=": (x) => x >= from, "<=": (x) => x < to || x === from }[op];
}
function textual(op, value) {
  const low = value.toLowerCase(), re = /~~/.test(op) ? pattern(value) : op === "like" ? likeness(value) : null;
  return { "=": (t) => t === value, "!=": (t) => t !== value, "~": (t) => t.toLowerCase().includes(low), "!~": (t) => !t.toLowerCase().includes(low),
    "~~": (t) => re.test(t), "!~~": (t) => !re.test(t), like: (t) => re.test(t) }[op];
}
function comparison(name, written, value) {
  const op = { "==": "=", is: "=", "<>": "!=" }[written] || written;
  if (value.toLowerCase() === "none" && (op === "=" || op === "!=")) return (r) => hasValue(valueOf(r, name)) === (op === "!=");
  const there = (test) => (r) => { const v = valueOf(r, name); return hasValue(v) && test(v); };
  if (name === "tag") { /* a run may have several */
    const test = textual(op.replace("!", ""), value);
    if (!test) throw Error(`tags are words: tag = ${value}`);
    return (r) => r.tags.some(test) !== (op[0] === "!");
  }
  const numeric = /^(=|!=|<|>|<=|>=)$/.test(op);
  if (numeric && name === "started") {
    const span = whenOf(value);
    if (!span) throw Error(`${value} is no date: 2026-11-22, yesterday, 2d ago`);
    return there(ordered(op, ...span));
  }
  const all = D.runs.map((r) => valueOf(r, name)).filter(hasValue), some = all.some((v) => !Number.isNaN(asNumber(v)));
  const x = name === "seconds" ? durationOf(value) : value.trim() ? Number(value) : NaN;
  if (numeric && !Number.isNaN(x) && some) {
    const compare = ordered(op, x, x);
    return there((v) => compare(asNumber(v)));
  }
  if (numeric && all.length && (/[<>]/.test(op) || all.every((v) => !Number.isNaN(asNumber(v)))))
    throw Error(some ? `${name} is a number, ${value} is none` : `${name} has no numbers: ${[...new Set(all)].slice(0, 8).join(", ")}`);
  if (name === "status" && numeric && !STATUSES.includes(value)) throw Error(`no status is called ${value}: ${STATUSES.join(", ")}`);
  const test = textual(op, value);
  return there((v) => test(String(v)));
}

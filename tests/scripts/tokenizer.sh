# Tokenizers: characters, words, byte pairs as Python computes them, files as GPT-2's, and files that are wrong.
python3 - <<'P'
# the definition of GPT-2's encoder, by the classes of Unicode
import collections, json, random, re, unicodedata
WHITE = {0x20, *range(9, 14), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
def kind(c):
    k = unicodedata.category(c)[0]
    return "s" if ord(c) in WHITE else k if k in "LN" else "o"
def split(text):
    """By the classes as letters of a simpler alphabet, in which re knows what to do."""
    simple = "".join({"L": "x", "N": "1", "s": "_", "o": "!"}[kind(c)] if c not in " '" else c for c in text)
    words, at = [], 0
    while at < len(text):
        m = re.compile(r"'(?:s|t|re|ve|m|ll|d)").match(text, at) or re.compile(
            r" ?x+| ?1+| ?[!']+|[_ ]+(?![^_ ])|[_ ]+").match(simple, at)
        words.append(text[at:m.end()])
        at = m.end()
    return words
visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
order = visible + [b for b in range(256) if b not in visible]
char = {b: chr(b if b in visible else 256 + [c for c in range(256) if c not in visible].index(b)) for b in range(256)}
text = ("Hello world, hello  there! It's the cat's 123 mice; we'll see  'em, they've 2nd thoughts.\n\n\tna\u00efve caf\u00e9 \u65e5\u672c\u8a9e "
        "\u0663\u0664 \u00bd x\u00b2 \U0001f600 tabs\t\tend \u00a0nbsp  \n  last ") * 3
def pairs(words):
    c = collections.Counter()
    for w, n in words.items():
        for p in zip(w, w[1:]): c[p] += n
    return c
ids = {bytes([b]): i for i, b in enumerate(order)}
tokens = [bytes([b]) for b in order]
words = collections.Counter(tuple(ids[bytes([b])] for b in w.encode()) for w in split(text))
merges = {}
def joined(w, p, to):
    out, i = [], 0
    while i < len(w):
        if w[i:i + 2] == p: out.append(to); i += 2
        else: out.append(w[i]); i += 1
    return tuple(out)
while len(tokens) < 330:
    c = pairs(words)
    p, n = min(c.items(), key=lambda item: (-item[1], item[0]))
    if n < 2: break
    made = tokens[p[0]] + tokens[p[1]]
    if made not in ids:
        ids[made] = len(tokens)
        tokens.append(made)
    merges[p] = len(merges)
    fresh = collections.Counter()
    for w, k in words.items(): fresh[joined(w, p, ids[made])] += k
    words = fresh
def encode(text):
    out = []
    for w in split(text):
        w = tuple(ids[bytes([b])] for b in w.encode())
        while True:
            known = [p for p in zip(w, w[1:]) if p in merges]
            if not known: break
            p = min(known, key=merges.get)
            w = joined(w, p, ids[tokens[p[0]] + tokens[p[1]]])
        out += w
    return out
other = "hello, the mice's   \u65e5\u672c 12 caf\u00e9s\r\n end'd aaaaaaaa\U0001f600 "
open("train.txt", "w", newline="").write(text)
open("other.txt", "w", newline="").write(other)
json.dump({"ids": encode(text), "other": encode(other), "tokens": len(tokens)}, open("expected.json", "w"))
import os
os.mkdir("gpt2")
word = lambda t: "".join(char[b] for b in t)
json.dump({**{word(t): i for i, t in enumerate(tokens)}, "<|endoftext|>": len(tokens)}, open("gpt2/vocab.json", "w"))
open("gpt2/merges.txt", "w").write("#version: 0.2\n" + "".join(f"{word(tokens[a])} {word(tokens[b])}\n" for a, b in merges))
def wrong(name, vocab=None, merges_text=None):
    os.mkdir(name)
    open(name + "/vocab.json", "w").write(vocab if vocab is not None else open("gpt2/vocab.json").read())
    open(name + "/merges.txt", "w").write(merges_text if merges_text is not None else open("gpt2/merges.txt").read())
whole = open("gpt2/vocab.json").read()
wrong("cut", whole[:200])
wrong("list", "[1]")
wrong("taken", '{"a": 0, "b": 0}')
wrong("far", '{"a": 5}')
wrong("bytes", '{"a": 0}', "")
wrong("foreign", json.dumps({"\u65e5": 0}))
wrong("deep", "[" * 5000)
wrong("one", None, "#version: 0.2\nh e\nhello\n")
wrong("unknown", None, "#version: 0.2\n\u0120 zzz\n")
wrong("twice", None, open("gpt2/merges.txt").read() + open("gpt2/merges.txt").read().split("\n")[1] + "\n")
os.mkdir("none")
P
run() { dlsh -n --db none --device cpu "$@" 2>&1; }
run -c 't = tokenizer("bpe", file="train.txt", vocab=330)
t
t.encode_file("train.txt").tolist() == t.encode(t.decode(t.encode_file("train.txt"))).tolist()
t.save("own");
g = read_tokenizer("gpt2")
g
r = read_tokenizer("own")
r
g.encode("a<|endoftext|>b").tolist()
g.decode([330])
same = true
for i in range(330) { same = same && r.token(i) == t.token(i) && (i < 256 || g.token(i) == t.token(i)) }
same'
for code in 't = tokenizer("bpe", file="train.txt", vocab=330)' 't = read_tokenizer("gpt2")' 't = read_tokenizer("own")'; do
    run --mode json -c "$code
t.encode_file(\"train.txt\").tolist()
t.encode_file(\"other.txt\").tolist()" > ids.json
    python3 -c '
import json
want = json.load(open("expected.json"))
got = [json.loads(line) for line in open("ids.json")]
print(got[0] == want["ids"], got[1] == want["other"])'
done
run -c 'c = tokenizer("chars", "hello wörld")
c
c.tokens
c.encode("low")
c.decode(c.encode("hör"))
len(c)
c.id("z")
c.save("chars");
read_tokenizer("chars").encode("old").tolist() == c.encode("old").tolist()
w = tokenizer("words", "The cat, the dog; the end. 3rd cat", special=["<unk>", "<pad>"], min_count=1)
w.tokens
w.encode("the bird, the <pad> cat")
w.decode(w.encode("the cat."))
w.save("words");
read_tokenizer("words").encode("no cat")
u = tokenizer("words", "a a a b b c", vocab=2)
u.tokens'
run -k -c 'tokenizer("bpe", "abc")
tokenizer("bpe", "abc", vocab=100)
tokenizer("byte", "abc")
tokenizer("chars")
tokenizer("chars", "abc", special=[1])
c = tokenizer("chars", "abc"); c.encode("abx")
c.decode([0, 3])
c.decode([-1])
c.decode(tensor([1.5]))
c.decode(["a"])
c.token(9)
tokenizer("chars", file="nothing.txt")'
for f in cut list taken far bytes foreign deep one unknown twice none missing gpt2/vocab.json; do run -c "read_tokenizer(\"$f\")"; done | grep -v '^    '

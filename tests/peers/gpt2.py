#!/usr/bin/python3
"""examples/gpt.dlsh with files as GPT-2's are published, against PyTorch.

    tests/peers/gpt2.py LIBDLCORE

A folder with config.json, model.safetensors (random weights, published names, Conv1D as [in, out]), vocab.json and merges.txt is
made here. The example, run by the dlsh beside the library, must give PyTorch's logits (1e-5 relative to the largest), with and
without its cache; PyTorch's tokens at temperature 0, also beyond the context; only tokens that top_k and top_p leave; and be
faster with the cache than without. Exit 77 (skipped) without PyTorch."""
import json
import pathlib
import subprocess
import sys
import tempfile

from published import GPT2, write_safetensors  # skips without PyTorch
import numpy as np
import torch

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/gpt.dlsh"
PROMPT, STORY = "the cat sat", "the cat sat on the mat, the rat sat on the cat's hat, that was that; " * 3

MORE = """
ids = load("ids.npy")
whole = m(ids).detach()
past = map(fn (b) { return {} }, m.h)
first, past = m(ids[:, :7], past)
parts = [first]
for i in range(7, ids.shape[1]) { next, past = m(ids[:, i:i + 1], past, i); parts.append(next) }
save record(whole=whole, cached=cat(parts, 1).detach(), tokens=generate(m, ids[:1, :3], tokens, context)) "out.npz"
"""
DRAW = 'save generate(m, t.encode(prompt)[none], 50, context) "ids.npy"'
SPEED = """
fn seconds(n) { start = time(); generate(m, t.encode(prompt)[none], n, context); return time() - start }
save tensor(min(map(seconds, [180, 180, 180]))) "seconds.npy"
"""


class Small(GPT2):
    C, HEADS, LAYERS, WORDS, PLACES = 32, 4, 3, 270, 64


def dlsh(binary, folder, text, *args):
    script = pathlib.Path(folder, "script.dlsh")
    script.write_text(text)
    done = subprocess.run([binary, "-n", "--db", "none", "--device", "cpu", script.name, *args], cwd=folder, text=True, errors="replace", capture_output=True)
    if done.returncode:
        raise SystemExit(f"dlsh failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def publish(binary, folder, net):
    """The files of a published GPT-2."""
    dlsh(binary, folder, f'tokenizer("bpe", {json.dumps(STORY)}, vocab={net.WORDS}).save("gpt2");')
    size = len(json.loads(pathlib.Path(folder, "gpt2/vocab.json").read_text()))
    assert size == net.WORDS, size
    config = {"vocab_size": net.WORDS, "n_positions": net.PLACES, "n_embd": net.C, "n_head": net.HEADS, "n_layer": net.LAYERS}
    pathlib.Path(folder, "gpt2/config.json").write_text(json.dumps({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", **config}))
    write_safetensors(pathlib.Path(folder, "gpt2/model.safetensors"), net.state_dict())
    pathlib.Path(folder, "gpt2/dlsh_tokenizer.json").unlink()  # the published folder has none


def greedy(net, ids, n):
    for _ in range(n):
        ids = torch.cat([ids, net(ids[:, -net.PLACES:])[:, -1].argmax(-1, keepdim=True)], 1)
    return ids


def allowed(net, ids, at, temperature, k, p):
    """The tokens that top-k and top-p leave at a place."""
    values, order = torch.sort(net(ids[None, :at])[0, -1] / temperature, descending=True)
    before = values[:k].softmax(-1).cumsum(-1) - values[:k].softmax(-1)
    return set(order[:k][before < p].tolist())


def check(binary, folder, net):
    text, ids = EXAMPLE.read_text(), torch.randint(0, net.WORDS, (2, 20))
    np.save(pathlib.Path(folder, "ids.npy"), ids.numpy())
    want = net(ids).numpy()
    for cache in "true", "false":
        dlsh(binary, folder, text + MORE, "gpt2=gpt2", "prompt=" + PROMPT, "tokens=80", "temperature=0.0", "cache=" + cache)
        with np.load(pathlib.Path(folder, "out.npz")) as out:
            for what in "whole", "cached":
                error = np.abs(out[what] - want).max() / np.abs(want).max()
                print(f"cache={cache}: logits {what}, largest error {error:.1e}")
                assert error < 1e-5
            tokens = greedy(net, ids[:1, :3], 80)  # 83 tokens in 64 places
            assert np.array_equal(out["tokens"], tokens.numpy()), (out["tokens"], tokens)
    options = {"temperature": 1.3, "top_k": 20, "top_p": 0.8}
    args = ["gpt2=gpt2", "prompt=" + PROMPT, "tokens=80", *(f"{k}={v}" for k, v in options.items())]
    said = [dlsh(binary, folder, text + DRAW, *args, "cache=" + c)
            for c in ("true", "false")]
    assert said[0] == said[1] and said[0].startswith(PROMPT), said
    drawn = torch.from_numpy(np.load(pathlib.Path(folder, "ids.npy"))[0])
    start = len(drawn) - 50
    sets = [allowed(net, drawn, at, *options.values()) for at in range(start, len(drawn))]
    assert all(t in s for t, s in zip(drawn[start:].tolist(), sets))
    print(f"drawn from {min(map(len, sets))} to {max(map(len, sets))} tokens")


def speed(binary, folder):
    class Longer(GPT2):
        C, HEADS, LAYERS, WORDS, PLACES = 64, 4, 4, 270, 256

    publish(binary, folder, Longer())
    seconds = []
    for cache in "true", "false":
        dlsh(binary, folder, EXAMPLE.read_text() + SPEED, "gpt2=gpt2", "prompt=" + PROMPT, "cache=" + cache)
        seconds.append(float(np.load(pathlib.Path(folder, "seconds.npy"))))
    print(f"180 tokens: {seconds[0]:.3f} s with the cache, {seconds[1]:.3f} s without")
    assert seconds[0] < 0.7 * seconds[1]


def main():
    binary = pathlib.Path(sys.argv[1]).resolve().parents[1] / "bin/dlsh"
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        net = Small().eval()
        publish(binary, folder, net)
        check(binary, folder, net)
        speed(binary, folder)


if __name__ == "__main__":
    main()

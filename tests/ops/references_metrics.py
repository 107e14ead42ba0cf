"""Metrics of scikit-learn that rows of the op table compute, as functions of PyTorch's tensors, for make_goldens.py."""
import torch


def class_score(of):
    """scikit-learn's score of classes from right, predicted and true counts, with zero_division=0."""
    def run(y, g, average="binary"):
        y, g = y.flatten(), g.flatten()
        n = int(max(y.max(), g.max())) + 1
        rows = [[float(((y == k) & (g == k)).sum()), float((g == k).sum()), float((y == k).sum())] for k in range(n)]
        if average == "micro":
            return torch.tensor(of(*map(sum, zip(*rows))), dtype=torch.float64)
        each = torch.tensor([of(*r) for r in rows], dtype=torch.float64)
        if average in ("none", "binary"):
            return each if average == "none" else each[1]
        w = torch.tensor([t if average == "weighted" else float(p + t > 0) for _, p, t in rows], dtype=torch.float64)
        return (each * w).sum() / w.sum()
    return run


def ratio(a, b):
    return a / b if b else 0.0


def roc_auc(y, s):
    pairs = s[y != 0][:, None], s[y == 0][None, :]
    return ((pairs[0] > pairs[1]).double() + (pairs[0] == pairs[1]).double() / 2).mean()


def average_precision(y, s):
    """By the definition: recall's steps at falling thresholds times precision."""
    y, s, total, before = y != 0, s.detach(), 0.0, 0.0
    for limit in sorted(set(s.tolist()), reverse=True):
        hits = float((y & (s >= limit)).sum())
        total += (hits / float(y.sum()) - before) * hits / float((s >= limit).sum())
        before = hits / float(y.sum())
    return torch.tensor(total, dtype=torch.float64)


def confusion(y, g, num_classes=None):
    n = num_classes or int(max(y.max(), g.max())) + 1
    return torch.bincount(y.flatten().long() * n + g.flatten().long(), minlength=n * n).reshape(n, n)


def curve_steps(y, s):
    """Examples of class 1 and of class 0 whose score is at least each score, from the highest."""
    y, s = (y != 0).flatten(), s.detach().double().flatten()
    limits = torch.tensor(sorted(set(s.tolist()), reverse=True), dtype=torch.float64)
    above = s[None, :] >= limits[:, None]
    return (above & y).sum(1).double(), (above & ~y).sum(1).double(), limits


def roc_curve(y, s, drop_intermediate=True):
    hits, misses, limits = curve_steps(y, s)
    if drop_intermediate:
        keep = [i for i in range(len(hits)) if i in (0, len(hits) - 1) or any(
            t[i] - t[i - 1] != t[i + 1] - t[i] for t in (hits, misses))]
        hits, misses, limits = hits[keep], misses[keep], limits[keep]
    zero = torch.zeros(1, dtype=torch.float64)
    return (torch.cat([zero, misses / misses[-1]]), torch.cat([zero, hits / hits[-1]]), torch.cat([zero + torch.inf, limits]))


def precision_recall_curve(y, s):
    hits, misses, limits = curve_steps(y, s)
    one = torch.ones(1, dtype=torch.float64)
    return (torch.cat([(hits / (hits + misses)).flip(0), one]), torch.cat([(hits / hits[-1]).flip(0), 0 * one]), limits.flip(0))


def log_loss(y, q, normalize=True):
    q = q.detach()
    q = torch.stack([1 - q, q], 1) if q.dim() == 1 else q
    loss = -(q / q.sum(1, keepdim=True)).gather(1, y.long()[:, None]).log()
    return loss.mean() if normalize else loss.sum()


def class_table(fn):
    def run(y, g, **kw):
        table = confusion(y, g).double()
        return fn(table, table.sum(1), table.sum(0), table.diagonal(), **kw)
    return run


def balanced(t, there, guessed, right, adjusted=False):
    recall = (right / there)[there > 0]
    chance = 1 / len(recall)
    return (recall.mean() - chance) / (1 - chance) if adjusted else recall.mean()


def matthews(t, there, guessed, right):
    n = t.sum()
    below = (n ** 2 - (guessed ** 2).sum()) * (n ** 2 - (there ** 2).sum())
    return (right.sum() * n - (there * guessed).sum()) / below.sqrt() if below else below


def numbers(fn):
    return lambda y, g: fn(y.detach().double(), g.detach().double())


def r2(y, g):
    y, g = y.detach().double(), g.detach()
    return (1 - ((y - g) ** 2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)).mean()

# Tables in terminals of several widths: no number is cut, what is left out shows an ellipsis, keys stand in every block.
python3 -c 'import pty; pty.openpty()' 2>/dev/null || { echo "skipped: no pseudo-terminals here (devpts is not mounted)"; exit 77; }
cat > runs.dlsh <<'END'
for i in range(12) {
    r = start_run(format("a run with a long name %d", i), learning_rate=0.1 * i, weight_decay_of_the_embedding=0.001 * i)
    r.log("train/loss", 1e33 / (i + 1)); r.log("train/loss", 0.123456 * i); r.log("test/acc", 0.5 + 0.04 * i)
    r.log("test/loss", 0.067454 + i, step=12345)
    r.end()
}
r = start_run("diverged"); r.log("train/loss", 2.3456e33); r.end()
for name in ["resnet18-with-a-schedule-of-the-rate-that-is-long", "b"] {
    seed 3
    r = start_run(name, seed=3, opt=name == "b" ? "adam" : "sgd(lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=true)")
    r.log("validation/loss_of_the_mean_of_the_weights", name == "b" ? 1 : 0.067454, step=19900000); r.end()
}
END
dlsh -n --db runs.db runs.dlsh
python3 fit.py

# Metrics of runs as curves: over step, time and epoch, smoothed, means of groups, two names against each other; in the
# terminal with braille dots and colours, in files by gnuplot.
cat > fill.dlsh <<'END2'
for i in range(6) {
    r = start_run(format("run-%d", i), lr=10.0 ** (i - 6), opt=["sgd", "adam"][i % 2])
    for s in range(40) { r.log("train/loss", (1 + i % 2) * exp(-s / 10.0) + 0.1 * i, step=s); r.log("epoch", s // 10, step=s) }
    r.log("val/loss", abs(i - 2.5), step=39)
    r.end()
}
END2
dlsh -n --db runs.db fill.dlsh
ask() { dlsh -n --db runs.db -k "$@" 2>&1; }
ask -c 'plot loss 1 2 x=epoch; plot x=lr y=min(val/loss) logx'
ask -c 'set colour on; plot loss by=opt smooth=0.5 logy' | cat -v | grep -c 'M-bM-.*^\[\[3[0-9]m'
ask --mode csv -c 'plot x=lr y=last(val/loss) where="opt = adam"'
ask --mode csv -c 'plot loss by=opt' | awk -F, 'NR > 1 { n[$2]++; if ($3 == 0) print $2, $3, $4 } END { for (k in n) print k, n[k] }' | sort
ask --mode csv -c 'plot loss where="id in (1, 3)" x=time' | awk -F, 'NR > 1 { n[$1]++; if ($3 < 0 || $3 > 100) print "time", $3 } END { for (k in n) print k, n[k] }' | sort
ask --mode csv -c 'plot loss 1 smooth=0.5' | sed -n 2,4p
ask -c 'plot loss by=opt out=groups.svg; plot x=lr y=val/loss logx out=dots.svg; plot loss 2 logx logy out=log.png'
grep -c "path" groups.svg | sed 's/[1-9][0-9]*/some/'
ask -c 'plot; plot loss x=nothing; plot x=lr y=nothing; plot loss by=nothing; plot loss smooth=1; plot loss where="id > 100"; plot x=opt y=loss'
# a trainer records its epochs; x= of another name is refused, and what is wrong in a condition is shown where it stands
cat > train.dlsh <<'END2'
d = dataset("digits", n=240, test=20)
net m { flatten -> linear 10 }
t = trainer(m, d, opt=sgd(lr=0.1), batch=2, name="trained")
train t epochs=2
END2
dlsh -q -n --db train.db train.dlsh >/dev/null
dlsh -n --db train.db --mode csv -c 'plot loss x=epoch' | awk -F, 'NR == 2 || NR == 61 || NR == 121 || NR == 241 { printf "%.4f ", $3 } END { print NR - 1 }'
dlsh -n --db train.db -c 'sql "select step, value from metrics where key = '"'epoch'"'"; plot test/loss x=time out=t.svg'
ask -c 'plot loss 1 x=lr; t = arange(3); plot loss x=t; runs where="started < \"2026-13-01\" and lr < 1"; runs where="opt ~~ ^a"; runs where="learning < 1"'
ask -c 'plot val/loss 2 x=epoch; r = start_run("plain"); r.log(loss=1); plot loss x=epoch'
ask -c 'for r in runs(where="id = 2") { print(r.params.lr * 2, r.params.opt, r.script, r.group) }'
ask -c 'r = start_run("huge"); r.log(loss=1e308, step=0); r.log(loss=-1e308, step=1); r.end(); plot loss last' | grep -c "1e+308"

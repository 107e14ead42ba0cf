# Runs and points out and in again: every format brings back what it holds, and nothing twice.
d() { db=$1; shift; dlsh -n --db "$db" -k -c "$*" 2>&1 | grep -v '^    '; }
cat > fill.dlsh <<'END'
r = start_run("a/b, \"run\"", lr=0.1, opt="sgd", note="a\nb"); for s in range(300) { r.log("train/loss", exp(-s / 100.0), step=s) }
r.log("odd", nan, step=1); r.log("odd", inf, step=50); r.end()
q = start_run("second", parent=r, width=3, experiment="e"); q.log(acc=0.5); q.end(); tag second good "k=v"
END
dlsh -n --db a.db fill.dlsh
d a.db 'export p.csv; export p.jsonl; export r.csv rows=runs; export r.jsonl rows=runs; export logs/; export m.db
export acc.csv where="acc > 0.1" rows=runs
export x.csv where="width > 9"; export x.parquet; export x.db rows=runs; export a.db; export x.csv rows=columns; export x.csv as=wandb
export p.csv as=jsonl; export logs/ as=csv; export named as=jsonl
export plain second
export x.html; export x.json'
head -1 named | cut -c1-30; cut -d, -f1-3 plain
for f in p.csv p.jsonl r.csv r.jsonl logs/ m.db a.db; do
    rm -f b.db*
    d b.db "import $f; import $f
import(\"$f\")
import r.csv p.csv logs m.db r.jsonl p.jsonl;
runs cols=experiment,status,lr,opt,width,parent,tag,n(train/loss),last(train/loss),last(odd) sort=id
db check" | sed 's|^/.*/||'
done
# all that the tables of runs hold, whichever way they went
for f in r.csv r.jsonl p.csv p.jsonl; do
    rm -f b.db*; case $f in r*) rows=runs;; *) rows=points;; esac
    d b.db "import $f; export again.csv rows=$rows; export again.jsonl rows=$rows;"; cmp ${f%%.*}.csv again.csv; cmp ${f%%.*}.jsonl again.jsonl
done
# other programs' files
mkdir -p wandb/run-20240101_120000-abc123/files
cat > wandb/run-20240101_120000-abc123/files/wandb-history.jsonl <<'END'
{"loss": 1.5, "acc": 0.1, "_step": 0, "_runtime": 1.2, "_timestamp": 1704110400.5, "layers": {"g": NaN}}
{"loss": 1.25, "_step": 1, "_timestamp": 1704110401.5, "note": "NaN said \"no\"", "layers": {"g": -Infinity}}
END
cat > panel.csv <<'END'
"Step","sunny - dawn - val/loss","sunny - dawn - val/loss__MIN","sunny - dawn - val/loss__MAX","rain-2 - val/loss"
"0","0.5","0.4","0.6",""
"10","0.25","0.2","0.3","0.75"
END
cat > wandb.csv <<'END'
"Name","State","Notes","User","Tags","Created","Runtime","Sweep","lr","layers","val_loss","acc/top1"
"sunny - dawn","finished","-","me","one, two","2024-01-01T12:00:00.000Z","60","","0.001","[8,16]","0.25","0.9"
"rain-2","crashed","","me","","2024-01-02T12:00:00.000Z","30","","0.01","[8]","0.75",""
END
printf 'Wall time,Step,Value\n1704110400.5,0,0.5\n1704110401.5,1,nan\n' > 'run-exp_a-tag-train_loss.csv'
printf '[[1704110400.5, 0, 0.5], [1704110401.5, 1, NaN], [1704110402.5, 2, Infinity]]' > 'run-exp_a-tag-val_loss.json'
printf 'epoch,acc,loss\n0,0.5,1.5\n1,0.75,1.25\n' > keras.csv
printf ',run_id,status,start_time,end_time,metrics.loss,params.lr,tags.mlflow.runName,tags.team\n0,0123456789abcdef0123456789abcdef,FINISHED,2024-01-01 12:00:00+00:00,2024-01-01 12:01:00+00:00,0.5,0.1,nice,red\n' > search.csv
rm -f b.db*; d b.db 'for i in range(2) { import wandb panel.csv wandb.csv run-exp_a-tag-train_loss.csv run-exp_a-tag-val_loss.json keras.csv search.csv }
runs cols=status,seconds,lr,layers,last(val/loss),last(val_loss),last(acc/top1),last(train_loss),n(val_loss),n(train/loss),tag sort=id
sql "select run, key, step, ts, value from metrics where run = 1"'
# what is wrong is said with its place, and nothing of such a file is taken over
printf 'run,key,step,value\n1,a,1,2\n1,a,x,2\n' > bad.csv
printf 'a,b\n1,2\n' > other.csv
printf '{"run": 1, "key": "a", "step": 1, "value": 2}\n{"run": 1\n' > bad.jsonl
printf 'uuid,status\n12,finished\n0123456789abcdef0123456789abcdee,lost\n' > status.csv
cp logs/1-*/events* torn.tfevents; dd if=/dev/urandom of=torn.tfevents bs=1 seek=100 count=4 conv=notrunc 2>/dev/null
head -c 1000 logs/1-*/events* > cut.tfevents; mkdir empty; : > empty.csv; : > x.parquet; echo words > words.db
rm -f b.db*; for f in bad.csv other.csv bad.jsonl status.csv torn.tfevents empty empty.csv x.parquet words.db numpy none.csv "m.db as=wandy" cut.tfevents; do d b.db "import $f"; done
d b.db 'runs cols=n(odd),n(train/loss)'
dlsh -n --db none -c 'import p.csv' 2>&1 | grep -v '^    '

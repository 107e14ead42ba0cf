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
# what its present program leaves: pieces of records in blocks; the last one of the second log is cut, as by a kill
python3 - <<'END'
import os, struct, zlib
def varint(n):
    out = b""
    while n > 127: out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])
def f(n, v): return varint(n << 3 | 2) + varint(len(v)) + v if isinstance(v, bytes) else varint(n << 3) + varint(v)
def item(key, text, nested=False): return b"".join(f(2, k.encode()) for k in key.split(".")) + f(16, text.encode()) if nested else f(1, key.encode()) + f(16, text.encode())
def log(path, *records):
    out = b":W&B\xe1\xbe\0"
    for r in records:
        at, first = 0, True
        while first or at < len(r):
            room = 32768 - len(out) % 32768
            if room < 7: out, room = out + bytes(room), 32768
            piece = r[at:at + room - 7]; at += len(piece)
            kind = bytes([(1 if first else 4) if at == len(r) else 2 if first else 3])
            out += struct.pack("<IH", zlib.crc32(kind + piece), len(piece)) + kind + piece; first = False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "wb").write(out)
def run(id): return f(17, f(1, id) + f(3, b"project") + f(4, f(1, item("lr", "0.125")) + f(1, item("deep", '{"a":1,"b":"x"}')) + f(1, item("_wandb", "{}")))
                        + f(8, b"offline") + f(9, b"a note") + f(10, b"blue") + f(13, b"host") + f(17, f(1, 1704110400)))
def history(i): return f(2, f(1, item("loss", "NaN" if i == 1 else str(1 / (i + 1)), True)) + f(1, item("a.b", "Infinity", True)) + f(1, item("table", '{"_type": "table"}', True))
                           + f(1, item("_timestamp", str(1704110400.5 + i), True)) + f(2, f(1, i) if i else b""))
end = f(3, f(1, item("best", "3"))) + f(3, f(1, item("loss", "9"))) + f(18, f(2, 60))
log("wandb2/offline-run-20240101_120000-xyz/run-xyz.wandb", f(21, b""), run(b"xyz"), f(13, f(3, b"x" * 100000)), *map(history, range(1000)), end)
log("wandb2/cut/run-cut.wandb", run(b"cut"), *map(history, range(20)))
os.truncate("wandb2/cut/run-cut.wandb", os.path.getsize("wandb2/cut/run-cut.wandb") - 3)
END
rm -f b.db*; d b.db 'import wandb2
import wandb2/cut/run-cut.wandb
runs cols=status,seconds,experiment,lr,deep.a,deep.b,tag,n(train/loss),last(a.b),last(best) sort=id
sql "select key, step, ts, value from metrics where run = 2 and step < 2 and key like '"'train%'"'"
sql "select note, host, started_us from run"'
printf '\1' | dd of=wandb2/cut/run-cut.wandb bs=1 seek=60 conv=notrunc 2>/dev/null
d b.db 'import wandb2/cut/run-cut.wandb'; cp r.csv run-x.wandb; d b.db 'import run-x.wandb'
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
# an exact start takes the place of the first point's, and the same in whole milliseconds adds nothing
printf 'run,key,step,ts,value,uuid\n1,a,0,2024-01-01T12:00:00.001339Z,1,0123456789abcdef0123456789abcdea\n' > first.csv
for t in 000530 000000; do printf '{"uuid":"0123456789abcdef0123456789abcdea","status":"finished","started":"2024-01-01T12:00:00.%sZ"}\n' $t > at-$t.jsonl; done
rm -f b.db*; d b.db 'import first.csv at-000530.jsonl at-000000.jsonl
sql "select started_us % 1000000 from run"'
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

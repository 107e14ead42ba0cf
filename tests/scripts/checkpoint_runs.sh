# A checkpoint belongs to one run of one store: its points after the checkpoint are withdrawn, whatever they count.
set -e
cat > common.dlsh <<'END'
seed 3
d = dataset("digits", n=256, test=64)
net m { flatten; linear 10 }
t = trainer(m, d, opt=sgd(lr=1e-1), batch=64, name="parts")
END
dlsh -n -q --db a.db -c 'read common.dlsh; train t epochs=1; t.log("mine", 1.0, step=1); checkpoint save t c.safetensors; train t epochs=2; t.log("mine", 2.0, step=2); t.log("mine", 3.0, step=3)' > /dev/null
points() { dlsh -n --db "$1" --mode csv -c 'sql "select r.id, r.name, s.key, s.n, s.last, s.last_step from run r join series s on s.run_id = r.id where s.key in ('"'mine', 'train/loss'"') order by 1, 3"' | sed -E 's/,[0-9.]+,([0-9]+)$/,\1/'; }
points a.db
dlsh -n -q --db a.db -c 'read common.dlsh; checkpoint resume t c.safetensors' 2>&1 | tail -1
points a.db
# in another store, where run 1 is another one, nothing of that one is touched
dlsh -n -q --db b.db -c 'read common.dlsh; train t epochs=2' > /dev/null
dlsh -n -q --db b.db -c 'read common.dlsh; checkpoint resume t c.safetensors; train t epochs=1' 2>&1 | sed -E 's/\([0-9a-f]{8}\)/(UUID)/; s/[0-9a-f]{8}-[0-9a-f-]{27}/UUID/' | grep -v epoch
points b.db
# a checkpoint of before the uuid: its run is a number
python3 - <<'END'
import json
data = open("c.safetensors", "rb").read()
n = int.from_bytes(data[:8], "little")
head = json.loads(data[8:8 + n])
state = json.loads(head["__metadata__"]["dlsh.trainer"])
state["run"] = 1
head["__metadata__"]["dlsh.trainer"] = json.dumps(state)
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open("old.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + data[8 + n:])
END
dlsh -n -q --db b.db -c 'read common.dlsh; checkpoint resume t old.safetensors; train t epochs=1' 2>&1 | grep -v epoch
points b.db

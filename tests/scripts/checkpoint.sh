# A training that is stopped and taken up again in another process ends as one that was not, in the same run.
set -e
cat > common.dlsh <<'END'
seed 3
d = dataset("digits", n=256, test=64)
net m { flatten; linear 24 -> batchnorm -> relu -> dropout 0.2; linear 10 }
t = trainer(m, d, opt=adam(lr=1e-2), batch=32, schedule=schedule("cosine", 40), name="long")
END
dlsh -n --db a.db -c 'read common.dlsh; train t steps=13; save m "whole-13.safetensors"; train t steps=11; save m "whole.safetensors"; eval t'
dlsh -n --db b.db -c 'read common.dlsh; train t steps=13; checkpoint save t c.safetensors; train t steps=3'
dlsh -n --db b.db -c 'read common.dlsh; seed 99; checkpoint resume t c.safetensors; train t steps=11; save m "part.safetensors"; eval t'
python3 - <<'END'
import json
def tensors(name):
    data = open(name, "rb").read()
    n = int.from_bytes(data[:8], "little")
    return data[8 + n:]
print(tensors("whole.safetensors") == tensors("part.safetensors"), tensors("whole.safetensors") == tensors("whole-13.safetensors"))
END
dlsh -n --db b.db --mode csv -c 'sql "select r.id, r.name, r.status, s.key, s.n, s.last_step from run r join series s on s.run_id = r.id where s.key = '"'train/loss'"'"'
# weights and arrays in files
dlsh -n --db none -c 'm = load("whole.safetensors"); m(zeros(2, 1, 28, 28)).shape; r = load("c.safetensors"); r["optim.exp_avg.linear0.bias"].shape'
dlsh -n --db none -c 'x = arange(6).reshape([2, 3]); save x x.npy; load("x.npy"); save x x.safetensors; load("x.safetensors")'
dlsh -n -k --db none -c 'load("missing.npy")
load("common.dlsh")
net m { linear 3 }
save m m.safetensors
load m "whole.safetensors"
load m
checkpoint resume m c.safetensors' || echo "status $?"

# A row for each layer, and one for each op; the trainer stays as it is.
cat > profile.dlsh <<'END'
seed 1
net m { conv 4 k=3 pad=1 -> batchnorm -> relu -> flatten -> dropout 0.1 -> linear 10 }
t = trainer(m, dataset("digits", n=64), opt=adam(lr=0.003), batch=16)
step t 2;
before = [norm(m.conv0.w).item(), norm(m.batchnorm0.running_mean).item(), t.step]
profile t steps=2
print(before == [norm(m.conv0.w).item(), norm(m.batchnorm0.running_mean).item(), t.step])
END
dlsh -n --db none --mode csv profile.dlsh | cut -d, -f1,2,9 | sort # ops are sorted by their times
dlsh -n --db none -c 't = trainer(net { linear 2 }, dataset("moons"), opt=sgd(lr=0.1)); profile t steps=0' || true

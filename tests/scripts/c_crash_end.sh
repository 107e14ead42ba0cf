# A crash outside of C that was called ends the process, which says so, and its run is kept.
ldd "$(command -v dlsh)" | grep -q 'lib[at]san' && exit 77
cat > train.dlsh <<'END'
extern "libm.so.6" double hypot(double x, double y);
hypot(3, 4);
net m { linear 4 -> linear 2 }
t = trainer(m, dataset("moons"), opt=sgd(lr=0.1), name="ended")
train t steps=20
print("trained")
while true { step t }
END
: > said
dlsh -n -q train.dlsh > said 2> errors & pid=$!
until grep -q trained said; do sleep 0.05; done
sleep 0.2
kill -SEGV $pid
{ wait $pid; } 2>/dev/null
echo "= $?"
sed 's/thread [0-9]*/thread N/; s/at address [0-9a-fx]*/at address A/; s/, in .*//' errors
cat > look.dlsh <<'END'
sql "select name, status from run"
sql "select count(*) >= 20 as kept from metrics where key = 'train/loss'"
END
dlsh -n look.dlsh

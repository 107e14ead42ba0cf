# A folder or a store that cannot be written stops no training: its runs are in a file of their own, which the session reads.
place=$(mktemp -d) && cd "$place" && mkdir tmp work && chmod 777 tmp && chmod 755 . || exit 1
trap 'chmod -R u+w "$place"; rm -rf "$place"' EXIT
export TMPDIR="$place/tmp"
# as somebody whom modes stop
[ "$(id -u)" != 0 ] || user="setpriv --reuid=65534 --regid=65534 --clear-groups"
cat >work/t.dlsh <<'X'
seed 1
d = dataset("digits", n=100, test=50)
net m { flatten -> linear 10 }
t = trainer(m, d, opt=sgd(lr=0.1), batch=50, name="trained")
train t epochs=2
r = start_run("by hand", lr=0.1); r.log(loss=1); r.end()
runs cols=lr
assert best("loss").name == "trained" || best("loss").name == "by hand"
X
shown() { sed "s|$place/||g; s|experiments-[0-9]*-[0-9a-f]*|experiments-N|g; s|[0-9.]* it/s.*||"; }
cd work && chmod 555 .
$user "$(command -v dlsh)" -n t.dlsh 2>&1 | shown
chmod 755 .
dlsh -n -c 'r = start_run("here", lr=0.2); r.end()'
# what was recorded elsewhere is put into the store
dlsh -n -c "db merge \"$(echo ../tmp/experiments-*.db)\"" | sed 's|[^ ]*/||'
dlsh -n -c 'runs cols=lr sort=id'
# a store that others own is only read
rm ../tmp/*
chmod 444 experiments.db && chmod 555 .
$user "$(command -v dlsh)" -n -c 'runs cols=lr sort=id
r = start_run("mine", lr=0.3); r.log(loss=0.5); r.end()
runs cols=lr' 2>&1 | shown
# nor is there another place: nothing is recorded, and one message says so
chmod 555 ../tmp
$user "$(command -v dlsh)" -n -c 'r = start_run("mine", lr=0.3); r.log(loss=0.5); r.end()
r = start_run("mine", lr=0.3); r.log(loss=0.5); r.end(); "went on"' 2>&1 | shown
chmod 755 . ../tmp

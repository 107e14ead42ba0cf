# Files that are kept with runs: equal contents once, written out again, freed with the run.
cat > t.dlsh <<'X'
write_text("a.txt", "hello")
write_text("b.txt", "hello")
write_text("c.txt", "other text")
r = start_run("one")
r.log(loss=1.0)
artifact r "a.txt"
artifact r "b.txt" kind="note"
artifact r "c.txt" name="again" link=true
r.log(loss=0.5)
artifact r "a.txt"
r.end()
artifacts last a.txt
artifacts last a.txt out="back.txt"
print(read_text("back.txt"), artifacts("last")[0].bytes, len(artifacts(1, "b.txt")))
seed 1
net m { flatten; linear 10 }
t = trainer(m, dataset("digits", n=32, test=0), batch=16)
X
dlsh -n --db a.db t.dlsh
in_store() { dlsh -n --db a.db -c "$1" 2>&1; }
for c in 'artifacts last nosuch out="x"' 'artifacts 1 again out="x"' 'artifacts 99' 'artifacts 1 "it'"'"'s"' \
    'r = start_run("x"); artifact r "absent"' 'r = start_run("x"); artifact r "/"' 'r = start_run("x"); r.end(); artifact r "a.txt"' \
    'artifact 3 "a.txt"' 'net m { linear 1 }; t = trainer(m, dataset(ones(4, 2), ones(4, 1)), loss="mse_loss"); artifact t "a.txt"'; do
    in_store "$c" | sed "s|$PWD|HERE|"
done
in_store 'net m { linear 1 }; t = trainer(m, dataset(ones(4, 2), ones(4, 1)), loss="mse_loss"); step t; artifact t "c.txt"'
in_store 'sql "select count(*) as kept, count(distinct sha) as contents from artifact where path is null and kind <> '"'"'script'"'"'"'
in_store 'run delete where="id > 0"' > /dev/null
dlsh -n --db a.db -c 'gc older=0s' > /dev/null 2>&1
in_store 'sql "select count(*) as blobs from blob"'
in_store 'db check' | sed 's/.*a.db/a.db/'

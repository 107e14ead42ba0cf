# CSV with words, dates, blanks, quotes and numbers in them: read as columns, written, read again.
set -e
cat > t.csv <<'END'
name,"age",height,born,seen,grade,"a ""b"", c"
"Ann, B.",31,1.5,2024-02-29,1970-01-02T00:00:01Z,A,"16777217"
Bob,"42",,1969-12-31,2000-01-01 12:30,,9007199254740993
"say ""hi""
there",7,2e-3,2000-03-01,,B,-1
END
printf '1;2\n3;x\n' > n.csv
printf 'a,a\n1,2\n' > twice.csv
printf 'a,b\n1,2\n3\n' > short.csv
printf 'a,b\n"1,2\n' > open.csv
printf 'a,b\n1,"2"x\n' > behind.csv
printf 'a\n2024-02-30\n2023-02-29\n' > dates.csv
: > empty.csv
cat > t.dlsh <<'END'
t = read_csv("t.csv")
print(keys(t))
print(t.name, t.grade)
print(t.age, t.height.dtype, t.height)
print(t.born, t.seen)
print(t["a \"b\", c"])
write_csv("u.csv", t)
u = read_csv("u.csv")
print(u.name == t.name, u.grade == t.grade, equal(u.age, t.age), equal(u.born, t.born), u.height)
c = categories(t.grade)
print(c)
print(read_csv("n.csv", sep=";"), read_csv("dates.csv"))
write_csv("w.csv", {x: tensor([0.1, 1e-30, 3.0], dtype=f64), i: [1, none, 3], s: ["", " a", "b;c"], b: tensor([true, false, true])}, sep=";")
w = read_csv("w.csv", sep=";")
print(w.x[0].item() == 0.1, w.i, w.s, w.b)
d = dataset({x: stack([t.age.float(), t.height.float()], 1), y: stack([t.born, t["a \"b\", c"]], 1)})
print(d.shape, d.train.y)
write_csv("one.csv", {v: [none, 1]})
print(read_csv("one.csv").v)
fn fails(f) { try { f() } catch e { print(e.message, "|", e.hint) } }
for f in ["twice", "short", "open", "behind", "empty", "nothing"] { fails(fn () { read_csv(f + ".csv") }) }
fails(fn () { read_csv("t.csv", sep="ab") })
fails(fn () { write_csv("v.csv", {a: [1], b: [1, 2]}) })
fails(fn () { write_csv("v.csv", {a: zeros(2, 2)}) })
fails(fn () { write_csv("v.csv", {a: [[1]]}) })
fails(fn () { categories([1]) })
END
dlsh -n --db none t.dlsh
cat u.csv w.csv one.csv

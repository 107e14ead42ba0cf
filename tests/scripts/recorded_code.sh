# A run keeps the scripts that its script reads, before and after it began, the changes of its work tree, and where it failed.
export HOME="$PWD" GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
command -v git > /dev/null || { echo "no git"; exit 77; }
ask() { dlsh -n --db "$PWD/runs.db" --mode csv -c "sql \"$1\""; }
mkdir tree parts; cd tree; git init -q .
printf 'one\ntwo\nthree\n' > text; printf '#!/bin/sh\n' > tool; printf 'a\0b' > data; ln -s text link; mkdir -p "a folder/b"; echo x > "a folder/b/c"; echo old > gone
git add -A; git commit -qm first; cd ..

echo 'width = 8' > parts/size.dlsh
echo 'read "parts/size.dlsh"
height = 2' > parts/sizes.dlsh
echo 'read "parts/sizes.dlsh"
r = start_run("outer", w=width)
read "late.dlsh"
read "parts/size.dlsh"
r.log(loss=1)
x = ones(2, 3) @ ones(height, 5)' > main.dlsh
echo 'depth = 3' > late.dlsh
dlsh -n --db runs.db main.dlsh 2> /dev/null; echo "status $?"
ask "select name, kind, bytes, cast(data as text) as text from artifact natural join blob where run_id = 1 order by name"
ask "select status, error from run"

cd tree
printf 'one\n2\nthree' > text; chmod +x tool; printf 'a\0c' > data; rm link; ln -s tool link; rm gone; echo "new" > 'ä "b"'; git add 'ä "b"'; mv "a folder/b/c" "a folder/d"; git add -A "a folder"
git rm -q --cached tool; git add tool
dlsh -n --db ../runs.db -c 'start_run("changed").end()'; git add -u
cd ..; python3 - <<'END2'
import gzip, sqlite3
(name, data), = sqlite3.connect("runs.db").execute("select name, data from artifact natural join blob where run_id = 2 and kind = 'diff'")
open("changes.diff", "wb").write(gzip.decompress(data))
print(name)
END2
git clone -q tree other; cd other; git apply --index ../changes.diff && [ "$(git write-tree)" = "$(cd ../tree; git write-tree)" ] && echo "the same tree"
dlsh -n --db ../runs.db -c 'start_run("the other").end()'; git add -u; git commit -qm second; dlsh -n --db ../runs.db -c 'start_run("clean").end()'; cd ..
ask "select run_id from artifact where kind = 'diff'"
ask "select count(distinct git_diff_sha) as states, count(distinct sha) as diffs, count(*) as rows from run left join artifact a on a.run_id = run.id and kind = 'diff' where git_diff_sha is not null"

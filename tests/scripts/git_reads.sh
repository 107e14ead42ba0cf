# A run records commit and changes of a work tree without running anything of it: filters, hooks, monitors, drivers of diffs.
export HOME="$PWD" GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
command -v git > /dev/null || { echo "no git"; exit 77; }
top=$PWD
look() {
    rm -f "$top"/look.db*
    dlsh -n --db "$top/look.db" --mode csv -c 'start_run("x").end(); sql "select git_commit, git_diff_sha from run"' | tail -1
}
# "clean" or "changed"; the commit must be git's own.
state() {
    got=$(look)
    [ "${got%%,*}" = "$(git rev-parse HEAD)" ] || echo "another commit: $got"
    [ -n "${got#*,}" ] && echo "$1: changed" || echo "$1: clean"
}
mkdir r; cd r; git init -q .
mkdir -p sub/deep; echo one > a.txt; echo two > sub/deep/b.txt; echo three > sub-c.txt; ln -s a.txt link
printf '#!/bin/sh\n' > tool; chmod +x tool; git add -A; git commit -qm first; sleep 0.01; git status > /dev/null
state "committed"
git gc -q; state "packed"
for i in 1 2 3 4; do git commit -q --allow-empty -m "message $i of several that share their text"; done; git gc -q --aggressive
state "deltas"
echo more >> a.txt; state "a line more"
one=$(look); git add a.txt; [ "$(look)" = "$one" ] && echo "staged: the same"
git reset -q --hard; state "reset"
chmod +x a.txt; state "mode"; chmod -x a.txt
echo new > new; state "untracked"; git add new; state "added"; git rm -qf new
rm -r sub; state "removed"; git checkout -q sub
ln -sf sub link; state "link"; git checkout -q link
rm a.txt; mkfifo a.txt; state "a FIFO"; rm a.txt; git checkout -q a.txt; state "as before"
git update-index --index-version 4; state "index of version 4"
git worktree add -q ../second; cd ../second; state "second work tree"; echo x >> a.txt; state "changed there"; cd ../r
cd sub/deep; state "below"; cd ../..

git worktree remove --force ../second; echo new > later; git add -N later; state "to be added"; git reset -q; rm later
git update-index --split-index; state "split index"; git update-index --no-split-index; state "whole index"
git -c protocol.file.allow=always submodule --quiet add "$PWD" part 2> /dev/null; git commit -qm part; state "submodule"
(cd part; git commit -q --allow-empty -m more); state "submodule moved"; git submodule --quiet update; state "submodule back"
truncate -s 40G large; git add -N large; begun=$(date +%s%N); state "large file"
[ $((($(date +%s%N) - begun) / 1000000)) -lt 2500 ] && echo "not read"; git reset -q; rm large
git config --unset core.fsmonitor 2> /dev/null

# everything that git would run says so
for key in filter.x.clean filter.x.smudge filter.x.process core.fsmonitor diff.x.textconv diff.x.command diff.external core.pager \
        core.editor core.askpass gpg.program core.sshCommand core.hooksPath; do git config $key "touch $top/ran-$key; cat"; done
git config --unset core.hooksPath
printf '#!/bin/sh\ntouch %s/ran-hook\n' "$top" > .git/hooks/post-index-change; chmod +x .git/hooks/post-index-change
printf '* filter=x diff=x\n' > .git/info/attributes; printf '[include]\n\tpath = ../evil\n' >> .git/config; printf '[core]\n\tfsmonitor = touch %s/ran-include\n' "$top" > evil
echo more >> a.txt
got=$(look); [ -n "${got#*,}" ] && echo "hostile: changed"
cd ..; ls -d ran-* 2> /dev/null

# damaged and hostile repositories
mkdir ring; cd ring; git init -q .; echo a > a; git add a; git commit -qm a; git gc -q
python3 - <<'END'
import hashlib, struct, zlib                         # four packs, each with a delta of itself under one name
name = bytes.fromhex("aa" * 20)
thing = bytes([7 << 4 | 4]) + name + zlib.compress(bytes([5, 5, 0x90, 5]))
for k in range(4):
    pack = b"PACK" + struct.pack(">II", 2, 1) + thing
    pack += hashlib.sha1(pack).digest()
    index = b"\377tOc\0\0\0\2" + b"".join(struct.pack(">I", i >= 0xaa) for i in range(256)) + name + struct.pack(">II", 0, 12) + pack[-20:]
    open(f".git/objects/pack/pack-{k}.pack", "wb").write(pack)
    open(f".git/objects/pack/pack-{k}.idx", "wb").write(index + hashlib.sha1(index).digest())
open(".git/refs/heads/master", "w").write("aa" * 20 + "\n")
END
rm -f .git/packed-refs; got=$(timeout 20 dlsh -n --db ../ring.db --mode csv -c 'start_run("x").end(); sql "select git_diff_sha from run"' | tail -1); echo "deltas of themselves: $got"
cd ..
cd r; head -c 100 .git/index > cut; cp cut .git/index; got=$(look); echo "cut index: ${got#*,}"
head -c 4000 /dev/zero > .git/index; got=$(look); echo "zeros: ${got#*,}"
rm .git/index; mkfifo .git/index; got=$(look); echo "FIFO as index: ${got#*,}"
rm .git/HEAD; mkfifo .git/HEAD; got=$(look); echo "FIFO as HEAD: $got"
rm .git/HEAD; printf 'ref: refs/heads/../../../../etc/passwd\n' > .git/HEAD; got=$(look); echo "HEAD outside: $got"
rm .git/HEAD; ln -s HEAD .git/HEAD; got=$(look); echo "HEAD in a circle: $got"
rm -r .git; echo "gitdir: /nonexistent" > .git; got=$(look); echo "no folder: $got"

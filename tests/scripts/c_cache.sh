# An entry of the cache of C is taken only when it is whole and the user's own; any other is compiled again and replaced.
command -v cc >/dev/null || exit 77
export XDG_CACHE_HOME=$PWD/cache
cat > cc.sh <<'END'
#!/bin/sh
echo called >> "$COUNT"
exec cc "$@"
END
chmod +x cc.sh
export COUNT=$PWD/count DLSH_CC=$PWD/cc.sh
cat > own.h <<'END'
static inline int twice(int n) { return 2 * n; }
END
try() {
    : > count
    dlsh -n --db none -c 'C { int triple(int n) { return 3 * n; } }
triple(4)
extern "libc.so.6" flags="-I." header "own.h";
twice(5)' 2>&1
    [ -s count ] && echo "compiled" || echo "kept"
}
each() { for f in cache/dlsh/c/*; do "$@" "$f"; done; }
cut_half() { truncate -s $(($(stat -c %s "$1") / 2)) "$1"; }
cut_end() { truncate -s -1 "$1"; }
empty() { : > "$1"; }
flip() { printf '\377' | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") / 3)) conv=notrunc 2>/dev/null; }
open_to_all() { chmod 666 "$1"; }
make_link() { mv "$1" "$1.real" && ln -s "$1.real" "$1"; }
stale() { touch -d '2 hours ago' "$1.part-1-0"; }
try
try
for damage in cut_half cut_end empty flip open_to_all make_link; do
    echo "$damage"
    each $damage
    rm -f cache/dlsh/c/*.real
    try
    try
done
echo "names exchanged"
set -- cache/dlsh/c/*.so
mv "$1" first && mv "$2" "$1" && mv first "$2"
try
try
echo "left behind"
each stale
echo 'int other;' >> own.h
try
ls cache/dlsh/c | grep -c part || :

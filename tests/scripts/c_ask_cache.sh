# What a compiler said of headers and prototypes is kept: a second session does not ask again, until a header changes.
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
#define LIMIT 7
int abs(int n);
END
try() {
    : > count
    dlsh -n --db none -c "$1" 2>&1
    [ -s count ] && echo "asked" || echo "not asked"
}
good='extern "libm.so.6" double hypot(double x, double y);
hypot(3, 4)'
wrong='extern "libm.so.6" float hypot(float x, float y);'
header='extern "libc.so.6" flags="-I." header "own.h";
LIMIT'
for twice in 1 2; do
    try "$good"
    try "$wrong"
    try "$header"
done
sed -i s/7/8/ own.h
touch -d '1 hour ago' own.h
try "$header"
try 'extern "libc.so.6" header <missing.h>;'
mkdir inc && echo '#define N 3' > inc/missing.h
try 'extern "libc.so.6" flags="-Iinc" header <missing.h>;
N'

#!/bin/sh
# run.sh CMAKE BUILD_DIR CC GENERATOR: installs into a prefix, moves the prefix, and builds and runs a program against it
# twice, found through pkg-config and through find_package. Runs the installed dlsh and reads its manual page, too.
set -eu
cmake=$1 build=$2 cc=$3 generator=$4
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

"$cmake" --install "$build" --prefix "$tmp/first" >/dev/null
mv "$tmp/first" "$tmp/moved"
prefix=$tmp/moved
libdir=$(dirname "$(find "$prefix" -name 'libdlcore.so')")

PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs dlcore)
# shellcheck disable=SC2086
"$cc" ${CFLAGS:-} -Wall -Werror "$here/use.c" -o "$tmp/use" $flags -Wl,-rpath,"$libdir"
"$tmp/use"

"$cmake" -G "$generator" -S "$here" -B "$tmp/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >/dev/null
"$cmake" --build "$tmp/build" >/dev/null
"$tmp/build/use"

# The same training in C, in Python through ctypes, and in dlsh: the same numbers, digit by digit.
examples=$here/../../examples
# shellcheck disable=SC2086
"$cc" ${CFLAGS:-} -Wall -Werror "$examples/c/train.c" -o "$tmp/train" $flags -Wl,-rpath,"$libdir"
EPOCHS=2 "$tmp/train" >"$tmp/c.txt"
grep -q 'epoch 2: loss 0\.' "$tmp/c.txt" || { echo "examples/c/train.c prints:"; cat "$tmp/c.txt"; exit 1; }
same() {
    cmp -s "$tmp/c.txt" "$tmp/$1.txt" || { echo "C and $1 train to different numbers:"; cat "$tmp/c.txt" "$tmp/$1.txt"; exit 1; }
}
if command -v python3 >/dev/null; then
    EPOCHS=2 DLCORE=$libdir/libdlcore.so python3 "$examples/python/train.py" >"$tmp/python.txt"
    same python
fi
if [ -x "$prefix/bin/dlsh" ]; then
    (cd "$tmp" && "$prefix/bin/dlsh" -n --db none "$examples/train.dlsh" epochs=2 >"$tmp/dlsh.txt")
    same dlsh
fi

if [ -x "$prefix/bin/dlsh" ]; then
    cd "$tmp"
    got=$("$prefix/bin/dlsh" -n --db none -c '1 + 1')
    [ "$got" = 2 ] || { echo "the installed dlsh prints '$got' for 1 + 1"; exit 1; }
fi
# What belongs to them is there, and the version in the library's name says as much as the package's: 0.1 is not 0.2.
doc=$prefix/share/doc/dlsh
for file in LICENSE README.md docs/index.md docs/history.md examples/python/share.py examples/c/train.c examples/train.dlsh; do
    [ -s "$doc/$file" ] || { echo "$file is not installed"; exit 1; }
done
version=$(pkg-config --modversion dlcore)
soname=$(readelf -d "$libdir/libdlcore.so" | sed -n 's/.*SONAME.*\[libdlcore\.so\.\(.*\)\]/\1/p')
case $version in
0.*) want=${version%.*} ;;
*) want=${version%%.*} ;;
esac
[ "$soname" = "$want" ] || { echo "version $version has the soname version $soname, not $want"; exit 1; }
if [ -x "$prefix/bin/dlsh" ]; then
    spec=$prefix/share/jupyter/kernels/dlsh/kernel.json
    python3 -c 'import json, sys; argv = json.load(open(sys.argv[1]))["argv"]; assert argv[0] == "dlsh", argv' "$spec"
    for file in kernel.js pygments/pygments_dlsh/__init__.py ../../labextensions/dlsh/dlsh-*.js; do
        grep -q '"maxpool"' "${spec%/*}"/$file || { echo "$file is installed without the names of layers"; exit 1; }
    done
fi

man=$(tr -d '\\' <"$prefix/share/man/man1/dlsh.1")
for option in $("$prefix/bin/dlsh" --help | sed -n 's/^  \(-[^ ,]*\).*/\1/p'); do
    printf %s "$man" | grep -q -e "$option" || { echo "the manual page does not know $option"; exit 1; }
done
echo "the installed library, dlsh and manual page work from a moved prefix"

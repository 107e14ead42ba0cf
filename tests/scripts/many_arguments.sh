# A script may declare many arguments, of long names; each is found, in a time that grows as their number does.
case $(ldd "$(command -v dlsh)") in
*lib[at]san*) ulimit -t 10 ;; # sanitizers take several times as long
*) ulimit -t 2 ;;             # seconds of a processor for each
esac
python3 - <<'END'
n = 8000
open("many.dlsh", "w").write("args " + " ".join(f"name_{i}={i}" for i in range(n)) + "\nprint name_0 name_99 name_7999\n")
open("twice.dlsh", "w").write("args " + " ".join(f"name_{i}={i}" for i in range(100)) + " name_5=1\n")
open("long.dlsh", "w").write("args " + "long_" * 30 + "name=1 other=2\nprint " + "long_" * 30 + "name other\n")
END
run() {
    dlsh --db none -n "$@" >said 2>&1
    echo "=> $?"
    grep -vE '^ +(args|\^)' said | cut -c 1-100 | sed 4q
}
long=$(printf 'long_%.0s' $(seq 30))
run many.dlsh
run many.dlsh name_99=many
run many.dlsh name_99=7 name_0=1 name_7999=2 name_0=3
run many.dlsh $(python3 -c 'print(*(f"name_{i}={i + 1}" for i in range(8000)))')
run many.dlsh something=1
run twice.dlsh
run long.dlsh ${long}name=5
run long.dlsh ${long}nam=5
run many.dlsh --help

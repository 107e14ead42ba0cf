# Texts of many names and arguments are read in a time that grows as they do, or refused by their number.
ulimit -t 20 # seconds of a processor for each
python3 - <<'END'
n = 60000
open("locals.dlsh", "w").write("fn f() {\n" + "".join(f"x{i} = {i}\n" for i in range(n)) + f"return x{n - 1}\n}}\nf()\n")
open("outer.dlsh", "w").write("fn f() {\n" + "".join(f"x{i} = {i}\n" for i in range(3000)) + "fn g() {\nreturn "
                              + " + ".join(f"x{i}" for i in range(900)) + "\n}\nreturn g()\n}\nf()\n")
open("params.dlsh", "w").write("fn f(" + ", ".join(f"a{i}" for i in range(n)) + ") { }\n")
open("words.dlsh", "w").write("print " + "1 " * n + "\n")
END
for name in locals outer params words; do
    dlsh -n --db none "$name.dlsh" > said 2>&1
    echo "status $?"
    sed 1q said
done

# The first 256 KiB of a compiler's output are read; the message says how much more there was.
export XDG_CACHE_HOME=$PWD/cache
python3 - <<'END'
n = 2000
warn = "int x{0}(int a) {{ if (a = {0}) return 1; return 0; }}\n"
def write(name, body):
    open(name, "w").write("C {\n" + body + "}\nprint(x7(7))\n")
write("few.dlsh", "".join(warn.format(i) for i in range(25)))
write("many.dlsh", "".join(warn.format(i) for i in range(n)))
write("late.dlsh", "".join(warn.format(i) for i in range(n)) + "int y = nothing;\n")
write("early.dlsh", "int y = nothing;\n" + "".join(f"int z{i} = no{i};\n" for i in range(n)))
END
for name in few many late early; do
    dlsh -n --db none $name.dlsh >said 2>&1
    echo "$name => $?"
    grep -c 'warning: C: ' said
    grep -vE '^ |suggest parentheses|^  hint: .*parenth' said | sed -E 's/[0-9]+ more/N more/; s/, and [0-9]+ KiB/, and N KiB/'
    sed -n '/hint: C flags=/p' said
done

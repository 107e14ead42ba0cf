# a graph for Graphviz; the place of the debugger is marked in it and in the text, forward and backward
cat > g.dlsh <<'END'
x = param(2.0)
k = tanh(x * 3) * x
graph k out="tape \".dot"
dbg k { next; graph k; graph k out=there.gv; finish; graph k; quit }
graph k
END
dlsh -n --db none g.dlsh
cat 'tape ".dot' there.gv
command -v dot > /dev/null && { dot -Tsvg there.gv > there.svg || echo "dot cannot read it"; }
rm -f there.svg

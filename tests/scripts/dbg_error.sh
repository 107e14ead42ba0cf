# break error: the session stands still where an error is raised; variables of each function, words, statements
cat > l.dlsh <<'END'
dbg { break error }
fn outer(x) {
    k = 3
    return inner(x, k)
}
fn inner(a, b) {
    w = ones(4, b)
    return a @ w
}
try { inner(ones(2, 2), 7) } catch e { print("caught") }
outer(ones(2, 3))
print("not reached")
END
printf 'a.shape\nvariables\nprint w.shape\nup\nk\nvariables\nnext\nnonsense\nw = ones(3, 3); w.shape\nup\nvariables\nup\ndown\n\nwhere\nbreak\nc\n' |
    dlsh -n --db none l.dlsh
echo "exit $?"
# all: also what a try takes; at the end of input it goes on; off
sed 's/break error/break error all/; $d' l.dlsh > all.dlsh
printf 'b\nquit\n' | dlsh -n --db none all.dlsh 2>/dev/null
sed 's/^try/dbg { break error off }\ntry/' l.dlsh > off.dlsh
dlsh -n --db none off.dlsh 2>/dev/null < /dev/null
# an error is not stopped at in what the prompt runs, and mistakes of the command are said
dlsh -n --db none -c 'try { dbg { break error twice } } catch e { print(e.message) }; try { dbg { up } } catch e { print(e.message) }
try { dbg { variables } } catch e { print(e.message) }; try { dbg { break } } catch e { print(e.message) }'

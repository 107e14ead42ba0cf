# What differs between two runs: parameters, arguments, lines of model and script; nothing where nothing does.
cat > a.dlsh <<'S'
args width=16 lr=0.1
seed 1
net m { linear width -> relu -> linear 2 }
r = start_run("a", net=m, opt="sgd")
r.end()
S
sed 's/-> relu/-> gelu/; s/^seed 1/seed 1\nx = 3/; s/"a"/"b"/' a.dlsh > b.dlsh
dlsh -n -q a.dlsh width=16
dlsh -n -q a.dlsh width=16
dlsh -n -q b.dlsh width=32
dlsh -n -q -c 'run diff 1 2'
dlsh -n -q -c 'run diff 2 3' | sed 's/ b*.dlsh [0-9a-f]*/ SCRIPT/; s/[0-9a-f]\{12\}/HASH/g; s/  */ /g; s/---*/--/g'
dlsh -n -q --mode json -c 'run diff 1 3' | grep -E '"(width|line [0-9]+)"'
dlsh -n -q -c 'try { run diff 1 } catch e { print(e.message) }; try { run diff 1 9 } catch e { print(e.message) }'

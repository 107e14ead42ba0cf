# Inside a control group of 160 MB: page cache is no use of it, and whatever takes too much ends in an error, in pieces
# of any size. Where no group can be made, the limits of a process take its place.
ldd "$(command -v dlsh)" | grep -q 'lib[at]san' && exit 77 # which keep freed memory and need more than the group has
name=dlsh-test-$$
for top in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    group=$top/$name
    limit=$group/memory.max
    [ $top = /sys/fs/cgroup ] || limit=$group/memory.limit_in_bytes
    mkdir $group 2>/dev/null && echo 167772160 2>/dev/null >$limit && break
    rmdir $group 2>/dev/null
    group=
done
[ -z "$group" ] || trap 'rmdir $group' EXIT
inside() {
    if [ -n "$group" ]; then
        sh -c "echo \$\$ >$group/cgroup.procs && exec \"\$@\"" sh "$@"
    else
        (ulimit -v 400000 && exec "$@")
    fi
}
# The message's figures depend on the machine.
run() {
    echo "\$ $1"
    inside dlsh -n --db none -c "$1" 2>&1 | grep -v -e '^  hint' -e '^    ' |
        sed 's/^<c>:.* asked for, .* MiB left.*held by tensors.*/error: too much/'
}
head -c 250000000 /dev/zero >cache
[ -z "$group" ] || inside cat cache >/dev/null
run 'print(sum(ones(20000, 1000)))'
rm cache
run 'xs = []; while true { append(xs, ones(1000, 1000)) }'
run 'xs = []; while true { append(xs, ones(100000)) }'
run 'xs = []; while true { append(xs, ones(10)) }'
run 'x = param(ones(10)); while true { x = x + 1 }'
run 'xs = []; while true { append(xs, 1) }'
run 'xs = []; while true { append(xs, "a" + str(len(xs))) }'
run 'xs = []; while true { append(xs, fn () { return 1 }) }'
run 's = "a"; while true { s = s + s }'
run 'xs = record(); i = 0; while true { xs["k" + str(i)] = i; i += 1 }'
run 'xs = []; try { while true { append(xs, ones(1000, 1000)) } } catch e { xs = [] }; print(sum(ones(20000, 1000)))'

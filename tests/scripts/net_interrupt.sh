# Ctrl-C ends a forward that runs for ever, in a call and where a trainer makes the weights, and says only that.
interrupt() {
    printf '%s\n' "$1" >endless.dlsh
    rm -f said
    dlsh -n --db none endless.dlsh >said 2>&1 &
    until grep -qs begun said; do sleep 0.05; done
    sleep 0.2
    kill -INT $!
    wait $!
    echo "status $?"
    sed 's/:[0-9:]* error/: error/' said # the place is that which runs just then
}
interrupt 'net m { a: linear 3; forward(x) { while len(x) { }; return a(x) } }
print("begun")
m(ones(2, 3))'
interrupt 'net m { a: linear 3; forward(x) { while len(x) { }; return a(x) } }
d = dataset("digits", n=20)
print("begun")
trainer(m, d)'

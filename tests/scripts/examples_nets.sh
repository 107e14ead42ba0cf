# The examples of nets with a forward and of loops by hand, at toy size: each ends, is recorded, and learns what it should.
# learns NAME COLUMN METRIC COMPARISON ARGUMENT...: last, min or max of a series of the only run.
learns() {
    name=$1 column=$2 metric=$3 bound=$4
    shift 4
    dlsh -n -q --db "$name.db" --device cpu "$EXAMPLES/$name.dlsh" "$@" >"$name.txt" || { echo "$name: status $?"; cat "$name.txt"; }
    dlsh -n -q --db "$name.db" -c "
        r = runs()
        assert len(r) == 1 && r[0].status == 'finished' && r[0].name == '$name'
        m = r[0].metrics['$metric']
        if !(m.$column $bound) { print('$name: $metric', m) }
        print('$name', m.n > 0)"
}
learns lstm last train/loss '< 0.2' steps=120 tokens=10
learns gpt last train/loss '< 2.4' steps=60 context=32 batch=8 tokens=10
learns unet last test/iou '> 0.4' n=160 test=32 epochs=4 width=6
learns vae last test/loss '< 300' n=1000 epochs=4 batch=64 hidden=64
learns dcgan last gap '< 0.7' n=1000 epochs=4 width=8
learns dqn max train/return '> 60' steps=1000
learns gcn last test/acc '> 0.8' nodes=600 steps=40
# the generated text continues the text that was learnt
grep -c '^the wheel\|^the ' gpt.txt lstm.txt
# with and without the cache the same tokens, beyond the context, too
for cache in true false; do
    dlsh -n -q --db none --device cpu "$EXAMPLES/gpt.dlsh" steps=5 context=16 tokens=40 top_k=9 top_p=0.9 temperature=1.5 cache=$cache | tail -1
done | sort -u | wc -l

# The examples, short: each runs to its end.
for f in mnist_mlp mnist_cnn mlp_resnet; do
    dlsh -n -q --db none --device cpu "$EXAMPLES/$f.dlsh" epochs=1 | grep -c '^{loss'
done
for n in 1 2 3; do
    OMP_NUM_THREADS=$n dlsh -n -q --db none "$EXAMPLES/resnet18.dlsh" steps=2 width=4 batch=16 | grep -c '^{loss'
done
dlsh -n -q --db none "$EXAMPLES/transformer.dlsh" steps=50 | grep -c "^step\\|^the wheel of the mill"
dlsh -n -q --db none "$EXAMPLES/fused_gelu.dlsh"

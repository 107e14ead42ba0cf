# The same on a GPU; 77: there is none.
dlsh -n -q --db none -c 'device cuda' 2>/dev/null || exit 77
for args in "lstm steps=30 tokens=10" "gpt steps=30 tokens=10" "unet n=96 test=32 epochs=2" "vae n=500 epochs=2" "dcgan n=500 epochs=1" \
    "dqn steps=200" "gcn nodes=600 steps=20"; do
    dlsh -n -q --db none --device cuda "$EXAMPLES/${args%% *}.dlsh" ${args#* } device=cuda >out.txt && echo "${args%% *}" || cat out.txt
done

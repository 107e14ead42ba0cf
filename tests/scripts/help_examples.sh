# The examples of help texts around autograd run as they stand, each with the variables below.
page="$EXAMPLES/../docs/commands.md"
cat > setup.dlsh <<'END'
set record off
seed 1
x = randn(16, 4); y = randint(0, 3, [16]); w = param(randn(4, 3)); g = randn(16, 3)
d = dataset("digits", n=96, test=32)
net m { conv0: conv 4 k=3 -> flatten -> linear: linear 10 }
t = trainer(m, d, opt=adam(lr=1e-3), batch=16, name="examples")
step t 2;
set record full
l = cross_entropy(relu(x @ w), y); backward l
l = cross_entropy(relu(x @ w), y); loss = l
END
for section in why xcheck whatif dbg rewind bisect undo hooks predict lesson layers doctor profile graph mistakes; do
    awk -v section="$section" '
        /^## / { on = $2 == section }
        on && /^```text/ { while ((getline line < "setup.dlsh") > 0) print line; close("setup.dlsh"); shown = 1; next }
        /^```/ { shown = 0 }
        on && shown { print }' "$page" > "$section.dlsh"
    dlsh -n -q -k --db none "$section.dlsh" </dev/null >out.txt 2>err.txt || { echo "$section:"; grep -A3 'error:' err.txt; }
    echo "$section: $(grep -c '^set record full$' "$section.dlsh") examples"
done

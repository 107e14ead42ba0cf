# What a step that evaluates a function refuses.
w='w = param(ones(3)); o = lbfgs([w]);'
for line in 'o.step()' 'o.step(3)' 'o.step(fn () { undefined_name })' 'o.step(fn () { return [1, 2] })' \
    'o.load_state(lbfgs([param(ones(2))]).state()); o.load_state(lbfgs([w, param(ones(2))]).state())' \
    'trainer(net { linear 2 }, dataset("digits"), opt=o, clip_norm=1)' 'lbfgs([w], max_iter=0)' 'lbfgs([w], line_search_fn="wolf")' \
    'o.group("*", lr=1)' 'lbfgs([w, param(ones(3).to(f64))]).step(fn () { return 1.0 })'; do
    dlsh -n --db none -c "$w $line"
done 2>&1 | grep -vE '^ +(\^|w =)'

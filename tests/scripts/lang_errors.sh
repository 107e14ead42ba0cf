# What goes wrong says where and how to mend it.
e() { dlsh -n --db none -c "$1" 2>&1; echo "= $?"; }
e 'x = 1 + y'
e 'lenght([1])'
e 'True'
e 'x = None'
e '[1, 2][2]'
e '[1, 2]["a"]'
e '"abc"[10]'
e 'record(a=1).b'
e 'record(alpha=1).alpah'
e '1 + "a"'
e '[1] + 1'
e 'none + 1'
e '1 < "a"'
e '-"a"'
e '5()'
e 'fn f(a, b=1) { return a }
f()'
e 'fn f(a, b=1) { return a }
f(1, 2, 3)'
e 'fn f(alpha) { return alpha }
f(alhpa=1)'
e 'fn f(a) { return a }
f(1, a=2)'
e 'fn f(a, b) { return a }
f(1)'
e 'fn f() { return y
  y = 1 }
f()'
e 'fn f(x) {
    return x @ x
}
f(zeros(2, 3))'
e 'fn f(n) { return f(n + 1) }
f(0)' | head -5
e 'a, b = [1, 2, 3]'
e 'a, b = [1]'
e 'for x in 5 { }'
e 'if zeros(2) { }'
e '7 // 0'
e '9223372036854775807 * 2'
e '2 ** 64'
e '1 << 63'
e 'int("4x")'
e 'int("99999999999999999999")'
e 'int(1e30)'
e 'format("%d", 1.5)'
e 'format("%d")'
e 'format("%d", 1, 2)'
e 'format("%y", 1)'
e '"{}: {:.2f}".format("a", 1.5)'
e 'format("{x} and %d", 1, 2)'
e 'net m { linear 2 }
m.load_state_dict({})'
e 'net m { linear 2 }
load(m, {a: 1})'
e 'net m { linear 2 }
r = {a: 1}
load m r'
e 'assert 1 == 2'
e 'error("my own", hint="my hint")'
e 'range(1, 2, 0)'
e 'sorted([1, "a"])'
e 'len(5)'
e 'max([])'
e '[].pop()'
e 'print(1, spe=2)'
e 'len()'
e 'len(1, 2)'
e 'zeros(2, dtpye=f64)'
e 'zeros(2, dtype=f65)'
e 'zeros("a")'
e 'zeros(2) + zeros(3)'
e 'x = zeros(2, 3); x[2]'
e 'x = zeros(2, 3); x[0, 0, 0]'
e 'x = zeros(2, 3); x[1.5]'
e 'x = zeros(2, 3); x[zeros(3) > 0]'
e 'x = zeros(2, 3); x[0] = zeros(4)'
e 'x = zeros(2, 3); x.shap'
e 'x = zeros(2, 3); x.shape = 3'
e 'tensor([[1, 2], [3]])'
e 'tensor(["a"])'
e 'x = param(zeros(2)); x[0] = 1'
e 'zeros(2, 3).reshape(4)'
e 'softmax(zeros(2))'
e 'cat([zeros(2), "a"])'
e 'zeros(2, 3).item()'
e 'backwards = 3; exit 300'
e 'x = 3 y = 4'
e 'print "a"'
e 'x = [1, 2'
e 'try { exit 3 } catch { print("no") }'

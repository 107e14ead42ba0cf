# Products and sums of sizes that do not fit in 64 bits are errors, and what is large only by being shown many times is
# shown, counted and refused at once. The free memory in messages is this machine's.
cat >sizes.dlsh <<'END'
x = ones(1).expand([3037000500, 3037000500]); print(x.shape)
x = ones(1).expand([3, 6148914691236517206]); x
x = ones(1).expand([1000000000000]); x
x = ones(1).expand([1000000000000]); stat x
x = ones(1).expand([1000000000000]); print(x.clone())
x = ones(1).expand([1000000000000]); hist x
x = ones(1).expand([1000000000000]); x.tolist()
x = ones(1).expand([1000000000000]); vars
x = ones(1).expand([1000000, 1000000]); x
x = ones(1).expand([1000000000000]); nonzero(x)
x = ones(1).expand([1000000000000]); x[x > 0]
x = ones(1).expand([1000000000000]); x + 1
ones(3037000500, 3037000500)
zeros(9223372036854775807)
zeros(4294967296, 4294967296, 4294967296)
eye(4294967296)
eye(3037000500)
arange(9223372036854775807)
arange(-9223372036854775807, 9223372036854775807, 9223372036854775807)
arange(-9223372036854775807, 9223372036854775807)
arange(0, 1e300, 1e-300)
linspace(0, 1, 9223372036854775807)
rand(9223372036854775807, 2)
randperm(9223372036854775807)
randint(0, 10, [4611686018427387904, 2])
ones(2).tile([9223372036854775807])
tile(ones(2), [4611686018427387904, 4])
pad(ones(2, 2), [9223372036854775807, 9223372036854775807])
pad(ones(2, 2), [-9223372036854775807, 0])
pad(ones(2, 2), [4611686018427387904, 4611686018427387904, 4611686018427387904, 4611686018427387904])
outer(ones(1).expand([4294967296]), ones(1).expand([4294967296]))
einsum("i,j->ij", ones(1).expand([4294967296]), ones(1).expand([4294967296]))
einsum("i,j,k->ijk", ones(1).expand([4294967296]), ones(1).expand([4294967296]), ones(1).expand([4294967296]))
ones(1).expand([4294967296, 1]) @ ones(1).expand([1, 4294967296])
ones(1).expand([4294967296, 1]) + ones(1).expand([1, 4294967296])
conv2d(ones(1, 1, 3, 3), ones(1, 1, 3, 3), padding=9223372036854775807)
conv2d(ones(1, 1, 3, 3), ones(1, 1, 3, 3), padding=4611686018427387904)
conv2d(ones(1, 1, 3, 3), ones(1, 1, 3, 3), dilation=9223372036854775807)
conv2d(ones(1, 1, 3, 3), ones(1, 1, 3, 3), dilation=4611686018427387905)
conv2d(ones(1, 1, 3, 3), ones(1, 1, 3, 3), stride=9223372036854775807)
conv2d(ones(1, 1, 3, 3), ones(1, 1, 3, 3), padding=2147483648)
conv_transpose2d(ones(1, 1, 3, 3), ones(1, 1, 3, 3), stride=9223372036854775807)
conv_transpose2d(ones(1, 1, 3, 3), ones(1, 1, 3, 3), stride=4611686018427387904)
conv_transpose2d(ones(1, 1, 3, 3), ones(1, 1, 3, 3), dilation=4611686018427387904)
conv_transpose2d(ones(1, 1, 3, 3), ones(1, 1, 3, 3), stride=3037000500, dilation=3037000500)
max_pool2d(ones(1, 1, 3, 3), 9223372036854775807)
max_pool2d(ones(1, 1, 3, 3), 2, stride=9223372036854775807)
max_pool2d(ones(1, 1, 3, 3), 2, dilation=9223372036854775807)
max_pool2d(ones(1, 1, 3, 3), 3, dilation=9223372036854775807)
avg_pool2d(ones(1, 1, 3, 3), 9223372036854775807)
avg_pool2d(ones(1, 1, 3, 3), 9223372036854775807, padding=4611686018427387903)
avg_pool2d(ones(1, 1, 3, 3), 2, stride=9223372036854775807, ceil_mode=true)
adaptive_avg_pool2d(ones(1, 1, 3, 3), [9223372036854775807, 9223372036854775807])
adaptive_avg_pool2d(ones(1, 1, 3, 3), [4294967296, 4294967296])
one_hot(tensor([1, 2]), 9223372036854775807)
one_hot(tensor([9223372036854775807]))
cat([ones(1).expand([9007199254740992]), ones(1).expand([9007199254740992])])
stack([ones(1).expand([9007199254740992]), ones(1).expand([9007199254740992])])
ones(4, 4).diagonal(-9223372036854775807 - 1)
ones(4, 4).diagonal(9223372036854775807)
tril(ones(4, 4), -9223372036854775807 - 1)
triu(ones(4, 4), 9223372036854775807)
roll(ones(4), -9223372036854775807 - 1)
roll(ones(4), 9223372036854775807)
ones(10)[9223372036854775807:]
ones(10)[-9223372036854775807 - 1:]
ones(10)[::9223372036854775807]
ones(10)[1::9223372036854775807]
ones(10)[9223372036854775807]
ones(10)[-9223372036854775807 - 1]
ones(4).reshape([4294967296, 4294967296, 0])
ones(0).reshape([4294967296, 4294967296, 0])
ones(0).reshape([0, 4294967296, 4294967296])
ones(0).expand([4294967296, 4294967296, 0])
ones(4).reshape([-1, 9223372036854775807])
ones(4).reshape([-9223372036854775807 - 1])
topk(ones(4), 9223372036854775807)
split(ones(4), 9223372036854775807)
chunk(ones(4), 9223372036854775807)
range(9223372036854775807)[9223372036854775806]
len(range(-9223372036854775807, 9223372036854775807))
x = list(range(9223372036854775807))
x = [1] * 9223372036854775807
x = [1, 2] * 4611686018427387904
x = "ab" * 9223372036854775807
x = "ab" * 4611686018427387905
x = 9223372036854775807 * "ab"
x = "a" * -5; x
x = [0] * 1000; for i in range(7) { x = [x] * 1000 }; tensor(x)
x = [0] * 65536; x = [x] * 65536; x = [x] * 65536; x = [x] * 65536; tensor(x)
tensor(range(9223372036854775807))
tensor(range(1000000000000))
format("%9223372036854775807d", 3)
format("%.2147483647f", 3.0)
format("%2147483647d", 3)
new("double[1152921504606846977]")
new("double[4611686018427387904][4]")
new("double[2305843009213693952]")
p = new("double[4]"); p[2305843009213693952]
p = new("double[4]"); p[-9223372036854775807 - 1]
net m { linear 9223372036854775807 }; m(ones(1, 3))
net m { linear 4611686018427387904 }; m(ones(1, 3))
net m { conv 4611686018427387904 k=3037000500 }; m(ones(1, 3, 8, 8))
net m { embedding 4611686018427387904 8 }; m(tensor([1]))
net m { embedding 4294967296 4294967296 }; m(tensor([1]))
net m { conv 8 k=3 pad=9223372036854775807 }; m(ones(1, 3, 8, 8))
dataset("moons", n=9223372036854775807)
dataset("moons", n=4611686018427387904)
ones(1).expand([9007199254740992])[4611686018427387904:]
sum(ones(1).expand([2, 4503599627370497]))
print([] * 9223372036854775807, len("" * 9223372036854775807), len([1] * -1))
END
timeout 60 dlsh -n -k --db none sizes.dlsh 2>&1 | grep -v -e '^    ' -e '^  hint' |
    sed -e 's/[0-9.]* MiB asked for, [0-9.]* MiB left.*held by tensors/too much memory asked for/' -e 's/^sizes.dlsh/-/'

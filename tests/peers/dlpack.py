#!/usr/bin/python3
"""Memory shared with NumPy and PyTorch through DLPack: every dtype, strides, ownership, refusals.

    tests/peers/dlpack.py LIBDLCORE

Uses the Tensor of examples/python/share.py. Exit 77 (skipped) without NumPy; PyTorch's part is left out without it."""
import ctypes as C
import gc
import os
import pathlib
import resource
import sys

try:
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}; Debian's python3-numpy has it")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

os.environ["DLCORE"] = sys.argv[1]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/python"))
import share  # noqa: E402
from share import Tensor, from_dlpack, lib  # noqa: E402

P = C.c_void_p
for name, result, arguments in [
        ("dl_tensor_from", P, [C.c_int, P, C.c_int, C.c_int, P]), ("dl_set_requires_grad", C.c_int, [P, C.c_int]),
        ("dl_permute", P, [P, P, C.c_int]), ("dl_detach", P, [P]), ("dl_read_f64", C.c_int, [P, P]),
        ("dl_dtype_of", C.c_int, [P]), ("dl_data", P, [P]), ("dl_numel", C.c_long, [P]), ("dl_mul", P, [P, P]),
        ("dl_expand", P, [P, P, C.c_int]), ("dl_stride", C.POINTER(C.c_long), [P]), ("dl_assign", C.c_int, [P, P])]:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments
VERSION = tuple(int(part) for part in np.__version__.split(".")[:2])
BOOL, U8, I32, I64, F16, BF16, F32, F64 = range(8)


def make(array, dtype):
    a = np.ascontiguousarray(array)
    shape = (C.c_long * max(a.ndim, 1))(*a.shape)
    return Tensor(lib.dl_tensor_from(a.ndim, shape, dtype, 0, a.ctypes.data_as(P)))


def read(t):
    out = np.zeros(lib.dl_numel(t.handle))
    assert lib.dl_read_f64(t.handle, out.ctypes.data_as(P)) == 0
    return out


def refused(call, text):
    try:
        call()
    except (RuntimeError, BufferError) as e:
        assert text in str(e), f"'{e}' lacks '{text}'"
    else:
        raise AssertionError(f"no error where '{text}' was expected")


def with_numpy():
    for dtype, np_type in [(U8, "u1"), (I32, "i4"), (I64, "i8"), (F16, "f2"), (F32, "f4"), (F64, "f8")]:
        a = (np.arange(12) * 3 % 11).astype(np_type).reshape(3, 4)
        t = make(a, dtype)
        b = np.from_dlpack(t)
        assert b.dtype == a.dtype and b.ctypes.data == lib.dl_data(t.handle) and (a == b).all()
        c = np.asarray(t)  # both can be written; NumPy before 2.1 takes lent memory as read-only by DLPack
        assert c.dtype == a.dtype and c.ctypes.data == b.ctypes.data and c.flags.writeable
        assert b.flags.writeable or VERSION < (2, 1)
        c[0, 1] = 9
        assert b[0, 1] == 9 and read(t)[1] == 9
        back = from_dlpack(a)
        assert lib.dl_dtype_of(back.handle) == dtype and lib.dl_data(back.handle) == a.ctypes.data
        a[1, 2] = 7  # seen by the tensor
        assert (read(back) == a.ravel()).all()
    t = make(np.arange(6, dtype=np.float32).reshape(2, 3), F32)
    turned = np.asarray(Tensor(lib.dl_permute(t.handle, (C.c_long * 2)(1, 0), 2)))
    assert turned.strides == (4, 12) and (turned == np.arange(6).reshape(2, 3).T).all()
    turned = np.from_dlpack(Tensor(lib.dl_permute(t.handle, (C.c_long * 2)(1, 0), 2)))
    assert turned.strides == (4, 12) and (turned == np.arange(6).reshape(2, 3).T).all()
    a = np.arange(24, dtype=np.float64).reshape(4, 6)
    view = from_dlpack(a[1:, ::2].T)
    assert (read(view) == a[1:, ::2].T.ravel()).all()
    assert (read(from_dlpack(np.zeros((0, 3), np.float32))) == []).all()
    assert read(from_dlpack(np.array(2.5))) == 2.5
    refused(lambda: from_dlpack(a[::-1]), "negative")
    refused(lambda: from_dlpack(np.zeros(2, np.int16)), "no counterpart")
    refused(lambda: from_dlpack(np.zeros((1,) * 9, np.float32)), "8 dimensions")
    needs = make(np.ones(2, np.float32), F32)
    assert lib.dl_set_requires_grad(needs.handle, 1) == 0
    refused(lambda: np.from_dlpack(needs), "needs a gradient")
    np.from_dlpack(Tensor(lib.dl_detach(needs.handle)))


def read_only():
    """NumPy lends what may only be read by DLPack's newer structure, or not at all."""
    a = np.arange(3, dtype=np.float32)
    a.flags.writeable = False
    if VERSION < (2, 1):
        return
    t = from_dlpack(a)
    assert not np.from_dlpack(t).flags.writeable
    refused(lambda: t.__dlpack__(), "may only be read")


def lifetimes():
    """Memory lives as long as either side uses it, and is given back once."""
    c = np.asarray(make(np.arange(4, dtype=np.float32), F32))
    gc.collect()
    assert (c == [0, 1, 2, 3]).all()
    t = make(np.arange(4, dtype=np.float32), F32)
    b = np.from_dlpack(t)
    del t
    gc.collect()
    assert (b == [0, 1, 2, 3]).all()
    a = np.arange(1000, dtype=np.float64)
    before = sys.getrefcount(a)
    t = from_dlpack(a)
    product = Tensor(lib.dl_mul(t.handle, t.handle))
    assert sys.getrefcount(a) == before + 1
    del t, product
    assert sys.getrefcount(a) == before
    make(np.zeros(3, np.float32), F32).__dlpack__()  # a capsule that is never used
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10000):
        from_dlpack(a), np.from_dlpack(make(a, F64))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held
    assert grown < 20000, f"{grown} KiB leaked by 10,000 loans of 8 kB each way"


def with_torch():
    for dtype, torch_type in [(U8, torch.uint8), (I32, torch.int32), (I64, torch.int64), (F16, torch.float16),
                              (BF16, torch.bfloat16), (F32, torch.float32), (F64, torch.float64)]:
        a = torch.arange(12).reshape(3, 4).to(torch_type)
        t = from_dlpack(a)
        assert lib.dl_dtype_of(t.handle) == dtype and lib.dl_data(t.handle) == a.data_ptr()
        b = torch.from_dlpack(t)
        assert b.dtype == torch_type and b.data_ptr() == a.data_ptr() and torch.equal(a, b)
        b[2, 3] = 5
        assert read(t)[11] == 5 and a[2, 3] == 5
    row = make(np.array([1, 2, 3], np.float32), F32)
    wide = Tensor(lib.dl_expand(row.handle, (C.c_long * 2)(4, 3), 2))
    assert torch.from_dlpack(wide).stride() == (0, 1)
    assert torch.equal(torch.from_dlpack(wide), torch.tensor([[1., 2., 3.]]).expand(4, 3))


with_numpy()
read_only()
lifetimes()
if torch:
    with_torch()
print("shared with NumPy" + (" and PyTorch" if torch else "; PyTorch is not here"))

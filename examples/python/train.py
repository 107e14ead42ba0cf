#!/usr/bin/env python3
"""Training with libdlcore from Python, through ctypes alone: the net, the seed and the numbers of examples/c/train.c.

    DLCORE=/path/to/libdlcore.so python3 train.py [FOLDER_WITH_MNIST]

The step is written out: batch, forward, loss, backward, update. Without a folder it trains on digits drawn by the library."""
import ctypes as C
import os
import sys

lib = C.CDLL(os.environ.get("DLCORE", "libdlcore.so.0.1"))
Object, Text, Long = C.c_void_p, C.c_char_p, C.c_long
TRAIN, TEST, F32, CPU = 0, 1, 6, 0


class LoaderSpec(C.Structure):
    _fields_ = [("batch", Long), ("shuffle", C.c_int), ("drop_last", C.c_int), ("seed", Object), ("transforms", Text),
                ("workers", C.c_int), ("prefetch", C.c_int), ("sampler", Object), ("collate", Object)]


class Error(Exception):
    pass


def checked(result, function, arguments):
    """A status must be 0, an object must not be NULL; else the library has recorded why."""
    if (result != 0) if function.restype is C.c_int else not result:
        raise Error(lib.dl_errmsg().decode())
    return result


lib.dl_errmsg.restype = Text
for name, result, arguments in [
        ("dl_dataset_open", Object, [Text, C.POINTER(Text)]), ("dl_net_parse", Object, [Text]),
        ("dl_optimizer_parse", Object, [Text]), ("dl_optimizer_add_module", C.c_int, [Object, Object]),
        ("dl_optimizer_step", C.c_int, [Object]), ("dl_module_forward", Object, [Object, Object]),
        ("dl_module_build", C.c_int, [Object, C.c_int, C.POINTER(Long), C.c_int, C.c_int]),
        ("dl_loader_new", Object, [Object, C.c_int, C.POINTER(LoaderSpec)]),
        ("dl_loader_next", C.c_int, [Object, C.POINTER(Object), C.POINTER(Object)]),
        ("dl_cross_entropy", Object, [Object, Object, Object, Text, Long, C.c_double]),
        ("dl_argmax", Object, [Object, C.POINTER(Long), C.c_int]), ("dl_eq", Object, [Object, Object]),
        ("dl_sum", Object, [Object, C.POINTER(Long), C.c_int, C.c_int]),
        ("dl_item_f", C.c_int, [Object, C.POINTER(C.c_double)]), ("dl_backward", C.c_int, [Object, Object, C.c_int, C.c_int])]:
    function = getattr(lib, name)
    function.restype, function.argtypes, function.errcheck = result, arguments, checked
for name, result, arguments in [
        ("dl_seed", None, [C.c_ulong]), ("dl_unref", None, [Object]), ("dl_module_train", None, [Object, C.c_int]),
        ("dl_optimizer_zero_grad", None, [Object]), ("dl_grad_mode", C.c_int, [C.c_int]), ("dl_loader_free", None, [Object]),
        ("dl_optimizer_unref", None, [Object]), ("dl_module_unref", None, [Object]), ("dl_dataset_unref", None, [Object]),
        ("dl_dataset_ndim", C.c_int, [Object]), ("dl_dataset_shape", C.POINTER(Long), [Object]),
        ("dl_shape", C.POINTER(Long), [Object])]:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments


def number(tensor):
    value = C.c_double()
    lib.dl_item_f(tensor, C.byref(value))
    lib.dl_unref(tensor)
    return value.value


def batches(loader):
    """The batches of one epoch. The loader ends an epoch with two NULLs."""
    while True:
        x, y = Object(), Object()
        lib.dl_loader_next(loader, C.byref(x), C.byref(y))
        if not x:
            return
        yield x, y
        lib.dl_unref(x)
        lib.dl_unref(y)


def loss_of(output, y):
    return lib.dl_cross_entropy(output, y, None, b"mean", -100, 0.0)


def train_epoch(net, opt, loader):
    for x, y in batches(loader):
        lib.dl_optimizer_zero_grad(opt)
        output = lib.dl_module_forward(net, x)
        loss = loss_of(output, y)
        lib.dl_backward(loss, None, 0, 0)
        lib.dl_optimizer_step(opt)
        lib.dl_unref(output)
        last = number(loss)
    return last


def evaluate(net, loader):
    lib.dl_module_train(net, 0)
    lib.dl_grad_mode(0)
    loss = correct = n = 0
    for x, y in batches(loader):
        count = lib.dl_shape(x)[0]
        output = lib.dl_module_forward(net, x)
        best = lib.dl_argmax(output, C.byref(Long(1)), 0)
        same = lib.dl_eq(best, y)
        loss += number(loss_of(output, y)) * count
        correct += number(lib.dl_sum(same, None, 0, 0))
        n += count
        for tensor in (same, best, output):
            lib.dl_unref(tensor)
    lib.dl_grad_mode(1)
    lib.dl_module_train(net, 1)
    return loss / n, correct / n


def main():
    net_text = os.environ.get("NET", "conv 16 k=3 pad=1 -> relu -> maxpool 2 -> flatten -> linear 10")
    lib.dl_seed(int(os.environ.get("SEED", 0)))
    options = (Text * 3)(b"path", sys.argv[1].encode(), None) if len(sys.argv) > 1 else None
    data = lib.dl_dataset_open(b"mnist" if options else b"digits", options)
    net = lib.dl_net_parse(net_text.encode())
    opt = lib.dl_optimizer_parse(os.environ.get("OPT", "adam lr=1e-3").encode())
    ndim = lib.dl_dataset_ndim(data)
    shape = (Long * (ndim + 1))(1, *lib.dl_dataset_shape(data)[:ndim])
    lib.dl_module_build(net, ndim + 1, shape, F32, CPU)
    lib.dl_optimizer_add_module(opt, net)
    train = lib.dl_loader_new(data, TRAIN, LoaderSpec(batch=64, shuffle=1))
    test = lib.dl_loader_new(data, TEST, LoaderSpec(batch=256))
    for epoch in range(1, int(os.environ.get("EPOCHS", 5)) + 1):
        loss = train_epoch(net, opt, train)
        test_loss, test_acc = evaluate(net, test)
        print(f"epoch {epoch}: loss {loss:.9g}, test loss {test_loss:.9g}, test accuracy {test_acc:.9g}")
    lib.dl_loader_free(train)
    lib.dl_loader_free(test)
    lib.dl_optimizer_unref(opt)
    lib.dl_module_unref(net)
    lib.dl_dataset_unref(data)


main()

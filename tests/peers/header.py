#!/usr/bin/python3
"""dlcore.h as other programs read it: by cffi as it is, by pycparser's parse_file, and both agree with the library.

    tests/peers/header.py LIBDLCORE        the header is that of its build tree

Exit 77 (skipped) without cffi or pycparser."""
import pathlib
import subprocess
import sys

try:
    import cffi
    import pycparser
    from pycparser import c_ast
except ImportError as e:
    print(f"skipped: {e}; Debian's python3-cffi and python3-pycparser have them")
    sys.exit(77)

HEADER = pathlib.Path(sys.argv[1]).resolve().parents[1] / "gen/include/dlcore.h"


def functions(tree):
    return {d.name for d in tree.ext if isinstance(d, c_ast.Decl) and isinstance(d.type, c_ast.FuncDecl)}


def exported():
    out = subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]], capture_output=True, text=True, check=True).stdout
    return {line.split()[2] for line in out.splitlines() if line.split()[1] == "T"}


def train(ffi, lib):
    """A net learns; structures and callbacks are cffi's own reading of the header."""
    lib.dl_seed(3)
    spec = ffi.new("dl_trainer_spec *")
    spec.data, spec.model, spec.opt = lib.dl_dataset_open(b"moons", ffi.NULL), lib.dl_net_parse(
        b"linear 16 -> tanh -> linear 2"), lib.dl_optimizer_parse(b"adam lr=0.05")
    losses = []

    @ffi.callback("dl_train_fn")
    def report(ctx, progress):
        losses.append(progress.loss)
        return 0

    t = lib.dl_trainer_new(spec)
    assert t, ffi.string(lib.dl_errmsg())
    assert lib.dl_trainer_train(t, 0, 60, report, ffi.NULL) == lib.DL_OK
    assert len(losses) == 60 and losses[-1] < losses[0] / 2, losses
    lib.dl_trainer_free(t)


tree = pycparser.parse_file(str(HEADER), use_cpp=True, cpp_args=["-w"])
declared = functions(tree)
ffi = cffi.FFI()
ffi.cdef(HEADER.read_text())
lib = ffi.dlopen(sys.argv[1])
assert declared == exported(), declared ^ exported()
for name in declared:
    getattr(lib, name)
numbers = cffi.FFI()
numbers.cdef((HEADER.parent / "dlcore_ops.h").read_text())
info = ffi.new("dl_op_info *")
for name in dir(numbers.dlopen(sys.argv[1])):
    if name.startswith("DL_OP_"):
        assert lib.dl_op_describe(getattr(numbers.dlopen(sys.argv[1]), name), info) and ffi.string(info.name).decode() == name[6:], name
assert lib.DL_F32 == 6 and ffi.sizeof("dl_error") == 4 + 2 * 48 + 512 + 3 * 256 + 3 * 4
train(ffi, lib)
print(f"cffi and pycparser read all {len(declared)} functions of dlcore.h")

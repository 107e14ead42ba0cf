#!/usr/bin/env python3
"""Memory shared between libdlcore, NumPy and PyTorch, through DLPack and ctypes.

    DLCORE=/path/to/libdlcore.so python3 share.py

Tensor(handle) has the methods by which numpy.from_dlpack and torch.from_dlpack find a tensor's memory; from_dlpack(array)
makes a Tensor in the memory of theirs."""
import ctypes as C
import os

lib = C.CDLL(os.environ.get("DLCORE", "libdlcore.so.0"))
Object = C.c_void_p
Destructor = C.PYFUNCTYPE(None, C.c_void_p)
for name, result, arguments in [
        ("dl_errmsg", C.c_char_p, []), ("dl_unref", None, [Object]), ("dl_touch", None, [Object]),
        ("dl_device_of", C.c_int, [Object]), ("dl_to_dlpack", Object, [Object]), ("dl_from_dlpack", Object, [Object])]:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments
python = C.pythonapi
python.PyCapsule_New.restype, python.PyCapsule_New.argtypes = C.py_object, [C.c_void_p, C.c_char_p, Destructor]
# capsules by address: one under destruction must not be referenced again
is_valid = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p)(("PyCapsule_IsValid", python))
pointer_of = C.PYFUNCTYPE(C.c_void_p, C.c_void_p, C.c_char_p)(("PyCapsule_GetPointer", python))
set_name = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p)(("PyCapsule_SetName", python))
NEW, USED = C.c_char_p(b"dltensor"), C.c_char_p(b"used_dltensor")  # a capsule keeps the address of its name


class Managed(C.Structure):
    """The head of DLManagedTensor, as far as it is used here."""
    _fields_ = [("data", C.c_void_p), ("device_type", C.c_int32), ("device_id", C.c_int32), ("ndim", C.c_int32),
                ("dtype", C.c_int32), ("shape", C.c_void_p), ("strides", C.c_void_p), ("offset", C.c_uint64),
                ("context", C.c_void_p), ("deleter", C.CFUNCTYPE(None, C.c_void_p))]


@Destructor
def release(capsule):
    """A capsule that nobody took anything out of still owns the structure."""
    if is_valid(capsule, NEW):
        structure = pointer_of(capsule, NEW)
        Managed.from_address(structure).deleter(structure)


class Tensor:
    """Owns one reference to a tensor of the library."""

    def __init__(self, handle):
        if not handle:
            raise RuntimeError(lib.dl_errmsg().decode())
        self.handle = handle

    def __del__(self):
        if getattr(self, "handle", None):
            lib.dl_unref(self.handle)

    def __dlpack_device__(self):
        device = lib.dl_device_of(self.handle)
        return (2, device - 1) if device else (1, 0)

    def __dlpack__(self, stream=None):
        structure = lib.dl_to_dlpack(self.handle)
        if not structure:
            raise BufferError(lib.dl_errmsg().decode())
        return python.PyCapsule_New(structure, NEW, release)


def from_dlpack(array):
    capsule = array.__dlpack__()
    structure = pointer_of(id(capsule), NEW)
    tensor = Tensor(lib.dl_from_dlpack(structure))
    set_name(id(capsule), USED)
    return tensor


def main():
    import numpy as np
    lib.dl_exp.restype, lib.dl_exp.argtypes = Object, [Object]
    a = np.linspace(0, 1, 5, dtype=np.float32)
    t = from_dlpack(a)  # the library's tensor, in NumPy's memory
    a[0] = 2
    lib.dl_touch(t.handle)
    b = np.from_dlpack(Tensor(lib.dl_exp(t.handle)))  # NumPy's array, in the library's memory
    print("exp of", a, "is", b, "- and NumPy's is", np.exp(a))


if __name__ == "__main__":
    main()

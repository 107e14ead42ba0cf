#!/usr/bin/env python3
"""Memory shared between libdlcore, NumPy and PyTorch, through DLPack and ctypes.

    DLCORE=/path/to/libdlcore.so python3 share.py

Tensor(handle) has the methods by which numpy.from_dlpack and torch.from_dlpack find a tensor's memory; from_dlpack(array)
makes a Tensor in the memory of theirs. NumPy before 2.1 knows only DLPack's old structure, which cannot say that memory may
be written, and then makes arrays that cannot be: numpy.asarray(Tensor) takes the memory by NumPy's own protocol instead."""
import ctypes as C
import os

lib = C.CDLL(os.environ.get("DLCORE", "libdlcore.so.0.1"))
Object = C.c_void_p
Destructor = C.PYFUNCTYPE(None, C.c_void_p)
for name, result, arguments in [
        ("dl_errmsg", C.c_char_p, []), ("dl_unref", None, [Object]), ("dl_touch", None, [Object]),
        ("dl_device_of", C.c_int, [Object]), ("dl_to_dlpack", Object, [Object]), ("dl_from_dlpack", Object, [Object]),
        ("dl_to_dlpack_versioned", Object, [Object, C.c_int]), ("dl_from_dlpack_versioned", Object, [Object])]:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments
python = C.pythonapi
python.PyCapsule_New.restype, python.PyCapsule_New.argtypes = C.py_object, [C.c_void_p, C.c_char_p, Destructor]
# capsules by address: one under destruction must not be referenced again
is_valid = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p)(("PyCapsule_IsValid", python))
pointer_of = C.PYFUNCTYPE(C.c_void_p, C.c_void_p, C.c_char_p)(("PyCapsule_GetPointer", python))
set_name = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p)(("PyCapsule_SetName", python))


class Managed(C.Structure):
    """DLManagedTensor as far as it is used here."""
    _fields_ = [("data", C.c_void_p), ("device_type", C.c_int32), ("device_id", C.c_int32), ("ndim", C.c_int32),
                ("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16), ("shape", C.POINTER(C.c_int64)),
                ("strides", C.POINTER(C.c_int64)), ("offset", C.c_uint64), ("context", C.c_void_p),
                ("deleter", C.CFUNCTYPE(None, C.c_void_p))]


class Versioned(C.Structure):
    """The head of DLManagedTensorVersioned."""
    _fields_ = [("major", C.c_uint32), ("minor", C.c_uint32), ("context", C.c_void_p),
                ("deleter", C.CFUNCTYPE(None, C.c_void_p)), ("flags", C.c_uint64)]


READ_ONLY = 1  # a bit of Versioned.flags
NUMPY_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}  # by DLPack's type codes
# a capsule keeps the address of its name
NEW, USED = C.c_char_p(b"dltensor"), C.c_char_p(b"used_dltensor")
NEW_VERSIONED, USED_VERSIONED = C.c_char_p(b"dltensor_versioned"), C.c_char_p(b"used_dltensor_versioned")


@Destructor
def release(capsule):
    """A capsule that nobody took anything out of still owns the structure."""
    for name, form in (NEW, Managed), (NEW_VERSIONED, Versioned):
        if is_valid(capsule, name):
            structure = pointer_of(capsule, name)
            form.from_address(structure).deleter(structure)


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

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy:
            raise BufferError("memory is lent, not copied")
        if dl_device and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("the tensor is on another device")
        versioned = max_version and max_version[0] >= 1
        structure = lib.dl_to_dlpack_versioned(self.handle, 0) if versioned else lib.dl_to_dlpack(self.handle)
        if not structure:
            raise BufferError(lib.dl_errmsg().decode())
        return python.PyCapsule_New(structure, NEW_VERSIONED if versioned else NEW, release)

    @property
    def __array_interface__(self):
        """The memory by NumPy's own protocol, version 3."""
        capsule = self.__dlpack__()
        d = Managed.from_address(pointer_of(id(capsule), NEW))
        if d.device_type != 1 or d.code not in NUMPY_KINDS:
            raise AttributeError("NumPy has no such memory")
        size = d.bits // 8
        return {"version": 3, "typestr": f"{'<' if size > 1 else '|'}{NUMPY_KINDS[d.code]}{size}",
                "shape": tuple(d.shape[:d.ndim]), "strides": tuple(s * size for s in d.strides[:d.ndim]),
                "data": ((d.data or 0) + d.offset, False)}


def from_dlpack(array):
    """Memory that may only be read stays so."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before version 1
        capsule = array.__dlpack__()
    versioned = is_valid(id(capsule), NEW_VERSIONED)
    structure = pointer_of(id(capsule), NEW_VERSIONED if versioned else NEW)
    tensor = Tensor(lib.dl_from_dlpack_versioned(structure) if versioned else lib.dl_from_dlpack(structure))
    set_name(id(capsule), USED_VERSIONED if versioned else USED)
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
    c = np.asarray(Tensor(lib.dl_exp(t.handle)))  # through NumPy's own protocol, writable with every version of NumPy
    c *= 2
    print("twice that is", c)


if __name__ == "__main__":
    main()

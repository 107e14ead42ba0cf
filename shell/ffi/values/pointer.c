/* Pointers as values, with index and fields, which print what they point to. Memory that is not the shell's own is
 * accessed through the kernel, so that a wild pointer is an error and not a crash. */
#define _GNU_SOURCE /* process_vm_readv */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ffi/inside.h"

/* ---------------------------------------------------------------- careful access */

/* 1: copied, 0: the memory is not there. Where the kernel does not offer the call, it is copied directly. */
static int through_kernel(void *local, void *remote, size_t n, int write) {
    struct iovec a = {local, n}, b = {remote, n};
    ssize_t got = write ? process_vm_writev(getpid(), &a, 1, &b, 1, 0) : process_vm_readv(getpid(), &a, 1, &b, 1, 0);
    if (got == (ssize_t)n) return 1;
    if (got >= 0 || errno == EFAULT) return 0;
    memcpy(write ? remote : local, write ? local : remote, n);
    return 1;
}

int dlsh_c_read_memory(const void *from, void *to, size_t n) { return !n || through_kernel(to, (void *)from, n, 0); }
int dlsh_c_write_memory(void *to, const void *from, size_t n) { return !n || through_kernel((void *)from, to, n, 1); }

size_t dlsh_c_strlen(const char *s, size_t most) {
    char piece[256];
    for (size_t n = 0; n < most;) {
        size_t page = 4096 - (size_t)(s + n) % 4096, take = page < sizeof piece ? page : sizeof piece;
        if (take > most - n) take = most - n;
        if (!dlsh_c_read_memory(s + n, piece, take)) return n;
        size_t here = strnlen(piece, take);
        n += here;
        if (here < take) return n;
    }
    return most;
}

/* ---------------------------------------------------------------- memory of our own */

/* A value that must live as long as a pointer is stored at this address. */
typedef struct kept {
    const char *at;
    dlsh_value v;
} kept;

typedef struct memory {
    void *p;
    long n; /* bytes; -1: not known */
    void (*release)(void *);
    dlsh_clib *lib; /* of release */
    kept *keeps;
    int nkeeps, capkeeps;
} memory;

static void memory_values(void *self, const dlsh_visitor *to) {
    const memory *m = self;
    for (int i = 0; i < m->nkeeps; i++) to->value(m->keeps[i].v, to->ctx);
}

static void memory_empty(void *self) {
    memory *m = self;
    while (m->nkeeps) dlsh_drop(m->keeps[--m->nkeeps].v);
}

static void memory_free(void *self) {
    memory *m = self;
    memory_empty(m);
    free(m->keeps);
    m->release(m->p);
    dlsh_clib_drop(m->lib);
    free(m);
}

static const dlsh_class memory_class = {.name = "memory",
                                        .doc = "Memory behind pointers.",
                                        .destroy = memory_free,
                                        .values = memory_values,
                                        .empty = memory_empty};

dlsh_value dlsh_c_owner(void *p, long n, void (*release)(void *), dlsh_clib *lib) {
    memory *m = dl_memory_alloc(1, sizeof *m);
    if (!m) {
        release(p);
        return dlsh_void();
    }
    *m = (memory){.p = p, .n = n, .release = release, .lib = dlsh_clib_ref(lib)};
    return dlsh_new_handle(&memory_class, m);
}

long dlsh_c_extent(dlsh_value owner, const char *at) {
    const memory *m = dlsh_unwrap(owner, &memory_class);
    const dl_tensor *x = owner.type == DLSH_TENSOR ? owner.as.tensor : NULL;
    const char *from = m ? m->p : x ? dl_data(x) : owner.type == DLSH_STR ? owner.as.str->s : NULL;
    long n = m                          ? m->n
             : x && dl_is_contiguous(x) ? dl_numel(x) * dl_dtype_size(dl_dtype_of(x))
             : owner.type == DLSH_STR   ? (long)owner.as.str->len + 1
                                        : -1;
    return from && n >= 0 && at >= from && at <= from + n ? from + n - at : -1;
}

/* The memory that dlsh_c_store_in stores to, for dlsh_c_keep. */
static _Thread_local struct {
    memory *m;
    const char *at;
} keeper;

int dlsh_c_keep(dlsh_value v) {
    memory *m = keeper.m;
    const dlsh_cpointer *p = dlsh_unwrap(v, &dlsh_cpointer_class);
    const dlsh_cstruct *x = dlsh_unwrap(v, &dlsh_cstruct_class);
    dlsh_value owner = p ? p->owner : x ? x->owner : v;
    if (!m) return 0;
    if (!dlsh_counted(owner) || dlsh_unwrap(owner, &memory_class) == m) return 1; /* C's, or its own */
    kept *keeps = dlsh_grow(m->keeps, m->nkeeps, &m->capkeeps, sizeof *keeps);
    if (!keeps) return 0;
    m->keeps = keeps;
    keeps[m->nkeeps++] = (kept){keeper.at, dlsh_ref(v)};
    return 1;
}

dl_status dlsh_c_store_in(dlsh_session *s, const dlsh_ctype *t, dlsh_value v, dlsh_value owner, const char *at,
                          void *to) {
    memory *m = dlsh_unwrap(owner, &memory_class);
    size_t n = dlsh_c_size(t);
    int before = m ? m->nkeeps : 0, left = 0;
    if (!m) return dlsh_c_store(s, t, v, to); /* a part of what is being stored, or C's memory */
    keeper.m = m;
    keeper.at = at;
    dl_status st = dlsh_c_store(s, t, v, to);
    keeper.m = NULL;
    /* drops what the overwritten pointers needed; after a failure, what was added */
    for (int i = 0; i < m->nkeeps; i++) {
        const kept *k = &m->keeps[i];
        int drop = st ? i >= before : i < before && k->at >= at && k->at < at + n;
        if (drop)
            dlsh_drop(k->v);
        else
            m->keeps[left++] = *k;
    }
    m->nkeeps = left;
    return st;
}

/* Writing through a pointer into a tensor obeys the rules of in-place ops. */
dl_status dlsh_c_may_write(dlsh_value owner) {
    if (owner.type == DLSH_STR)
        return dlsh_fail(DL_ERR_VALUE, "new(\"char[]\", s) is memory that can be written",
                         "this pointer is into a string, and strings cannot be changed");
    if (owner.type != DLSH_TENSOR) return DL_OK;
    if (dl_is_readonly(owner.as.tensor))
        return dlsh_fail(DL_ERR_VALUE, "x.clone() can be written",
                         "C may write there, and the tensor's memory is read-only");
    if (dl_tensor_saved(owner.as.tensor))
        return dlsh_fail(DL_ERR_AUTOGRAD, "use x.clone(), or write after backward",
                         "C may write there, and autograd has saved this tensor for a gradient");
    return DL_OK;
}

dlsh_value dlsh_c_new_memory(dlsh_session *s, const dlsh_ctype *of, long n, long more, char **addr) {
    size_t size = dlsh_c_size(of);
    if (n < 0 || (size && (size_t)n > ((size_t)1 << 40) / size)) {
        dlsh_fail(DL_ERR_VALUE, NULL, "memory for %ld elements of %s", n, dlsh_c_name(of));
        return dlsh_void();
    }
    size_t bytes = (size_t)n * size + (size_t)more;
    void *p = dl_memory_alloc((long)bytes, 1);
    if (!p) return dlsh_void();
    memset(p, 0, bytes);
    dlsh_value owner = dlsh_c_owner(p, (long)bytes, free, NULL);
    if (dlsh_failed(owner)) return owner;
    if (addr) *addr = p;
    return dlsh_c_pointer_value(s, dlsh_c_pointer(dlsh_c_space(s), of), p, owner, n);
}

/* ---------------------------------------------------------------- the value */

dlsh_value dlsh_c_pointer_value(dlsh_session *s, const dlsh_ctype *t, void *addr, dlsh_value owner, long n) {
    dlsh_cpointer *p = t ? dl_memory_alloc(1, sizeof *p) : NULL;
    if (!p) {
        dlsh_drop(owner);
        return dlsh_void();
    }
    *p = (dlsh_cpointer){.s = s, .type = t, .addr = addr, .n = n, .owner = owner};
    return dlsh_new_handle(&dlsh_cpointer_class, p);
}

static void pointer_free(void *self) {
    dlsh_cpointer *p = self;
    dlsh_drop(p->owner);
    free(p);
}

static int pointer_equal(const void *a, const void *b) {
    return ((const dlsh_cpointer *)a)->addr == ((const dlsh_cpointer *)b)->addr;
}

static int pointer_truth(void *self) { return ((dlsh_cpointer *)self)->addr != NULL; }

/* The address and size of the element at an index, after all checks. */
static dl_status element(const dlsh_cpointer *p, dlsh_value key, char **at, size_t *size) {
    const dlsh_ctype *t = p->type->base;
    if (key.type != DLSH_INT)
        return dlsh_fail(DL_ERR_TYPE, NULL, "a pointer is indexed by an int, got %s", dlsh_a(key));
    long i = key.as.i;
    *size = dlsh_c_size(t);
    if (!p->addr)
        return dlsh_fail(DL_ERR_VALUE, NULL,
                         p->freed ? "the memory behind this %s was released with free"
                                  : "a NULL pointer (%s) has no elements",
                         dlsh_c_name(p->type));
    if (t->kind == DLSH_C_VOID || t->kind == DLSH_C_FUNCTION || !*size)
        return dlsh_fail(DL_ERR_TYPE,
                         t->kind == DLSH_C_VOID ? "say what it points to: cast(\"double *\", p)"
                                                : "its definition was not declared",
                         "what a %s points to has no known size", dlsh_c_name(p->type));
    if (p->n == 0 && dlsh_c_extent(p->owner, p->addr) > 0)
        return dlsh_fail(DL_ERR_INDEX, NULL, "the %ld bytes there are too few for a %s",
                         dlsh_c_extent(p->owner, p->addr), dlsh_c_name(t));
    if (p->n >= 0 && (i < 0 || i >= p->n))
        return dlsh_fail(DL_ERR_INDEX, NULL, "index %ld is outside the %ld element%s of this %s", i, p->n,
                         p->n == 1 ? "" : "s", dlsh_c_name(p->type));
    long far;
    if (__builtin_mul_overflow(i, (long)*size, &far))
        return dlsh_fail(DL_ERR_INDEX, NULL, "index %ld is beyond all memory", i);
    *at = (char *)((unsigned long)p->addr + (unsigned long)far); /* a wild one is told when it is used */
    return DL_OK;
}

dl_status dlsh_c_unreadable(const void *at) {
    return dlsh_fail(DL_ERR_VALUE, "the pointer is wild, or what it pointed to is gone",
                     "there is no memory at address %p", at);
}

/* Elements of an array at an address; a flexible one extends to the end of the memory. -1: not known. */
static long array_length(const dlsh_ctype *t, const char *at, dlsh_value owner) {
    long bytes = t->n < 0 ? dlsh_c_extent(owner, at) : -1, size = (long)dlsh_c_size(t->base);
    return bytes < 0 || !size ? t->n : bytes / size;
}

/* The value at an address; a struct is a view, through which it can be written. */
static dl_status read_place(dlsh_session *s, const dlsh_ctype *t, char *at, dlsh_value owner, dlsh_value *out) {
    char copy[64];
    if (dlsh_c_is_struct(t)) return dlsh_give(dlsh_c_struct_view(s, t, at, dlsh_ref(owner)), out);
    if (t->kind == DLSH_C_ARRAY)
        return dlsh_give(dlsh_c_pointer_value(s, dlsh_c_pointer(dlsh_c_space(s), t->base), at, dlsh_ref(owner),
                                              array_length(t, at, owner)),
                         out);
    size_t n = dlsh_c_size(t);
    if (n > sizeof copy) return dlsh_fail(DL_ERR_TYPE, NULL, "%s is not a value of the language", dlsh_c_name(t));
    if (!dlsh_failed(owner)) return dlsh_c_load(s, t, at, out);
    if (!dlsh_c_read_memory(at, copy, n)) return dlsh_c_unreadable(at);
    return dlsh_c_load(s, t, copy, out);
}

static dl_status write_place(dlsh_session *s, const dlsh_ctype *t, char *at, dlsh_value owner, dlsh_value v) {
    char small[512];
    if (t->kind == DLSH_C_ARRAY && t->n < 0) {
        long length = array_length(t, at, owner);
        if (length < 0)
            return dlsh_fail(DL_ERR_TYPE, "set its elements one by one", "the length of %s is not known here",
                             dlsh_c_name(t));
        if (!(t = dlsh_c_array(dlsh_c_space(s), t->base, length))) return DL_ERR_MEMORY;
    }
    size_t n = dlsh_c_size(t);
    if (t->is_const || (t->kind == DLSH_C_ARRAY && t->base->is_const))
        return dlsh_fail(DL_ERR_TYPE, "cast(\"T *\", p) takes the const away", "%s cannot be changed", dlsh_c_name(t));
    DLSH_TRY(dlsh_c_may_write(owner));
    char *copy = n > sizeof small ? malloc(n) : small;
    if (!copy) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for %s", dlsh_c_name(t));
    dl_status st = dlsh_c_store_in(s, t, v, owner, at, copy);
    if (!st && owner.type == DLSH_TENSOR) dl_touch(owner.as.tensor);
    if (!st && !dlsh_failed(owner))
        memcpy(at, copy, n);
    else if (!st && !dlsh_c_write_memory(at, copy, n))
        st = dlsh_c_unreadable(at);
    if (copy != small) free(copy);
    return st;
}

static dl_status pointer_index(dlsh_session *s, void *self, dlsh_value key, dlsh_value *out) {
    dlsh_cpointer *p = self;
    char *at = NULL;
    size_t size;
    DLSH_TRY(element(p, key, &at, &size));
    return read_place(s, p->type->base, at, p->owner, out);
}

static dl_status pointer_set_index(dlsh_session *s, void *self, dlsh_value key, dlsh_value v) {
    dlsh_cpointer *p = self;
    char *at = NULL;
    size_t size;
    DLSH_TRY(element(p, key, &at, &size));
    return write_place(s, p->type->base, at, p->owner, v);
}

static dl_status pointer_len(void *self, long *out) {
    dlsh_cpointer *p = self;
    if (p->n < 0)
        return dlsh_fail(DL_ERR_TYPE, "C pointers do not know their length", "the length behind this %s is not known",
                         dlsh_c_name(p->type));
    *out = p->n;
    return DL_OK;
}

dl_status dlsh_c_pointer_list(dlsh_cpointer *p, long n, dlsh_value *out) {
    dlsh_value list = dlsh_new_list(n), v;
    dl_status st = dlsh_failed(list) ? DL_ERR_MEMORY : DL_OK;
    for (long i = 0; i < n && !st; i++)
        if (!(st = pointer_index(p->s, p, dlsh_int(i), &v))) st = dlsh_list_push(list.as.list, v);
    return dlsh_give_filled(st, list, out);
}

static dl_status pointer_iterate(DLSH_UNUSED dlsh_session *s, void *self, dlsh_value *out) {
    long n = 0;
    DLSH_TRY(pointer_len(self, &n));
    return dlsh_c_pointer_list(self, n, out);
}

/* ---------------------------------------------------------------- fields of what it points to */

dl_status dlsh_c_no_layout(const dlsh_ctype *t) {
    return dlsh_fail(DL_ERR_UNSUPPORTED, "import the header that defines it", "the layout of %s is not known",
                     dlsh_c_name(t));
}

/* The field and its address in a struct at *at. DL_ERR_NAME, unrecorded, when there is none. */
static dl_status find_field(const dlsh_ctype *t, const char *name, const dlsh_cfield **f, char **at) {
    size_t offset;
    if (!(*f = dlsh_c_field(t, name, &offset))) return DL_ERR_NAME;
    if (!t->plain->laid_out) return dlsh_c_no_layout(t);
    *at += offset;
    return DL_OK;
}

static size_t bit_field_bytes(const dlsh_cfield *f) { return (size_t)(f->bit_at + f->bits + 7) / 8; }

dl_status dlsh_c_get_field(dlsh_session *s, const dlsh_ctype *t, char *at, dlsh_value owner, const char *name,
                           dlsh_value *out) {
    const dlsh_cfield *f;
    unsigned long unit = 0;
    DLSH_TRY(find_field(t, name, &f, &at));
    if (!f->bits) return read_place(s, f->type, at, owner, out);
    if (!dlsh_c_read_memory(at, &unit, bit_field_bytes(f))) return dlsh_c_unreadable(at);
    long v = (long)(unit << (64 - f->bit_at - f->bits));
    v = dlsh_c_is_unsigned(f->type) ? (long)((unsigned long)v >> (64 - f->bits)) : v >> (64 - f->bits);
    *out = f->type->plain->kind == DLSH_C_BOOL ? dlsh_bool(v != 0) : dlsh_int(v);
    return DL_OK;
}

dl_status dlsh_c_set_field(dlsh_session *s, const dlsh_ctype *t, char *at, dlsh_value owner, const char *name,
                           dlsh_value v) {
    const dlsh_cfield *f;
    unsigned long unit = 0;
    DLSH_TRY(find_field(t, name, &f, &at));
    if (t->is_const) return dlsh_fail(DL_ERR_TYPE, NULL, "a %s cannot be changed", dlsh_c_name(t));
    if (!f->bits) return write_place(s, f->type, at, owner, v);
    if (v.type == DLSH_BOOL) v.type = DLSH_INT;
    long low = dlsh_c_is_unsigned(f->type) ? 0 : -(1L << (f->bits - 1));
    long high = low ? -low - 1 : f->bits > 62 ? __LONG_MAX__ : (1L << f->bits) - 1;
    if (v.type != DLSH_INT || v.as.i < low || v.as.i > high)
        return dlsh_fail(DL_ERR_VALUE, NULL, "field '%s' takes ints from %ld to %ld", name, low, high);
    if (!dlsh_c_read_memory(at, &unit, bit_field_bytes(f))) return dlsh_c_unreadable(at);
    unsigned long mask = (f->bits == 64 ? ~0ul : (1ul << f->bits) - 1) << f->bit_at;
    unit = (unit & ~mask) | ((unsigned long)v.as.i << f->bit_at & mask);
    return dlsh_c_write_memory(at, &unit, bit_field_bytes(f)) ? DL_OK : dlsh_c_unreadable(at);
}

/* Fails for a field that the struct lacks, or whose struct is not declared. The names of methods are left to the
 * caller. */
static dl_status no_field(const dlsh_ctype *t, const char *name) {
    const dlsh_command *m = dlsh_cpointer_class.methods;
    if (!dlsh_c_is_struct(t)) return DL_ERR_NAME;
    for (; m && m->name; m++)
        if (!strcmp(m->name, name)) return DL_ERR_NAME;
    if (t->plain->complete) return dlsh_c_no_field(t, name);
    return dlsh_fail(DL_ERR_TYPE, "declare the struct with its fields, or import the header that does",
                     "the fields of %s are not known", dlsh_c_name(t));
}

static dl_status pointer_call(dlsh_session *s, void *self, DLSH_UNUSED const dlsh_callargs *args,
                              DLSH_UNUSED dlsh_value *out) {
    const dlsh_cpointer *p = self;
    (void)s;
    return dlsh_fail(DL_ERR_TYPE, p->addr ? "cast(\"int (*)(int)\", p) makes a function of it" : NULL,
                     p->addr ? "a %s cannot be called" : "this %s is NULL: there is no function to call",
                     dlsh_c_name(p->type));
}

/* The struct that the pointer points to, when it has this field. */
static dl_status struct_with_field(const dlsh_cpointer *p, const char *name, char **at) {
    size_t size, offset;
    if (!dlsh_c_field(p->type->base, name, &offset)) return no_field(p->type->base, name);
    return element(p, dlsh_int(0), at, &size);
}

static dl_status pointer_get(void *self, const char *name, dlsh_value *out) {
    dlsh_cpointer *p = self;
    char *at = NULL;
    DLSH_TRY(struct_with_field(p, name, &at));
    return dlsh_c_get_field(p->s, p->type->base, at, p->owner, name, out);
}

static dl_status pointer_set(void *self, const char *name, dlsh_value v) {
    dlsh_cpointer *p = self;
    char *at = NULL;
    DLSH_TRY(struct_with_field(p, name, &at));
    return dlsh_c_set_field(p->s, p->type->base, at, p->owner, name, v);
}

static dl_status pointer_names(void *self, dlsh_value *out) {
    return dlsh_c_field_names(((dlsh_cpointer *)self)->type->base, out);
}

/* ---------------------------------------------------------------- text */

/* The characters up to the NUL, at most 60. */
static void string_preview(dlsh_buf *b, const dlsh_cpointer *p) {
    enum { MOST = 60 };
    char s[MOST + 1];
    size_t n = dlsh_c_strlen(p->addr, p->n >= 0 && p->n < MOST ? (size_t)p->n : MOST);
    if (!dlsh_c_read_memory(p->addr, s, n ? n : p->n != 0)) {
        dlsh_buf_puts(b, ", not readable");
        return;
    }
    dlsh_buf_puts(b, " ");
    dlsh_buf_quote(b, s, n);
    if (n == MOST) dlsh_buf_puts(b, "...");
}

static void element_preview(dlsh_buf *b, const dlsh_cpointer *p) {
    enum { MOST = 8, MOST_FIELDS = 20 };
    const dlsh_ctype *t = p->type->base;
    long n = p->n < 0 ? 1 : p->n;
    size_t size = dlsh_c_size(t);
    char copy[512];
    if (!size || t->kind == DLSH_C_OPAQUE || size > sizeof copy) return;
    if (dlsh_c_is_struct(t) && !t->plain->laid_out) return;
    for (long i = 0; i < n && i < MOST; i++) {
        if (!dlsh_c_read_memory(p->addr + i * (long)size, copy, size)) {
            dlsh_buf_puts(b, ", not readable");
            return;
        }
        dlsh_buf_puts(b, i ? ", " : p->n < 0 ? " -> " : " [");
        DLSH_DROPPED dlsh_value v = dlsh_void();
        if (dlsh_c_is_struct(t) && t->plain->n > MOST_FIELDS)
            dlsh_buf_printf(b, "{%ld fields}", t->plain->n); /* a FILE tells nobody anything */
        else if (dlsh_c_is_struct(t))
            dlsh_c_struct_text(b, t, copy);
        else if (t->kind == DLSH_C_POINTER)
            dlsh_c_address_text(b, t, *(char **)copy);
        else if (!dlsh_c_load(p->s, t, copy, &v))
            dlsh_repr(b, v);
        else
            dl_error_clear();
    }
    if (p->n >= 0) dlsh_buf_puts(b, n > MOST ? ", ...]" : "]");
}

static dl_status pointer_text(void *self, dlsh_buf *b) {
    const dlsh_cpointer *p = self;
    const dlsh_ctype *t = p->type->base;
    if (!p->addr) {
        dlsh_buf_puts(b, p->freed ? "(released)" : "NULL");
        return DL_OK;
    }
    dlsh_buf_printf(b, "(%s) %p", dlsh_c_name(p->type), (void *)p->addr);
    if (t->plain->kind == DLSH_C_CHAR)
        string_preview(b, p);
    else
        element_preview(b, p);
    return b->failed ? DL_ERR_MEMORY : DL_OK;
}

static void pointer_values(void *self, const dlsh_visitor *to) { to->value(((dlsh_cpointer *)self)->owner, to->ctx); }

extern const dlsh_command dlsh_cpointer_methods[];
const dlsh_class dlsh_cpointer_class = {.name = "pointer",
                                        .doc = "A typed pointer into C's memory.",
                                        .destroy = pointer_free,
                                        .text = pointer_text,
                                        .methods = dlsh_cpointer_methods,
                                        .get = pointer_get,
                                        .set = pointer_set,
                                        .names = pointer_names,
                                        .index = pointer_index,
                                        .set_index = pointer_set_index,
                                        .call = pointer_call,
                                        .len = pointer_len,
                                        .iterate = pointer_iterate,
                                        .equal = pointer_equal,
                                        .values = pointer_values,
                                        .truth = pointer_truth};

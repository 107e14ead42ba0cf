/* isolate: a call of C in a helper process. What goes there is one JSON object, and the tensors' bytes in a file of
 * memory that both have mapped; what comes back is one JSON object. */
#define _GNU_SOURCE
#include "ffi/isolate.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ffi/block.h"
#include "ffi/inside.h"
#include "ffi/prelude.h"

#define VARIABLE "DLSH_HELPER"
enum { SOCKET = 3, MEMORY = 4 }; /* descriptors of the helper */

extern char **environ;

static dl_status no_memory(void) { return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for a call in a helper"); }

/* ---------------------------------------------------------------- values */

/* A tensor's place in the shared memory. */
static size_t tensor_bytes(const dl_tensor *t) { return (size_t)dl_numel(t) * (size_t)dl_dtype_size(dl_dtype_of(t)); }
static size_t rounded(size_t n) { return (n + 63) & ~(size_t)63; }

static json_t *from_tensor(const dl_tensor *t, size_t *at) {
    json_t *shape = json_array();
    for (int i = 0; i < dl_ndim(t); i++) json_array_append_new(shape, json_integer(dl_shape(t)[i]));
    json_t *j = json_pack("{s:o, s:i, s:I}", "shape", shape, "dtype", (int)dl_dtype_of(t), "at", (json_int_t)*at);
    *at += rounded(tensor_bytes(t));
    return j;
}

/* NULL, recorded: a value that means nothing in another process. */
static json_t *from_value(dlsh_value v, size_t *at) {
    switch (v.type) {
    case DLSH_VOID:
    case DLSH_NONE: return json_null();
    case DLSH_BOOL: return json_boolean(v.as.i);
    case DLSH_INT: return json_integer(v.as.i);
    case DLSH_FLOAT: { /* as text: NaN and infinities have no JSON */
        char text[32];
        snprintf(text, sizeof text, "%.17g", v.as.f);
        return json_pack("{s:s}", "f", text);
    }
    case DLSH_STR: return json_stringn_nocheck(v.as.str->s, (size_t)v.as.str->len);
    case DLSH_TENSOR:
        if (at && !dl_device_of(v.as.tensor) && dl_is_contiguous(v.as.tensor)) return from_tensor(v.as.tensor, at);
        dlsh_fail(DL_ERR_TYPE, "x.contiguous() on the CPU", "only contiguous tensors on the CPU go to a helper");
        return NULL;
    case DLSH_LIST: {
        json_t *l = json_array();
        for (int i = 0; i < v.as.list->n; i++) {
            json_t *item = from_value(v.as.list->items[i], NULL);
            if (!item || json_array_append_new(l, item)) return json_decref(l), NULL;
        }
        return l;
    }
    default:
        dlsh_fail(DL_ERR_TYPE, "numbers, strings and tensors can", "%s cannot go to another process, or come from one",
                  dlsh_a(v));
        return NULL;
    }
}

static dlsh_value to_tensor(const json_t *j, char *memory) {
    long shape[8];
    const json_t *sizes = json_object_get(j, "shape");
    int ndim = (int)json_array_size(sizes);
    for (int i = 0; i < ndim && i < 8; i++) shape[i] = (long)json_integer_value(json_array_get(sizes, (size_t)i));
    return dlsh_tensor(dl_tensor_wrap(ndim, shape, (dl_dtype)json_integer_value(json_object_get(j, "dtype")),
                                      memory + json_integer_value(json_object_get(j, "at")), NULL, NULL));
}

static dlsh_value to_value(const json_t *j, char *memory) {
    switch (json_typeof(j)) {
    case JSON_NULL: return dlsh_none();
    case JSON_TRUE: return dlsh_bool(1);
    case JSON_FALSE: return dlsh_bool(0);
    case JSON_INTEGER: return dlsh_int((long)json_integer_value(j));
    case JSON_STRING: return dlsh_string_n(json_string_value(j), json_string_length(j));
    case JSON_OBJECT:
        if (json_object_get(j, "f")) return dlsh_float(strtod(json_string_value(json_object_get(j, "f")), NULL));
        return to_tensor(j, memory);
    case JSON_ARRAY: {
        dlsh_value l = dlsh_new_list((int)json_array_size(j));
        for (size_t i = 0; i < json_array_size(j) && !dlsh_failed(l); i++)
            if (dlsh_list_push(l.as.list, to_value(json_array_get(j, i), memory))) break;
        return l;
    }
    default: return dlsh_none();
    }
}

/* ---------------------------------------------------------------- messages */

static int send_json(int fd, const json_t *j) {
    char *text = json_dumps(j, JSON_COMPACT | JSON_ALLOW_NUL);
    size_t n = text ? strlen(text) : 0, at = 0;
    while (text && at < n) {
        ssize_t k = send(fd, text + at, n - at, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) break;
        at += (size_t)k;
    }
    free(text);
    shutdown(fd, SHUT_WR);
    return n && at == n;
}

/* Everything the other side sends; NULL when it is no JSON, or Ctrl-C was pressed. */
static json_t *receive_json(int fd) {
    dlsh_buf b = {0};
    char part[8192];
    for (ssize_t n; (n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR && !dlsh_interrupted());)
        if (n > 0) dlsh_buf_add(&b, part, (size_t)n);
    json_t *j = b.n ? json_loadb(b.s, b.n, JSON_ALLOW_NUL, NULL) : NULL;
    dlsh_buf_free(&b);
    return j;
}

/* ---------------------------------------------------------------- what is called */

/* Blocks oldest first: their files, and what they declare. */
static void put_blocks(const dlsh_cblock *b, json_t *files, dlsh_buf *declarations) {
    if (!b) return;
    put_blocks(b->next, files, declarations);
    json_array_append_new(files, json_string(b->path));
    dlsh_cblock_declarations(b, declarations);
}

static json_t *describe(dlsh_session *s, dlsh_cfunc *f) {
    const dlsh_cproto *p = dlsh_cfunc_proto(f);
    const dlsh_cblock *b = dlsh_cblock_of(f);
    json_t *files = json_array();
    dlsh_buf declarations = {0};
    char tag[24] = "";
    if (b) {
        put_blocks(dlsh_c_state(s)->blocks, files, &declarations);
        dlsh_prelude_tag(b->key, tag);
    }
    dlsh_buf_printf(&declarations, "%s;\n", p->text);
    json_t *j = json_pack("{s:o, s:s, s:s, s:s, s:s, s:s}", "blocks", files, "library",
                          dlsh_cfunc_lib(f) && !b ? dlsh_cfunc_lib(f)->name : "", "own", b ? b->path : "", "name",
                          p->name, "tag", tag, "declarations", dlsh_buf_text(&declarations));
    dlsh_buf_free(&declarations);
    return j;
}

/* The function that was described, in the helper. VOID: recorded. */
static dlsh_value find(dlsh_session *s, const json_t *j) {
    const json_t *files = json_object_get(j, "blocks");
    const char *name = json_string_value(json_object_get(j, "name")),
               *own = json_string_value(json_object_get(j, "own")),
               *library = json_string_value(json_object_get(j, "library"));
    void *handle = NULL;
    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *path = json_string_value(json_array_get(files, i));
        void *h = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        if (!strcmp(path, own)) handle = h;
    }
    if (!*own) handle = dlopen(*library ? library : NULL, RTLD_NOW | RTLD_LOCAL);
    char symbol[256];
    snprintf(symbol, sizeof symbol, "%.200s%s", name, json_string_value(json_object_get(j, "tag")));
    void *addr = handle ? dlsym(handle, symbol) : NULL;
    const char *text = json_string_value(json_object_get(j, "declarations"));
    dlsh_cdecls d = {0};
    dlsh_cerror e;
    dlsh_value v = dlsh_void();
    if (!addr)
        dlsh_fail(DL_ERR_NAME, NULL, "the helper does not find %s", name);
    else if (!dlsh_c_parse(dlsh_c_space(s), text, strlen(text), DLSH_C_LENIENT | DLSH_C_REPLACE, &d, &e))
        for (int i = d.n; i-- > 0 && dlsh_failed(v);)
            if (d.items[i].proto && !strcmp(d.items[i].name, name))
                v = dlsh_cfunc_value(s, d.items[i].proto, addr, NULL);
    if (addr && dlsh_failed(v))
        dlsh_fail(DL_ERR_TYPE, NULL, "the helper does not know a type in the prototype of %s", name);
    dlsh_cdecls_free(&d);
    return v;
}

/* ---------------------------------------------------------------- the helper */

int dlsh_isolate_asked(void) { return getenv(VARIABLE) != NULL; }

static json_t *failure(void) {
    const dl_error *e = dl_error_last();
    return json_pack("{s:i, s:s, s:s}", "code", e ? (int)e->code : DL_ERR_INTERNAL, "message", e ? e->message : "?",
                     "hint", e ? e->hint : "");
}

static json_t *serve(dlsh_session *s, const json_t *asked, char *memory) {
    const json_t *list = json_object_get(asked, "args");
    dlsh_value f = find(s, asked), args[DLSH_C_MAX_ARGS], out = dlsh_void();
    int n = (int)json_array_size(list);
    if (dlsh_failed(f)) return failure();
    for (int i = 0; i < n; i++) args[i] = to_value(json_array_get(list, (size_t)i), memory);
    dlsh_callargs call = {.n = n, .values = args};
    dl_status st = dlsh_c_call(s, dlsh_cfunc_of(f), &call, &out);
    json_t *result = st ? NULL : from_value(out, NULL), *written = json_array();
    for (int i = 0; i < n; i++) {
        if (args[i].type == DLSH_TENSOR && dl_tensor_version(args[i].as.tensor))
            json_array_append_new(written, json_integer(i));
        dlsh_drop(args[i]);
    }
    dlsh_drop(out);
    dlsh_drop(f);
    if (result) return json_pack("{s:o, s:o}", "result", result, "written", written);
    json_decref(written);
    return failure();
}

int dlsh_isolate_serve(dlsh_session *s) {
    unsetenv(VARIABLE);
    json_t *asked = receive_json(SOCKET);
    size_t size = asked ? (size_t)json_integer_value(json_object_get(asked, "memory")) : 0;
    char *memory = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, MEMORY, 0) : NULL;
    if (!asked || memory == MAP_FAILED) {
        json_decref(asked);
        return 1;
    }
    json_t *answer = serve(s, asked, memory);
    json_decref(asked);
    fflush(stdout);
    int sent = send_json(SOCKET, answer);
    json_decref(answer);
    return sent ? 0 : 1;
}

/* ---------------------------------------------------------------- this side */

typedef struct helper {
    pid_t pid;
    int socket, memory_fd;
    char *memory;
    size_t size;
} helper;

static dl_status start(helper *h) {
    int pair[2];
    char *argv[] = {(char *)"dlsh", NULL}, path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return dlsh_fail(DL_ERR_IO, NULL, "no helper can be started: %s", strerror(errno));
    path[n] = 0;
    int count = 0;
    while (environ[count]) count++;
    char **env = malloc((size_t)(count + 2) * sizeof *env);
    if (env) memcpy(env, environ, (size_t)count * sizeof *env);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, pair[1], SOCKET + 20); /* out of the way of the other */
    posix_spawn_file_actions_adddup2(&files, h->memory_fd, MEMORY);
    posix_spawn_file_actions_adddup2(&files, SOCKET + 20, SOCKET);
    posix_spawn_file_actions_addclose(&files, SOCKET + 20);
    int failed = ENOMEM;
    if (env) {
        env[count] = (char *)VARIABLE "=1";
        env[count + 1] = NULL;
        fflush(stdout);
        failed = posix_spawn(&h->pid, path, &files, NULL, argv, env);
    }
    posix_spawn_file_actions_destroy(&files);
    free(env);
    close(pair[1]);
    h->socket = pair[0];
    return failed ? dlsh_fail(DL_ERR_IO, NULL, "no helper can be started: %s", strerror(failed)) : DL_OK;
}

static dl_status share(helper *h, const dlsh_callargs *args) {
    for (int i = 0; i < args->n; i++)
        if (args->values[i].type == DLSH_TENSOR) h->size += rounded(tensor_bytes(args->values[i].as.tensor));
    h->memory_fd = memfd_create("dlsh", MFD_CLOEXEC);
    if (h->memory_fd < 0 || (h->size && ftruncate(h->memory_fd, (off_t)h->size)))
        return dlsh_fail(DL_ERR_MEMORY, NULL, "no shared memory: %s", strerror(errno));
    if (!h->size) return DL_OK;
    h->memory = mmap(NULL, h->size, PROT_READ | PROT_WRITE, MAP_SHARED, h->memory_fd, 0);
    if (h->memory == MAP_FAILED) return h->memory = NULL, no_memory();
    char *at = h->memory;
    for (int i = 0; i < args->n; i++) {
        if (args->values[i].type != DLSH_TENSOR) continue;
        dl_tensor *t = args->values[i].as.tensor;
        if (tensor_bytes(t)) memcpy(at, dl_data(t), tensor_bytes(t));
        at += rounded(tensor_bytes(t));
    }
    return DL_OK;
}

/* What C wrote to tensors there is written here. */
static void take_back(const helper *h, const dlsh_callargs *args, const json_t *written) {
    char *at = h->memory;
    for (int i = 0; i < args->n; i++) {
        if (args->values[i].type != DLSH_TENSOR) continue;
        dl_tensor *t = args->values[i].as.tensor;
        for (size_t k = 0; k < json_array_size(written); k++)
            if (json_integer_value(json_array_get(written, k)) == i && tensor_bytes(t)) {
                memcpy(dl_data(t), at, tensor_bytes(t));
                dl_touch(t);
            }
        at += rounded(tensor_bytes(t));
    }
}

static dl_status died(const dlsh_cfunc *f, int status) {
    const char *name = dlsh_cfunc_proto(f)->name;
    if (dlsh_interrupted()) return dlsh_fail(DL_ERR_INTERRUPT, NULL, "%s was interrupted in its helper", name);
    if (WIFSIGNALED(status))
        return dlsh_fail(DL_ERR_CRASH, "nothing here is damaged", "%s ended its helper: %s", name,
                         strsignal(WTERMSIG(status)));
    return dlsh_fail(DL_ERR_CRASH, "nothing here is damaged", "%s ended its helper with status %d", name,
                     WEXITSTATUS(status));
}

static dl_status answer_of(const helper *h, const dlsh_cfunc *f, const dlsh_callargs *args, const json_t *answer,
                           int status, dlsh_value *out) {
    if (!answer) return died(f, status);
    const json_t *result = json_object_get(answer, "result");
    if (!result) {
        dl_status code = (dl_status)json_integer_value(json_object_get(answer, "code"));
        return dlsh_fail(
            code, code == DL_ERR_CRASH ? "nothing here is damaged" : json_string_value(json_object_get(answer, "hint")),
            "%s", json_string_value(json_object_get(answer, "message")));
    }
    take_back(h, args, json_object_get(answer, "written"));
    *out = to_value(result, NULL);
    return dlsh_failed(*out) ? dlsh_failure() : DL_OK;
}

static json_t *question(dlsh_session *s, dlsh_cfunc *f, const dlsh_callargs *args, size_t size) {
    json_t *list = json_array();
    size_t at = 0;
    for (int i = 0; i < args->n; i++) {
        json_t *v = from_value(args->values[i], &at);
        if (!v || json_array_append_new(list, v)) return json_decref(list), NULL;
    }
    json_t *j = describe(s, f);
    if (!j) return json_decref(list), no_memory(), NULL;
    json_object_set_new(j, "args", list);
    json_object_set_new(j, "memory", json_integer((json_int_t)size));
    return j;
}

dl_status dlsh_isolate(dlsh_session *s, dlsh_cfunc *f, const dlsh_callargs *args, dlsh_value *out) {
    helper h = {.socket = -1, .memory_fd = -1};
    int status = 0;
    json_t *answer = NULL, *asked = NULL;
    if (args->n > DLSH_C_MAX_ARGS) return dlsh_fail(DL_ERR_TYPE, NULL, "too many arguments");
    dl_status st = share(&h, args);
    if (!st && !(asked = question(s, f, args, h.size))) st = dlsh_failure();
    if (!st) st = start(&h);
    if (!st) {
        if (send_json(h.socket, asked)) answer = receive_json(h.socket);
        if (!answer && dlsh_interrupted()) kill(h.pid, SIGKILL);
        while (waitpid(h.pid, &status, 0) < 0 && errno == EINTR) {}
        st = answer_of(&h, f, args, answer, status, out);
    }
    json_decref(asked);
    json_decref(answer);
    if (h.memory) munmap(h.memory, h.size);
    if (h.memory_fd >= 0) close(h.memory_fd);
    if (h.socket >= 0) close(h.socket);
    return st;
}

/* isolate: calls C in a helper process. The request is one JSON object, with the bytes of tensors in shared memory; the
 * answer is one JSON object. */
#define _GNU_SOURCE
#include "ffi/isolate/isolate.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ffi/compiler/block.h"
#include "ffi/isolate/transfer.h"
#include "ffi/compiler/prelude.h"
#include "ffi/compiler/spawn.h"

#define VARIABLE "DLSH_HELPER"
enum { SOCKET = 3, MEMORY = 4 }; /* descriptors of the helper */

/* ---------------------------------------------------------------- messages */

static int send_json(int fd, const json_t *j) {
    DLSH_FREED char *text = json_dumps(j, JSON_COMPACT | JSON_ALLOW_NUL);
    size_t n = text ? strlen(text) : 0, at = 0;
    while (text && at < n) {
        ssize_t k = send(fd, text + at, n - at, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) break;
        at += (size_t)k;
    }
    shutdown(fd, SHUT_WR);
    return n && at == n;
}

/* Reads all that the other side sends; NULL when it is not JSON, or Ctrl-C was pressed. */
static json_t *receive_json(int fd) {
    DLSH_SCOPED_BUF b = {0};
    char part[8192];
    for (ssize_t n; (n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR && !dlsh_interrupted());)
        if (n > 0) dlsh_buf_add(&b, part, (size_t)n);
    return b.n ? json_loadb(b.s, b.n, JSON_ALLOW_NUL, NULL) : NULL;
}

/* ---------------------------------------------------------------- what is called */

/* The files and declarations of the blocks, oldest first. */
static void put_blocks(const dlsh_cblock *b, json_t *files, dlsh_buf *declarations) {
    if (!b) return;
    put_blocks(b->next, files, declarations);
    json_array_append_new(files, json_pack("[s, s]", b->path, b->file));
    dlsh_cblock_declarations(b, declarations);
}

/* The file of the shim that a function comes from; NULL: it comes from none. */
static const char *shim_file(const dlsh_cfunc *f) {
    const dlsh_clib *lib = dlsh_cfunc_lib(f);
    struct link_map *map = NULL;
    if (!lib || !lib->handle || !dlsym(lib->handle, "dlsh_shim") || dlinfo(lib->handle, RTLD_DI_LINKMAP, &map))
        return NULL;
    return map ? map->l_name : NULL;
}

static json_t *describe(dlsh_session *s, dlsh_cfunc *f) {
    const dlsh_cproto *p = dlsh_cfunc_proto(f);
    const dlsh_cblock *b = dlsh_cblock_of(f);
    const char *shim = shim_file(f);
    json_t *files = json_array();
    DLSH_SCOPED_BUF declarations = {0};
    char tag[24] = "";
    if (b) {
        put_blocks(dlsh_c_state(s)->blocks, files, &declarations);
        if (!b->cuda) dlsh_prelude_tag(b->key, tag);
    }
    dlsh_c_declare(dlsh_c_space(s), p, &declarations);
    json_t *j =
        json_pack("{s:o, s:s, s:s, s:s, s:s, s:s}", "blocks", files, "library",
                  shim                      ? shim
                  : dlsh_cfunc_lib(f) && !b ? dlsh_cfunc_lib(f)->name
                                            : "",
                  "own", b ? b->path : "", "name", p->name, "tag", tag, "declarations", dlsh_buf_text(&declarations));
    json_object_set_new(j, "shim", json_boolean(shim != NULL));
    return j;
}

/* A function value with a library of its own, which holds the device. */
static dlsh_value own_lib(dlsh_session *s, const dlsh_cproto *p, void *addr) {
    dlsh_clib *lib = dlsh_clib_new("helper", NULL, NULL, NULL);
    dlsh_value v = lib ? dlsh_cfunc_value(s, p, addr, lib) : dlsh_void();
    dlsh_clib_drop(lib);
    return v;
}

/* In the helper: finds the function that was described. VOID: recorded. */
static dlsh_value find(dlsh_session *s, const json_t *j) {
    const json_t *files = json_object_get(j, "blocks");
    const char *name = json_string_value(json_object_get(j, "name")),
               *own = json_string_value(json_object_get(j, "own")),
               *library = json_string_value(json_object_get(j, "library"));
    void *handle = NULL;
    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *path = json_string_value(json_array_get(json_array_get(files, i), 0));
        dlsh_cc_set_origin(path, json_string_value(json_array_get(json_array_get(files, i), 1)));
        void *h = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        if (!strcmp(path, own)) handle = h;
    }
    if (!*own) handle = dlopen(*library ? library : NULL, RTLD_NOW | RTLD_LOCAL);
    char symbol[256];
    snprintf(symbol, sizeof symbol, "%.200s%s", name, json_string_value(json_object_get(j, "tag")));
    int is_shim = json_is_true(json_object_get(j, "shim"));
    void *addr = handle ? dlsym(handle, is_shim ? "dlsh_shim" : symbol) : NULL;
    if (addr && is_shim) memcpy(&addr, addr, sizeof addr); /* it is a pointer to the function */
    const char *text = json_string_value(json_object_get(j, "declarations"));
    DLSH_SCOPED(dlsh_cdecls_free) dlsh_cdecls d = {0};
    dlsh_cerror e;
    dlsh_value v = dlsh_void();
    if (!addr)
        dlsh_fail(DL_ERR_NAME, NULL, "the helper does not find %s", name);
    else if (!dlsh_c_parse(dlsh_c_space(s), text, strlen(text), DLSH_C_LENIENT | DLSH_C_REPLACE, &d, &e))
        for (int i = d.n; i-- > 0 && dlsh_failed(v);)
            if (d.items[i].proto && !strcmp(d.items[i].name, name)) v = own_lib(s, d.items[i].proto, addr);
    if (addr && dlsh_failed(v))
        dlsh_fail(DL_ERR_TYPE, NULL, "the helper does not know a type in the prototype of %s", name);
    return v;
}

/* ---------------------------------------------------------------- the helper */

int dlsh_isolate_asked(void) { return getenv(VARIABLE) != NULL; }

/* Has the call made the GPU unusable for this process? Keeps the recorded failure. */
static int lost(int device) {
    dl_error e;
    if (!device) return 0;
    dl_error_take(&e);
    int gone = dl_device_synchronize(device) != DL_OK;
    dl_error_put(&e);
    return gone;
}

static json_t *failure(int device) {
    const char *hint = lost(device) ? "only the helper has lost the GPU: nothing here is damaged" : NULL;
    const dl_error *e = dl_error_last();
    return json_pack("{s:i, s:s, s:s}", "code", e ? (int)e->code : DL_ERR_INTERNAL, "message", e ? e->message : "?",
                     "hint",
                     hint ? hint
                     : e  ? e->hint
                          : "");
}

/* Packs the result, or a list of results, each by its own type. */
static json_t *pack_results(const dlsh_cproto *p, dlsh_value out) {
    if (dlsh_transfer_result(p, 1) == NULL || out.type != DLSH_LIST) return dlsh_transfer_to_json(out, NULL);
    json_t *l = json_array();
    for (int i = 0; i < out.as.list->n; i++) {
        json_t *item = dlsh_transfer_to_json(out.as.list->items[i], NULL);
        if (!item || json_array_append_new(l, item)) return json_decref(l), NULL;
    }
    return l;
}

/* Copies what C wrote on an accelerator to the shared memory. */
static dl_status bring_back(dlsh_value v, const json_t *asked, char *memory) {
    if (v.type != DLSH_TENSOR || !dl_device_of(v.as.tensor)) return DL_OK;
    return dl_read(v.as.tensor, memory + json_integer_value(json_object_get(asked, "at")));
}

static json_t *serve(dlsh_session *s, const json_t *asked, char *memory) {
    const json_t *list = json_object_get(asked, "args");
    dlsh_value args[DLSH_C_MAX_ARGS];
    DLSH_DROPPED dlsh_value f = find(s, asked), out = dlsh_void();
    int n = (int)json_array_size(list), opened = 0;
    if (dlsh_failed(f)) return failure(0);
    const dlsh_cproto *p = dlsh_cfunc_proto(dlsh_cfunc_of(f));
    int device = dlsh_cfunc_lib(dlsh_cfunc_of(f))->device = json_is_true(json_object_get(asked, "device"));
    dl_status st = device ? dl_device_sync_every(1) : DL_OK; /* faults of its kernels are reported by this call */
    for (; opened < n && !st; opened++) {
        const dlsh_cparam *param = dlsh_transfer_param(p, opened);
        args[opened] =
            dlsh_transfer_from_json(s, json_array_get(list, (size_t)opened), memory, param ? param->type : NULL);
        if (dlsh_failed(args[opened]))
            st = dl_failed();
        else if (args[opened].type == DLSH_TENSOR && dl_device_of(args[opened].as.tensor))
            st = dl_device_default_set(dl_device_of(args[opened].as.tensor)); /* whose stream kernels go to */
    }
    dlsh_callargs call = {.n = n, .values = args};
    if (!st) st = dlsh_c_call(s, dlsh_cfunc_of(f), &call, &out);
    for (int i = 0; i < opened; i++) {
        if (!st) st = bring_back(args[i], json_array_get(list, (size_t)i), memory);
        dlsh_drop(args[i]);
    }
    json_t *result = st ? NULL : pack_results(p, out);
    json_t *answer = result ? json_pack("{s:o}", "result", result) : failure(device);
    json_object_set_new(answer, "errno", json_integer(dlsh_c_state(s)->last_errno));
    return answer;
}

int dlsh_isolate_serve(dlsh_session *s) {
    unsetenv(VARIABLE);
    DLSH_ENDED(json_decref) json_t *asked = receive_json(SOCKET);
    size_t size = asked ? (size_t)json_integer_value(json_object_get(asked, "memory")) : 0;
    char *memory = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, MEMORY, 0) : NULL;
    if (!asked || memory == MAP_FAILED) return 1;
    DLSH_ENDED(json_decref) json_t *answer = serve(s, asked, memory);
    fflush(stdout);
    int sent = send_json(SOCKET, answer);
    return sent ? 0 : 1;
}

/* ---------------------------------------------------------------- this side */

typedef struct helper {
    pid_t pid;
    int socket, memory_fd;
    char *memory, *before; /* shared; as it was */
    size_t size;
    dlsh_cpart parts[DLSH_C_MAX_ARGS];
} helper;

static dl_status start(helper *h) {
    int pair[2];
    char *argv[] = {(char *)"dlsh", NULL}, path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return dlsh_fail(DL_ERR_IO, NULL, "no helper can be started: %s", strerror(errno));
    path[n] = 0;
    DLSH_FREED char **env = dlsh_spawn_environment(VARIABLE "=1");
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, pair[1],
                                     SOCKET + 20); /* so that it does not overwrite the other descriptor */
    posix_spawn_file_actions_adddup2(&files, h->memory_fd, MEMORY);
    posix_spawn_file_actions_adddup2(&files, SOCKET + 20, SOCKET);
    posix_spawn_file_actions_addclose(&files, SOCKET + 20);
    fflush(stdout);
    int failed = env ? posix_spawn(&h->pid, path, &files, NULL, argv, env) : ENOMEM;
    posix_spawn_file_actions_destroy(&files);
    close(pair[1]);
    h->socket = pair[0];
    return failed ? dlsh_fail(DL_ERR_IO, NULL, "no helper can be started: %s", strerror(failed)) : DL_OK;
}

static dl_status share(helper *h, const dlsh_cfunc *f, const dlsh_callargs *args) {
    DLSH_TRY(dlsh_transfer_measure(dlsh_cfunc_proto(f), args, h->parts, &h->size));
    h->memory_fd = memfd_create("dlsh", MFD_CLOEXEC);
    if (h->memory_fd < 0 || (h->size && ftruncate(h->memory_fd, (off_t)h->size)))
        return dlsh_fail(DL_ERR_MEMORY, NULL, "no shared memory: %s", strerror(errno));
    if (!h->size) return DL_OK;
    h->memory = mmap(NULL, h->size, PROT_READ | PROT_WRITE, MAP_SHARED, h->memory_fd, 0);
    if (h->memory == MAP_FAILED) return h->memory = NULL, dlsh_no_memory("a call in a helper");
    for (int i = 0; i < args->n; i++) DLSH_TRY(dlsh_transfer_share(args->values[i], &h->parts[i], h->memory));
    h->before = malloc(h->size);
    if (!h->before) return dlsh_no_memory("a call in a helper");
    memcpy(h->before, h->memory, h->size);
    return DL_OK;
}

/* Copies back the memory that C has changed. */
static dl_status take_back(const helper *h, const dlsh_callargs *args) {
    for (int i = 0; i < args->n; i++) {
        const dlsh_cpart *k = &h->parts[i];
        if (k->bytes && memcmp(h->memory + k->at, h->before + k->at, k->bytes))
            DLSH_TRY(dlsh_transfer_copy_back(args->values[i], k, h->memory));
    }
    return DL_OK;
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

static dl_status open_results(dlsh_session *s, const dlsh_cproto *p, const json_t *result, dlsh_value *out) {
    if (dlsh_transfer_result(p, 1) == NULL || !json_is_array(result))
        return dlsh_give(dlsh_transfer_from_json(s, result, NULL, dlsh_transfer_result(p, 0)), out);
    DLSH_DROPPED dlsh_value list = dlsh_new_list(json_array_size(result));
    for (size_t i = 0; i < json_array_size(result); i++) {
        DLSH_TRY(dlsh_append(
            list, dlsh_transfer_from_json(s, json_array_get(result, i), NULL, dlsh_transfer_result(p, (int)i))));
    }
    return dlsh_hand_over(&list, out);
}

static dl_status answer_of(dlsh_session *s, const helper *h, const dlsh_cfunc *f, const dlsh_callargs *args,
                           const json_t *answer, int status, dlsh_value *out) {
    if (!answer) return died(f, status);
    const json_t *result = json_object_get(answer, "result");
    if (!result) {
        dl_status code = (dl_status)json_integer_value(json_object_get(answer, "code"));
        return dlsh_fail(
            code, code == DL_ERR_CRASH ? "nothing here is damaged" : json_string_value(json_object_get(answer, "hint")),
            "%s", json_string_value(json_object_get(answer, "message")));
    }
    dlsh_c_state(s)->last_errno = (int)json_integer_value(json_object_get(answer, "errno"));
    DLSH_TRY(take_back(h, args));
    return open_results(s, dlsh_cfunc_proto(f), result, out);
}

static json_t *question(dlsh_session *s, dlsh_cfunc *f, const dlsh_callargs *args, const helper *h) {
    json_t *list = json_array();
    for (int i = 0; i < args->n; i++) {
        json_t *v = dlsh_transfer_to_json(args->values[i], &h->parts[i]);
        if (!v || json_array_append_new(list, v)) return json_decref(list), NULL;
    }
    json_t *j = describe(s, f);
    if (!j) return json_decref(list), dlsh_no_memory("a call in a helper"), NULL;
    json_object_set_new(j, "args", list);
    json_object_set_new(j, "memory", json_integer((json_int_t)h->size));
    json_object_set_new(j, "device", json_boolean(dlsh_cfunc_lib(f) && dlsh_cfunc_lib(f)->device));
    return j;
}

dl_status dlsh_isolate(dlsh_session *s, dlsh_cfunc *f, const dlsh_callargs *args, dlsh_value *out) {
    helper h = {.socket = -1, .memory_fd = -1};
    int status = 0;
    DLSH_ENDED(json_decref) json_t *answer = NULL, *asked = NULL;
    if (args->n > DLSH_C_MAX_ARGS)
        return dlsh_fail(DL_ERR_TYPE, NULL, "a call has at most %d arguments, got %d", DLSH_C_MAX_ARGS, args->n);
    dl_status st = share(&h, f, args);
    if (!st && !(asked = question(s, f, args, &h))) st = dl_failed();
    if (!st) st = start(&h);
    if (!st) {
        if (send_json(h.socket, asked)) answer = receive_json(h.socket);
        if (!answer && dlsh_interrupted()) kill(h.pid, SIGKILL);
        while (waitpid(h.pid, &status, 0) < 0 && errno == EINTR) {}
        st = answer_of(s, &h, f, args, answer, status, out);
    }
    if (h.memory) munmap(h.memory, h.size);
    free(h.before);
    if (h.memory_fd >= 0) close(h.memory_fd);
    if (h.socket >= 0) close(h.socket);
    return st;
}

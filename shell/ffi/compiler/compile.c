/* Compiles C text: command line, source file, messages, and the key of the cache. */
#define _GNU_SOURCE
#include "ffi/compiler/compile.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffi/compiler/sha256.h"
#include "ffi/compiler/spawn.h"
#include "lang/session.h"

/* dlcore.h as text, for blocks that use the library's tensors. */
static const char header[] =
#include "dlcore.h.inc"
    ;

/* ---------------------------------------------------------------- words */

void dlsh_cc_words_free(char **argv) {
    for (int i = 0; argv && argv[i]; i++) free(argv[i]);
    free(argv);
}

static dl_status push(char ***argv, int *argc, const char *s) {
    char **grown = realloc(*argv, (size_t)(*argc + 2) * sizeof *grown);
    if (!grown) return dlsh_no_memory("a command line");
    *argv = grown;
    grown[*argc] = strdup(s);
    grown[*argc + 1] = NULL;
    return grown[*argc] ? (++*argc, DL_OK) : dlsh_no_memory("a command line");
}

dl_status dlsh_cc_add_words(char ***argv, int *argc, const char *const *words) {
    for (; *words; words++) DLSH_TRY(push(argv, argc, *words));
    return DL_OK;
}

dl_status dlsh_cc_words(const char *text, char ***argv, int *argc) {
    DLSH_SCOPED_BUF word = {0};
    dl_status st = DL_OK;
    char quote = 0;
    int inside = 0;
    for (const char *p = text; !st; p++) {
        if (!*p || (!quote && isspace((unsigned char)*p))) {
            if (quote) st = dlsh_fail(DL_ERR_VALUE, NULL, "the quote %c in '%s' is not closed", quote, text);
            if (inside && !st) st = push(argv, argc, dlsh_buf_text(&word));
            word.n = 0;
            inside = 0;
            if (!*p) break;
            continue;
        }
        inside = 1;
        if (*p == quote)
            quote = 0;
        else if (!quote && (*p == '"' || *p == '\''))
            quote = *p;
        else if (*p == '\\' && quote != '\'' && p[1])
            dlsh_buf_add(&word, ++p, 1);
        else
            dlsh_buf_add(&word, p, 1);
    }
    return st;
}

/* ---------------------------------------------------------------- compilers */

static const char *compiler_of(const dlsh_cc_job *job) {
    const char *named = job->compiler ? job->compiler : getenv(job->cuda ? "DLSH_NVCC" : "DLSH_CC");
    return named && *named ? named : job->cuda ? "nvcc" : "cc";
}

/* The path of the compiler; nvcc is also looked for in NVIDIA's folder. */
static dl_status program_of(const dlsh_cc_job *job, const char *name, char *path, size_t size) {
    if (dlsh_spawn_find(name, path, size)) return DL_OK;
    if (job->cuda && !strcmp(name, "nvcc") && dlsh_spawn_find("/usr/local/cuda/bin/nvcc", path, size)) return DL_OK;
    return dlsh_fail(DL_ERR_IO,
                     job->cuda ? "install the CUDA toolkit, or name its compiler in DLSH_NVCC"
                               : "install gcc, or name a C compiler in DLSH_CC",
                     "there is no program '%s' to compile with", name);
}

dlsh_cc_family dlsh_cc_family_of(const char *program) {
    char real[4096];
    const char *base = realpath(program, real) ? strrchr(real, '/') : NULL;
    return base && strstr(base, "clang") ? DLSH_CC_CLANG : base && strstr(base, "tcc") ? DLSH_CC_TCC : DLSH_CC_GCC;
}

/* ---------------------------------------------------------------- files */

dl_status dlsh_cc_write_file(const char *path, const char *s, size_t n) {
    FILE *f = fopen(path, "we");
    int ok = f && fwrite(s, 1, n, f) == n;
    if (f && fclose(f)) ok = 0;
    return ok ? DL_OK : dlsh_fail(DL_ERR_IO, NULL, "%s cannot be written: %s", path, strerror(errno));
}

static int asks_where(const char *text, size_t n) {
    static const char *const words[] = {"__LINE__", "__FILE__", "assert"};
    for (size_t i = 0; text && i < DLSH_COUNT(words); i++)
        if (memmem(text, n, words[i], strlen(words[i]))) return 1;
    return 0;
}

int dlsh_cc_first_line(const dlsh_cc_job *job) {
    int asks = asks_where(job->text, job->len) || asks_where(job->prelude, job->prelude ? strlen(job->prelude) : 0);
    return asks && !job->cuda ? job->line : 1;
}

static dl_status write_source(const dlsh_cc_job *job, int wraps_threads, const char *path) {
    DLSH_SCOPED_BUF b = {0};
    if (job->prelude) dlsh_buf_printf(&b, "#line 1 \"<declared before>\"\n%s\n", job->prelude);
    dlsh_buf_printf(&b, "#line %d \"" DLSH_CC_FILE "\"\n", dlsh_cc_first_line(job));
    dlsh_buf_add(&b, job->text, job->len);
    if (job->suffix) dlsh_buf_printf(&b, "\n#line 1 \"<exported>\"\n;\n%s\n", job->suffix);
    if (wraps_threads) dlsh_buf_printf(&b, "\n#line 1 \"<threads>\"\n%s", dlsh_cc_threads);
    return b.failed ? dlsh_no_memory("C text") : dlsh_cc_write_file(path, b.s, b.n);
}

/* Puts dlcore.h into the folder, once. */
static dl_status write_header(const char *folder) {
    char path[300];
    snprintf(path, sizeof path, "%s/dlcore.h", folder);
    return access(path, R_OK) ? dlsh_cc_write_file(path, header, sizeof header - 1) : DL_OK;
}

/* ---------------------------------------------------------------- running */

typedef struct build {
    const dlsh_cc_job *job;
    dlsh_cc_family family;
    const char *folder;
    char program[4096], source[288], so[288], depends[288], map[320];
    char **argv;
    int argc;
} build;

__attribute__((format(printf, 2, 3))) static dl_status add_printf(build *b, const char *fmt, ...) {
    char word[512];
    DLSH_FORMATTED(fmt, vsnprintf(word, sizeof word, fmt, ap));
    return push(&b->argv, &b->argc, word);
}

/* The -arch option of the first GPU; without one that of the build. */
static void cuda_arch(char *arch, size_t size) {
    char text[256];
    int major = 9, minor = 0;
    const char *at =
        dl_device_count() > 1 && !dl_device_describe(1, text, sizeof text) ? strstr(text, "compute capability ") : NULL;
    if (at) sscanf(at, "compute capability %d.%d", &major, &minor);
    snprintf(arch, size, "-arch=sm_%d%d", major, minor);
}

static dl_status push_all(build *b, const char *const *words) { return dlsh_cc_add_words(&b->argv, &b->argc, words); }

/* Limits the dynamic symbols to the exported ones, so that a user's `index` or `error` does not replace another. */
static dl_status add_exports(build *b) {
    if (!b->job->exports) return DL_OK;
    char text[256];
    int n = snprintf(text, sizeof text, "{ global: %s; local: *; };\n", b->job->exports);
    DLSH_TRY(dlsh_cc_write_file(b->map, text, (size_t)n));
    return add_printf(b, "%s-Wl,--version-script=%s", b->family == DLSH_CC_NVCC ? "-Xcompiler=" : "", b->map);
}

/* Warnings that nearly always mean a mistake are errors. */
static const char *const strict[] = {
    "-Werror=implicit-function-declaration", "-Werror=implicit-int", "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types",    "-Werror=return-type",  NULL};

/* The compiler and its options, without file names. */
static dl_status options(build *b) {
    static const char *const gcc[] = {"-O2", "-g1", "-gdwarf-4", "-fPIC", "-shared", "-Wall", "-Wno-unused", NULL};
    static const char *const tcc[] = {"-g", "-shared", "-Wl,-Bsymbolic", "-Wl,-export-all-symbols", NULL};
    static const char *const nvcc[] = {"-O3", "-lineinfo", "-shared", "-Xcompiler=-fPIC,-g1,-gdwarf-4",
                                       "-x",  "cu",        NULL};
    char arch[32];
    DLSH_TRY(dlsh_cc_words(compiler_of(b->job), &b->argv, &b->argc));
    if (!b->argc) return dlsh_fail(DL_ERR_VALUE, NULL, "the compiler's name is empty");
    DLSH_TRY(program_of(b->job, b->argv[0], b->program, sizeof b->program));
    b->family = b->job->cuda ? DLSH_CC_NVCC : dlsh_cc_family_of(b->program);
    switch (b->family) {
    case DLSH_CC_GCC: DLSH_TRY(add_printf(b, "-fdiagnostics-format=json")); /* fall through */
    case DLSH_CC_CLANG:
        DLSH_TRY(push_all(b, gcc));
        DLSH_TRY(push_all(b, strict));
        if (dlsh_cc_first_line(b->job) == b->job->line && b->job->file)
            DLSH_TRY(add_printf(b, "-fmacro-prefix-map=" DLSH_CC_FILE "=%.400s", b->job->file));
        break;
    case DLSH_CC_TCC: DLSH_TRY(push_all(b, tcc)); break;
    case DLSH_CC_NVCC:
        cuda_arch(arch, sizeof arch);
        DLSH_TRY(push_all(b, nvcc));
        return push(&b->argv, &b->argc, arch);
    }
    return DL_OK;
}

static int wraps_threads(const build *b) {
    return (b->family == DLSH_CC_GCC || b->family == DLSH_CC_CLANG) && dlsh_cc_starts_threads(b->job);
}

static dl_status command_line(build *b) {
    DLSH_TRY(options(b));
    if (wraps_threads(b)) DLSH_TRY(add_printf(b, "-Wl,--wrap=pthread_create"));
    if (b->family != DLSH_CC_TCC) DLSH_TRY(add_exports(b));
    const char *const files[] = {"-MD", "-MF", b->depends, "-o", b->so, b->source, NULL};
    DLSH_TRY(add_printf(b, "-I%s", b->folder));
    DLSH_TRY(push_all(b, files));
    return b->job->flags ? dlsh_cc_words(b->job->flags, &b->argv, &b->argc) : DL_OK;
}

void dlsh_cc_hash(const char *text, size_t n, char key[DLSH_CC_KEY]) {
    unsigned char sum[SHA256_DIGEST_LENGTH];
    dlsh_sha256(text, n, sum);
    for (int i = 0; i < (DLSH_CC_KEY - 1) / 2; i++) snprintf(key + 2 * i, 3, "%02x", sum[i]);
}

void dlsh_cc_identify(const char *path, dlsh_buf *out) {
    struct stat st;
    if (!stat(path, &st)) /* follows links: another version is another file */
        dlsh_buf_printf(out, "%lld %lld %ld %s\n", (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                        st.st_mtim.tv_nsec, path);
}

/* Version of the exports, which are not part of the key: cached code of another version is not used. */
enum { EXPORTS_FORM = 3 };

dl_status dlsh_cc_key(const dlsh_cc_job *job, int copy, char key[DLSH_CC_KEY]) {
    build b = {.job = job};
    DLSH_SCOPED_BUF t = {0};
    dl_status status = options(&b);
    dlsh_buf_printf(&t, "%s %d %d ", dl_version(), EXPORTS_FORM, copy);
    if (!status) dlsh_cc_identify(b.program, &t);
    for (int i = 0; i < b.argc; i++) dlsh_buf_printf(&t, "%s\n", b.argv[i]);
    dlsh_cc_words_free(b.argv);
    if (dlsh_cc_first_line(job) > 1) dlsh_buf_printf(&t, "%s:%d\n", job->file ? job->file : "", job->line);
    dlsh_buf_printf(&t, "%s\n%s\n", job->flags ? job->flags : "", job->prelude ? job->prelude : "");
    dlsh_buf_add(&t, job->text, job->len);
    if (strstr(dlsh_buf_text(&t), "dlcore.h")) dlsh_buf_puts(&t, header);
    if (!status && t.failed) status = dlsh_no_memory("C text");
    if (!status) dlsh_cc_hash(t.s, t.n, key);
    return status;
}

/* gcc's message that follows from a rejected return statement. */
static int follows(const dlsh_cc_message *m) { return strstr(m->text, "control reaches end of non-void") != NULL; }

/* The error of a finished compilation, DL_OK if it succeeded. Fills *r with the messages. */
static dl_status compiler_failure(build *b, int status, const dlsh_buf *said, dlsh_cc_result *r) {
    if (dlsh_interrupted() || (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT))
        return dlsh_fail(DL_ERR_INTERRUPT, NULL, "compiling was interrupted");
    DLSH_TRY(dlsh_cc_read_messages(b->job, said->s ? said->s : "", said->n, r));
    if (WIFEXITED(status) && !WEXITSTATUS(status)) return DL_OK;
    int errors = 0;
    const dlsh_cc_message *first = NULL;
    for (int i = 0; i < r->nmessages; i++)
        if (r->messages[i].error && (!errors || !follows(&r->messages[i])) && !errors++) first = &r->messages[i];
    errors += r->left_out[1];
    if (first && (errors > 1 || r->unread))
        return dlsh_fail(DL_ERR_SYNTAX, first->hint, "C: %s (and %d more error%s%s)", first->text, errors - 1,
                         errors == 2 ? "" : "s", r->unread ? " in the part of the messages that is read" : "");
    if (first) return dlsh_fail(DL_ERR_SYNTAX, first->hint, "C: %s", first->text);
    if (r->unread)
        return dlsh_fail(DL_ERR_SYNTAX, "C flags=\"-w\" { ... } leaves the warnings out",
                         "%s failed; its messages begin with %d KiB without an error, and %zu KiB more are not read",
                         b->argv[0], DLSH_CC_READ >> 10, (r->unread + 1023) >> 10);
    const char *s = said->s ? said->s : "";
    if (!strncmp(s, "[]", 2)) s += 2; /* gcc had nothing to say, its assembler or linker had */
    s += strspn(s, " \n");
    size_t n = strlen(s);
    while (n && isspace((unsigned char)s[n - 1])) n--;
    if (n > 300) n = 300;
    return dlsh_fail(DL_ERR_SYNTAX, NULL, "%s failed%s%.*s", b->argv[0], n ? ": " : " without a message", (int)n, s);
}

static dl_status run_build(build *b, dlsh_cc_result *r) {
    dlsh_output said = {.limit = DLSH_CC_READ};
    int status = 0;
    dl_status st = write_header(b->folder);
    if (!st) st = command_line(b);
    if (!st) st = write_source(b->job, wraps_threads(b), b->source);
    if (!st) st = dlsh_spawn_read(b->program, b->argv, 1, &said, &status);
    r->unread = said.left_out;
    if (!st) st = compiler_failure(b, status, &said.text, r);
    dlsh_buf_free(&said.text);
    dlsh_cc_words_free(b->argv);
    return st;
}

/* The files that compiled texts came from, each once. The path of a library holds the index of its file. */
static char **origins;
static int norigins, caporigins;

/* -1 without memory. */
static int add_origin(const char *file) {
    char **grown = dlsh_grow(origins, norigins, &caporigins, sizeof *grown), *copy = grown ? strdup(file) : NULL;
    if (grown) origins = grown;
    if (!copy) return -1;
    origins[norigins] = copy;
    return norigins++;
}

static int origin_number(const char *file) {
    for (int i = 0; i < norigins; i++)
        if (!strcmp(origins[i], file)) return i;
    return add_origin(file);
}

void dlsh_cc_set_origin(const char *path, const char *file) {
    const char *base = strrchr(path, '/');
    int serial, number, line;
    if (!base || sscanf(base, "/%d.%d.%d.so", &serial, &number, &line) != 3 || number > 9999) return;
    while (norigins <= number)
        if (add_origin("?") < 0) return;
    char *copy = strdup(file);
    if (!copy) return;
    free(origins[number]);
    origins[number] = copy;
}

const char *dlsh_cc_origin(const char *path, int *line) {
    const char *base = strrchr(path, '/');
    int serial, file;
    if (!base || sscanf(base, "/%d.%d.%d.so", &serial, &file, line) != 3 || file < 0 || file >= norigins) return NULL;
    return origins[file];
}

dl_status dlsh_cc_compile(const dlsh_cc_job *job, const char *key, dlsh_cc_result *r) {
    static int serial;
    *r = (dlsh_cc_result){0};
    build b = {.job = job, .folder = dlsh_cc_folder()};
    if (!b.folder) return dl_failed();
    snprintf(r->path, sizeof r->path, "%.200s/%d.%d.%d.so", b.folder, ++serial, origin_number(job->file),
             job->line - dlsh_cc_first_line(job) + 1);
    r->cached = dlsh_cc_cache_get(key, r->path);
    if (r->cached) return DL_OK;
    snprintf(b.source, sizeof b.source, "%s/%d.%s", b.folder, serial, job->cuda ? "cu" : "c");
    snprintf(b.depends, sizeof b.depends, "%s/%d.d", b.folder, serial);
    snprintf(b.map, sizeof b.map, "%s/%d.map", b.folder, serial);
    snprintf(b.so, sizeof b.so, "%s", r->path);
    dl_status st = run_build(&b, r);
    if (!st) dlsh_cc_cache_put(key, b.so, b.depends);
    if (st) unlink(b.so);
    unlink(b.source);
    unlink(b.depends);
    unlink(b.map);
    return st;
}

/* Questions to the C compiler about headers, layouts and prototypes, and the cache of its answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffi/compiler/query.h"
#include "ffi/compiler/compile.h"
#include "ffi/compiler/spawn.h"
#include "lang/session.h"

static int find_program(const char *words, char *program, size_t size) {
    char word[200];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(words, " "), words);
    return dlsh_spawn_find(word, program, size);
}

/* tcc cannot answer questions about types and values, and does not understand every header: another compiler is taken
 * where there is one. */
const char *dlsh_c_query_compiler(void) {
    const char *named = getenv("DLSH_CC");
    char program[400];
    if (!named || !*named) return "cc";
    if (!find_program(named, program, sizeof program) || dlsh_cc_family_of(program) != DLSH_CC_TCC) return named;
    return find_program("cc", program, sizeof program) && dlsh_cc_family_of(program) != DLSH_CC_TCC ? "cc" : named;
}

/* The compiler's words, then the arguments and the flags; NULL: recorded. */
static char **command(const char *const *args, const char *flags, int *argc) {
    char **argv = NULL;
    *argc = 0;
    dl_status st = dlsh_cc_words(dlsh_c_query_compiler(), &argv, argc);
    if (!st) st = dlsh_cc_add_words(&argv, argc, args);
    if (!st && flags) st = dlsh_cc_words(flags, &argv, argc);
    if (!st) return argv;
    dlsh_cc_words_free(argv);
    return NULL;
}

/* The name of the answer in the cache: a hash of all it depends on but the headers. */
static void key_of(const char *program, char *const *argv, const char *source, int errors, char key[DLSH_CC_KEY]) {
    DLSH_SCOPED_BUF t = {0};
    dlsh_buf_printf(&t, "ask %d ", errors);
    dlsh_cc_identify(program, &t);
    for (char *const *a = argv; *a; a++) dlsh_buf_printf(&t, "%s\n", *a);
    dlsh_buf_puts(&t, source);
    if (t.failed)
        *key = 0;
    else
        dlsh_cc_hash(t.s, t.n, key);
}

/* After errors compilers write no list of headers: runs the compiler again for the list alone. */
static void list_headers(const char *program, const char *flags, const char *path, const char *depends) {
    static const char *const only[] = {"-M", "-w", NULL};
    const char *const more[] = {"-MF", depends, path, NULL};
    dlsh_output said = {.limit = 1}; /* nothing of it is used */
    int status, argc;
    char **argv = command(only, flags, &argc);
    if (!argv || dlsh_cc_add_words(&argv, &argc, more) || dlsh_spawn_read(program, argv, 0, &said, &status))
        dl_error_clear();
    dlsh_cc_words_free(argv);
    dlsh_buf_free(&said.text);
}

/* Runs the compiler and caches its output with the headers that it read. Without a list of headers, as when one is
 * missing, nothing is cached: the header may be there next time. */
static dl_status run(const char *program, char ***argv, int argc, const char *flags, const char *source, int errors,
                     const char *key, dlsh_buf *said, int *good) {
    static int number;
    char path[400], depends[400];
    int status = 0;
    size_t before = said->n;
    dlsh_output all = {.text = *said};
    const char *folder = dlsh_cc_folder();
    if (!folder) return dl_failed();
    snprintf(path, sizeof path, "%s/ask%d.c", folder, number);
    snprintf(depends, sizeof depends, "%s/ask%d.d", folder, number++);
    DLSH_TRY(dlsh_cc_write_file(path, source, strlen(source)));
    const char *const more[] = {"-MD", "-MF", depends, path, NULL};
    dl_status st = dlsh_cc_add_words(argv, &argc, more);
    if (!st) st = dlsh_spawn_read(program, *argv, errors, &all, &status);
    *said = all.text;
    if (!st && said->failed) st = dlsh_no_memory("the compiler's output");
    *good = !st && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!st && *key && WIFEXITED(status)) {
        if (!*good) list_headers(program, flags, path, depends);
        dlsh_cc_cache_put_answer(key, said->s ? said->s + before : "", said->n - before, *good, depends);
    }
    unlink(path);
    unlink(depends);
    return st;
}

dl_status dlsh_c_query(const char *source, const char *const *args, const char *flags, int errors, dlsh_buf *said,
                       int *good) {
    char program[400], key[DLSH_CC_KEY];
    int argc;
    DLSH_ENDED(dlsh_cc_words_free) char **argv = command(args, flags, &argc);
    if (!argv) return dl_failed();
    if (!dlsh_spawn_find(argv[0], program, sizeof program))
        return dlsh_fail(DL_ERR_IO, "install gcc, or name a C compiler in DLSH_CC",
                         "there is no program '%s' to read C with", argv[0]);
    key_of(program, argv, source, errors, key);
    if (!(*key && dlsh_cc_cache_get_answer(key, said, good)))
        DLSH_TRY(run(program, &argv, argc, flags, source, errors, key, said, good));
    return DL_OK;
}

int dlsh_c_can_query(void) {
    char program[400];
    return find_program(dlsh_c_query_compiler(), program, sizeof program);
}

dlsh_cc_family dlsh_c_query_family(void) {
    char program[400];
    return find_program(dlsh_c_query_compiler(), program, sizeof program) ? dlsh_cc_family_of(program) : DLSH_CC_GCC;
}

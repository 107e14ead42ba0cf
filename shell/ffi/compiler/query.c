/* Questions to the C compiler: what a header says, how structs lie, whether a prototype is right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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

/* tcc has no words for types and values, and does not know all that headers hold; where there is another compiler, that
 * is asked. */
const char *dlsh_c_who(void) {
    const char *named = getenv("DLSH_CC");
    char program[400];
    if (!named || !*named) return "cc";
    if (!find_program(named, program, sizeof program) || dlsh_cc_family_of(program) != DLSH_CC_TCC) return named;
    return find_program("cc", program, sizeof program) && dlsh_cc_family_of(program) != DLSH_CC_TCC ? "cc" : named;
}

static dl_status no_memory(void) { return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to call the compiler"); }

static dl_status add_words(char **argv, const char *const *more) {
    int n = 0;
    while (argv[n]) n++;
    for (; more && *more; more++)
        if (!(argv[n++] = strdup(*more))) return no_memory();
    return DL_OK;
}

/* The compiler's words, then the options; NULL: recorded. */
static char **command(const char *const *args, const char *flags) {
    char **cc = NULL, **more = NULL, **argv = NULL;
    int ncc = 0, nmore = 0, nargs = 0;
    while (args[nargs]) nargs++;
    dl_status st = dlsh_cc_words(dlsh_c_who(), &cc, &ncc);
    if (!st && flags) st = dlsh_cc_words(flags, &more, &nmore);
    if (!st && !(argv = calloc((size_t)(ncc + nmore + nargs + 5), sizeof *argv))) st = no_memory();
    if (!st) st = add_words(argv, (const char *const *)cc);
    if (!st) st = add_words(argv, args);
    if (!st && more) st = add_words(argv, (const char *const *)more);
    if (cc) dlsh_cc_words_free(cc);
    if (more) dlsh_cc_words_free(more);
    if (!st) return argv;
    dlsh_cc_words_free(argv);
    return NULL;
}

static dl_status write_source(const char *path, const char *source) {
    FILE *f = fopen(path, "w");
    int good = f && fputs(source, f) >= 0;
    if (f && fclose(f)) good = 0;
    return good ? DL_OK : dlsh_fail(DL_ERR_IO, NULL, "%s cannot be written", path);
}

/* What the answer depends on, headers apart, as a name. */
static void key_of(const char *program, char *const *argv, const char *source, int errors, char key[DLSH_CC_KEY]) {
    dlsh_buf t = {0};
    dlsh_buf_printf(&t, "ask %d ", errors);
    dlsh_cc_identify(program, &t);
    for (char *const *a = argv; *a; a++) dlsh_buf_printf(&t, "%s\n", *a);
    dlsh_buf_puts(&t, source);
    if (t.failed)
        *key = 0;
    else
        dlsh_cc_hash(t.s, t.n, key);
    dlsh_buf_free(&t);
}

/* After errors compilers do not list the headers: asks once more, for nothing else. */
static void list_headers(const char *program, const char *flags, const char *path, const char *depends) {
    static const char *const only[] = {"-M", "-w", NULL};
    const char *const more[] = {"-MF", depends, path, NULL};
    dlsh_said said = {.most = 1}; /* nothing of it is used */
    int status;
    char **argv = command(only, flags);
    if (!argv || add_words(argv, more) || dlsh_spawn_read(program, argv, 0, &said, &status)) dl_error_clear();
    dlsh_cc_words_free(argv);
    dlsh_buf_free(&said.text);
}

/* The compiler at work. What it says is kept, with the headers it read; a header that is missing may be there
 * tomorrow: then there is no list of headers, and nothing is kept. */
static dl_status ask(const char *program, char **argv, const char *flags, const char *source, int errors,
                     const char *key, dlsh_buf *said, int *good) {
    static int number;
    char path[400], depends[400];
    int status = 0;
    size_t before = said->n;
    dlsh_said all = {.text = *said}; /* what is asked for, of any length */
    const char *folder = dlsh_cc_folder();
    if (!folder) return dl_failed();
    snprintf(path, sizeof path, "%s/ask%d.c", folder, number);
    snprintf(depends, sizeof depends, "%s/ask%d.d", folder, number++);
    DLSH_TRY(write_source(path, source));
    const char *const more[] = {"-MD", "-MF", depends, path, NULL};
    dl_status st = add_words(argv, more);
    if (!st) st = dlsh_spawn_read(program, argv, errors, &all, &status);
    *said = all.text;
    if (!st && said->failed) st = DL_ERR_MEMORY;
    *good = !st && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!st && *key && WIFEXITED(status)) {
        if (!*good) list_headers(program, flags, path, depends);
        dlsh_cc_keep_answer(key, said->s ? said->s + before : "", said->n - before, *good, depends);
    }
    unlink(path);
    unlink(depends);
    return st;
}

dl_status dlsh_c_ask(const char *source, const char *const *args, const char *flags, int errors, dlsh_buf *said,
                     int *good) {
    char program[400], key[DLSH_CC_KEY];
    char **argv = command(args, flags);
    dl_status st = argv ? DL_OK : dl_failed();
    if (!st && !dlsh_spawn_find(argv[0], program, sizeof program))
        st = dlsh_fail(DL_ERR_IO, "install gcc, or name a C compiler in DLSH_CC",
                       "there is no program '%s' to read C with", argv[0]);
    if (!st) key_of(program, argv, source, errors, key);
    if (!st && !(*key && dlsh_cc_answer(key, said, good)))
        st = ask(program, argv, flags, source, errors, key, said, good);
    dlsh_cc_words_free(argv);
    return st;
}

int dlsh_c_can_ask(void) {
    char program[400];
    return find_program(dlsh_c_who(), program, sizeof program);
}

dlsh_cc_family dlsh_c_ask_family(void) {
    char program[400];
    return find_program(dlsh_c_who(), program, sizeof program) ? dlsh_cc_family_of(program) : DLSH_CC_GCC;
}

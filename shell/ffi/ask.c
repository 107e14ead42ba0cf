/* Questions to the C compiler: what a header says, how structs lie, whether a prototype is right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ffi/ask.h"
#include "ffi/compile.h"
#include "ffi/spawn.h"
#include "lang/session.h"

/* The compiler's words, then the options, then the file; NULL: recorded. */
static char **command(const char *const *args, const char *flags, const char *file) {
    const char *named = getenv("DLSH_CC");
    char **cc = NULL, **more = NULL, **argv = NULL;
    int ncc = 0, nmore = 0, n = 0, nargs = 0;
    while (args[nargs]) nargs++;
    if (!dlsh_cc_words(named && *named ? named : "cc", &cc, &ncc) && (!flags || !dlsh_cc_words(flags, &more, &nmore)) &&
        !(argv = calloc((size_t)(ncc + nmore + nargs + 2), sizeof *argv)))
        dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to call the compiler");
    for (int i = 0; argv && i < ncc; i++) argv[n++] = strdup(cc[i]);
    for (int i = 0; argv && i < nargs; i++) argv[n++] = strdup(args[i]);
    for (int i = 0; argv && i < nmore; i++) argv[n++] = strdup(more[i]);
    if (argv) argv[n++] = strdup(file);
    if (cc) dlsh_cc_words_free(cc);
    if (more) dlsh_cc_words_free(more);
    return argv;
}

static dl_status write_source(const char *path, const char *source) {
    FILE *f = fopen(path, "w");
    int good = f && fputs(source, f) >= 0;
    if (f && fclose(f)) good = 0;
    return good ? DL_OK : dlsh_fail(DL_ERR_IO, NULL, "%s cannot be written", path);
}

dl_status dlsh_c_ask(const char *source, const char *const *args, const char *flags, int errors, dlsh_buf *said,
                     int *good) {
    static int number;
    char path[400], program[400];
    int status = 0;
    const char *folder = dlsh_cc_folder();
    if (!folder) return dlsh_failure();
    snprintf(path, sizeof path, "%s/ask%d.c", folder, number++);
    DLSH_TRY(write_source(path, source));
    char **argv = command(args, flags, path);
    dl_status st = argv ? DL_OK : dlsh_failure();
    if (!st && !dlsh_spawn_find(argv[0], program, sizeof program))
        st = dlsh_fail(DL_ERR_IO, "install gcc, or name a C compiler in DLSH_CC",
                       "there is no program '%s' to read C with", argv[0]);
    if (!st) st = dlsh_spawn_read(program, argv, errors, said, &status);
    if (!st && said->failed) st = DL_ERR_MEMORY;
    *good = !st && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    for (char **a = argv; a && *a; a++) free(*a);
    free(argv);
    unlink(path);
    return st;
}

int dlsh_c_can_ask(void) {
    const char *named = getenv("DLSH_CC");
    char program[400], word[200];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(named && *named ? named : "cc", " "),
             named && *named ? named : "cc");
    return dlsh_spawn_find(word, program, sizeof program);
}

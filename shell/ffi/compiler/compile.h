/* Compiles C text to a shared library: the system's compiler, a cache by content, and the compiler's messages with
 * their place in the text's own file. */
#pragma once

#include "lang/value.h"

enum { DLSH_CC_KEY = 33 }; /* 32 hex digits and the end */

/* The file name of the text in compiled code, where lines count from 1, so that the code does not depend on where the
 * text stands. */
#define DLSH_CC_FILE "<C>"

typedef enum dlsh_cc_family { DLSH_CC_GCC, DLSH_CC_CLANG, DLSH_CC_TCC, DLSH_CC_NVCC } dlsh_cc_family;
/* The family of a C compiler, by the name of the program behind its links: cc is often a link to gcc or clang. */
dlsh_cc_family dlsh_cc_family_of(const char *program);

typedef struct dlsh_cc_job {
    int cuda;             /* nvcc instead of a C compiler */
    const char *compiler; /* NULL: $DLSH_CC, else cc; for CUDA $DLSH_NVCC, else nvcc. May hold options, too */
    const char *flags;    /* more options, as a shell would read them; NULL: none */
    const char *prelude;  /* C text before it, not counted in messages; NULL: none */
    const char *text;     /* need not end with a NUL */
    size_t len;
    const char *suffix;  /* C text after it; takes no part in the key */
    const char *exports; /* names of dynamic symbols, separated by `;`, wildcards allowed; NULL: all. Not in the key */
    const char *file;    /* where the text begins, for messages and debuggers */
    int line, col;
} dlsh_cc_job;

/* One message of the compiler. */
typedef struct dlsh_cc_message {
    int error;     /* else a warning */
    int line, col; /* as counted from job->line, job->col; 0: no place, or one outside of the text */
    int width;     /* length of the marked text in bytes, at least 1 */
    char text[320], hint[160];
} dlsh_cc_message;

typedef struct dlsh_cc_result {
    char path[256];            /* a new file in a folder that is removed with the process */
    int cached;                /* it had been compiled before */
    dlsh_cc_message *messages; /* at most DLSH_CC_KEPT warnings and as many errors */
    int nmessages;
    int kept[2], left_out[2]; /* of warnings and of errors */
    size_t unread;            /* bytes of messages beyond the first DLSH_CC_READ */
} dlsh_cc_result;
enum { DLSH_CC_KEPT = 20, DLSH_CC_READ = 256 << 10 };
void dlsh_cc_result_free(dlsh_cc_result *r);

/* The line number of the text's first line for the compiler: 1, so that equal texts at different places share a cache
 * entry, or the true one when the text uses it (__LINE__, assert). */
int dlsh_cc_first_line(const dlsh_cc_job *job);
/* The key of the compiled code: a hash of text, prelude, options, compiler, and `copy`, which distinguishes equal texts
 * of a session. DL_ERR_IO: there is no such compiler. */
dl_status dlsh_cc_key(const dlsh_cc_job *job, int copy, char key[DLSH_CC_KEY]);
/* Compiles, or copies the cached library to a new file: loading a file twice would give the old code. *r is filled in
 * any case and freed by the caller. DL_ERR_SYNTAX (with the first error), DL_ERR_IO, DL_ERR_MEMORY, DL_ERR_INTERRUPT.
 * */
dl_status dlsh_cc_compile(const dlsh_cc_job *job, const char *key, dlsh_cc_result *r);
/* Removes an entry whose library could not be loaded. */
void dlsh_cc_cache_remove(const char *key);
/* The file and the line where the text of a compiled library at `path` begins; NULL: it is none. */
const char *dlsh_cc_origin(const char *path, int *line);
/* Sets that file for a library of another process. */
void dlsh_cc_set_origin(const char *path, const char *file);
/* The words of a text, quotes and backslashes read as a shell reads them, after *argv (malloc'ed, NULL at its end).
 * DL_ERR_VALUE: an open quote. */
dl_status dlsh_cc_words(const char *text, char ***argv, int *argc);
/* Appends words as they are, up to a NULL. */
dl_status dlsh_cc_add_words(char ***argv, int *argc, const char *const *words);
void dlsh_cc_words_free(char **argv);
DLSH_ENDS(dlsh_cc_words_free, char *)

/* ---- within (ccache.c, ccmessages.c, threads.c) */

/* Does the text call pthread_create? The wrapper is then appended to it. */
int dlsh_cc_starts_threads(const dlsh_cc_job *job);
extern const char dlsh_cc_threads[];

/* The temporary folder of this process, created at the first call; NULL recorded. */
const char *dlsh_cc_folder(void);
/* Writes a cached library to a new file. 1: it is intact, owned by the user, and its headers are unchanged. */
int dlsh_cc_cache_get(const char *key, const char *to);
/* Enters a library and the list of its headers (a makefile of gcc's -MD); failures only lose the entry. */
void dlsh_cc_cache_put(const char *key, const char *so, const char *depends);
/* The same for the output of a compiler: 1, with the text added to *said. */
int dlsh_cc_cache_get_answer(const char *key, dlsh_buf *said, int *good);
void dlsh_cc_cache_put_answer(const char *key, const char *said, size_t n, int good, const char *depends);
dl_status dlsh_cc_write_file(const char *path, const char *s, size_t n);
/* The key of a text: its hash. */
void dlsh_cc_hash(const char *text, size_t n, char key[DLSH_CC_KEY]);
/* Adds the line "SIZE SECONDS NANOSECONDS PATH" of a file, its time of change; nothing when there is none. */
void dlsh_cc_identify(const char *path, dlsh_buf *out);
/* Messages in gcc's JSON or the lines that compilers print. */
dl_status dlsh_cc_read_messages(const dlsh_cc_job *job, const char *output, size_t n, dlsh_cc_result *r);

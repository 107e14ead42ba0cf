/* Sets of names and words of C text, each with flags. */
#pragma once

#include "dlcore.h"
#include <stddef.h>

typedef struct dlsh_cword {
    char *text;
    int flags;
} dlsh_cword;

typedef struct dlsh_cwords {
    dl_names table;
    dlsh_cword *words;
    int n, cap;
} dlsh_cwords;

/* Adds flags to a word. DL_ERR_MEMORY. */
dl_status dlsh_cwords_add(dlsh_cwords *w, const char *word, size_t len, int flags);
/* The same for all words of C text outside of comments and strings; those of its directives count, too. */
dl_status dlsh_cwords_add_text(dlsh_cwords *w, const char *text, int flags);
/* The flags of a word; 0: it is not there. */
int dlsh_cwords_flags(const dlsh_cwords *w, const char *word, size_t len);
/* Does C text have a word with one of the flags? */
int dlsh_cwords_in_text(const dlsh_cwords *w, const char *text, int flags);
void dlsh_cwords_free(dlsh_cwords *w);
/* Does C text mention a name, outside of comments and strings? */
int dlsh_c_mentions(const char *text, const char *name);

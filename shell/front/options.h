/* The command line of dlsh. */
#pragma once

#include <stdio.h>

typedef struct dlsh_options {
    const char *code; /* -c */
    int interactive, quiet, no_rc, keep_going, echo;
    const char *db, *device, *seed, *mode;
    int version, help;
    const char *script; /* NULL: none; "-": standard input */
    int script_help;    /* FILE.dlsh --help */
    int kernel;         /* `kernel`: the words after it are its own */
    int sweep;          /* `dlsh sweep`: words are what follows */
    int nwords;         /* name=value after the script */
    char **words;
} dlsh_options;

/* Reads argv. On a mistake prints one line that names the nearest option to standard error and returns 0. */
int dlsh_options_read(int argc, char **argv, dlsh_options *out);
/* What --help prints. */
void dlsh_options_help(FILE *f);

/* Where the cursor stands in unfinished text: which statement, inside which bracket, string or net. For completion,
 * where the text does not parse yet. */
#pragma once

#include <stddef.h>

typedef struct dlsh_cursor {
    size_t statement; /* offset where the statement begins */
    size_t bracket;   /* offset of the innermost open ( or [ of the statement, if `open` */
    char open;        /* '(', '[' or 0 */
    char quote;       /* the string's quote when inside one, else 0 */
    size_t string;    /* offset of its first character */
    int net;          /* inside the braces of a net */
    int comment;
    int blocks; /* open { */
} dlsh_cursor;

/* Looks at text[0, len), the cursor being at its end. */
dlsh_cursor dlsh_scan(const char *text, size_t len);

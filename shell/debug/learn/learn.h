/* Learning by prediction: what its files share. */
#pragma once

#include "lang/session.h"

/* Answers that `predict` was given by people, and how many were right. */
typedef struct dlsh_score {
    long asked, right;
    int left; /* the last question was left by q: a lesson ends there */
} dlsh_score;
extern dlsh_score dlsh_predicted;

/* A lesson is a script whose comments at the beginning of lines are prose, in Markdown. A part is a run of such
 * comments, or what stands between two. */
typedef struct dlsh_lesson_part {
    const char *text; /* in the lesson's */
    size_t n;
    int prose, line; /* line: of its beginning, from 1 */
} dlsh_lesson_part;
/* The next part of text, beginning at *at and line *line, which move on; 0 at the end. */
int dlsh_lesson_next(const char *text, size_t *at, int *line, dlsh_lesson_part *out);
/* Appends prose without comment signs, the lines of a paragraph joined. */
void dlsh_lesson_prose(const dlsh_lesson_part *p, dlsh_buf *out);
/* "Lesson 1: The slope of one number", the heading of the text. */
void dlsh_lesson_title(const char *text, dlsh_buf *out);

/* Is a line of input the word by which people leave: q, quit, exit? */
int dlsh_is_leaving(const char *line);

/* The built-in lessons, from 1; NULL: there are fewer. */
const char *dlsh_lesson_text(long number);

/* Writes a lesson to a file: a script, or a notebook by the name .ipynb. */
dl_status dlsh_lesson_write(const char *text, const char *path);

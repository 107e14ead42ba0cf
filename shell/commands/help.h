/* Topics of `help`, for completion and the manual. */
#pragma once

#include "lang/session.h"

/* Calls visit for every topic, group by group: "train" and its commands, "ops", "settings", "language", ... doc is one
 * sentence. A name may come twice. */
typedef void dlsh_topic_visit(void *arg, const char *group, const char *name, const char *doc);
void dlsh_help_topics(dlsh_session *s, dlsh_topic_visit *visit, void *arg);

/* Appends the pages about a topic, or about a variable (NULL: the index of all). Returns 0 when there is none. */
int dlsh_help_page(dlsh_session *s, const char *topic, const dlsh_look *look, dlsh_buf *out);

/* The same of a word of commands that have some of their own, as dbg has. */
int dlsh_help_word(dlsh_session *s, const char *word, const dlsh_look *look, dlsh_buf *out);

/* Markdown of all commands and functions, and of all settings: docs/commands.md, docs/settings.md. */
dl_status dlsh_docs_commands(dlsh_session *s, dlsh_buf *out);
dl_status dlsh_docs_settings(dlsh_buf *out);

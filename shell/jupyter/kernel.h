/* The notebook kernel: what its files share on the session's thread. jupyter/io.h has the thread of the sockets. */
#pragma once

#include "jupyter/io.h"
#include "lang/session.h"

/* The state of the kernel; only the session's thread uses it. */
typedef struct jup_kernel {
    dlsh_session *s;
    jup_request *request; /* being answered */
    long count;           /* the number of the last cell that counted */
    int silent;           /* nothing of it is to be seen */
    int may_ask;          /* the client answers input_request */
    json_t *payload;      /* of the reply: pages, end of the session */
    dlsh_buf script;      /* the cells so far */
} jup_kernel;
extern jup_kernel jup;

/* ---- interrupts (jupyter/kernel.c) */
/* Interrupts the cell that runs, if one does; from any thread. */
void jup_interrupt(void);
/* Whether the cell that runs was interrupted. */
int jup_interrupted(void);
/* A cell begins, or has ended. */
void jup_running(int on);
/* Whether one runs; from any thread. */
int jup_is_running(void);

/* ---- cells that a failed cell aborts (jupyter/abort.c) */
/* This cell has failed, before its reply is posted: cells that were sent without knowing it are aborted. */
void jup_cell_failed(const jup_request *r);
/* Whether this cell is one of them; to be asked once for each, in their order. */
int jup_cell_aborted(const jup_request *r);

/* ---- answers: the content of the reply, or NULL for a request without one */
json_t *jup_execute(jup_request *r);  /* jupyter/cell.c */
json_t *jup_complete(jup_request *r); /* jupyter/complete.c */
json_t *jup_inspect(jup_request *r);  /* jupyter/query.c, and so on */
json_t *jup_is_complete(jup_request *r);
json_t *jup_comm_info(jup_request *r);
json_t *jup_comm_open(jup_request *r);
/* Needs no session, nor a request, and may be called from any thread. */
json_t *jup_kernel_info(jup_request *r);
json_t *jup_history(jup_request *r); /* jupyter/history.c */
json_t *jup_debug(jup_request *r);   /* jupyter/debugger.c */
/* Begins the end of the kernel; any thread. */
json_t *jup_shutdown(jup_request *r); /* jupyter/kernel.c */
/* {"status": "error", ...} */
json_t *jup_failure(const char *name, const char *message);
/* The failure of a request that has no string of that name. */
json_t *jup_refused(const char *what);
/* The code of a request and the cursor in bytes; 0 when there is no code. */
int jup_code_and_cursor(jup_request *r, const char **code, size_t *len, size_t *cursor);

/* Answers a request whole, of the session's thread (jupyter/kernel.c). */
void jup_answer(jup_request *r);

/* ---- the debugger (jupyter/debugger.c) */
/* Whether the session's thread has to answer; any thread. */
int jup_debug_needs_session(const jup_request *r);
/* Whether no client is attached; any thread. */
int jup_debug_left(void);
/* A cell is about to run under this number. */
void jup_debug_cell(long number, const char *code, size_t len);
/* Before the thread of the sockets begins, after it has ended. */
void jup_debug_open(void);
void jup_debug_close(void);

/* ---- history (jupyter/history.c) */
/* Keeps a cell under its number; output (NULL: none) is the text of its result. */
void jup_history_add(long number, const char *code, size_t len, const char *output);
void jup_history_close(void);

/* ---- cells (jupyter/magic.c) */
/* The text of a cell as the language reads it: %%c and %time rewritten, every line in its place, and every column but
 * those after %%c. To be freed; NULL without memory. */
char *jup_cell_text(const char *code, size_t len, size_t *out_len);
/* Whether the cell begins with %%c, with %%time. */
int jup_cell_is_c(const char *code, size_t len);
int jup_cell_timed(const char *code, size_t len);

/* ---- the client (jupyter/launcher.c) */
/* How it can show a long action: as a display that is updated, as lines, as a line that is redrawn. */
typedef enum jup_progress { JUP_DISPLAYS, JUP_LINES, JUP_REDRAWS } jup_progress;
/* What the client that started this kernel can; displays, when it is not known. */
jup_progress jup_launcher_shows(void);

/* ---- the sink (jupyter/sink.c) */
dlsh_sink *jup_sink(void);
/* A value as the result of a cell: bundle as execute_result. */
dl_status jup_show_result(dlsh_value v, dlsh_buf *text);
/* data and metadata of a bundle as the protocol has them, to be shown or for a program; both owned by the caller. */
void jup_bundle_json(const dlsh_bundle *b, int to_see, json_t **data, json_t **metadata);
/* A page of the manual as the data of a message: text, HTML and Markdown. */
void jup_page_json(json_t *data, const char *text, size_t n);
/* A bundle of a value, as for a result; handles show themselves. */
dl_status jup_value_bundle(dlsh_value v, dlsh_bundle *b);
/* Before and after each cell. */
void jup_sink_begin(void);

/* What was typed at the prompt, or run in cells, as one text. */
#include "debug/doctor/text/joined.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/texts.h"
#include "debug/doctor/trace.h"

const char dlsh_joined_name[] = "<session>";

typedef struct piece {
    const dlsh_unit *u;
    int line, start; /* lines and bytes before it */
} piece;

/* A piece that another came instead of. */
typedef struct former {
    const dlsh_unit *u, *by;
} former;

static struct {
    dlsh_unit unit;
    piece *pieces;
    former *formers;
    int n, nformers;
    void **owned; /* copies of nodes, of the tree and of passes */
    long nowned, room;
} joined;

/* ---------------------------------------------------------------- which pieces count */

int dlsh_is_piece(const dlsh_unit *u) {
    return (u->name[0] == '<' && isdigit((unsigned char)u->name[1])) || !strncmp(u->name, "In [", 4);
}

/* The next statement, or part of one, without the spaces around it; NULL: none. */
static const char *next_part(const char **at, int *n) {
    while (**at) {
        const char *p = *at + strspn(*at, " \t\n;{}");
        const size_t whole = strcspn(p, "\n;{}");
        *n = (int)whole;
        while (*n && isspace((unsigned char)p[*n - 1])) --*n;
        *at = p + whole;
        if (*n) return p;
    }
    return NULL;
}

static int has_part(const dlsh_unit *u, const char *part, int n) {
    const char *at = u->text, *p;
    int k;
    while ((p = next_part(&at, &k)))
        if (k == n && !memcmp(p, part, (size_t)n)) return 1;
    return 0;
}

/* Was a piece changed and run again? More than half of its parts are in the later one. */
static int is_replaced(const dlsh_unit *u, const dlsh_unit *by) {
    const char *at = u->text, *p;
    int n, all = 0, there = 0;
    if (!strcmp(u->text, by->text)) return 1;
    while ((p = next_part(&at, &n))) all++, there += has_part(by, p, n);
    return all > 1 && 2 * there > all;
}

/* The last piece that came instead of text i; NULL: it counts itself. */
static const dlsh_unit *replacement_of(int i) {
    const dlsh_unit *u = dlsh_kept_text(i), *later;
    for (int k = 0; k < i; k++)
        if (dlsh_is_piece(later = dlsh_kept_text(k)) && is_replaced(u, later)) return later;
    return NULL;
}

/* ---------------------------------------------------------------- the text and its tree */

static void *own(size_t size) {
    if (joined.nowned == joined.room) {
        const long room = joined.room ? 2 * joined.room : 256;
        void **more = realloc(joined.owned, (size_t)room * sizeof *more);
        if (!more) return NULL;
        joined.owned = more, joined.room = room;
    }
    void *p = malloc(size);
    if (p) joined.owned[joined.nowned++] = p;
    return p;
}

static dlsh_node *copy_node(const dlsh_node *n, const piece *of) {
    dlsh_node *c = own(sizeof *c + (size_t)n->nkids * sizeof *c->kids);
    if (!c) return NULL;
    *c = *n;
    c->kids = (dlsh_node **)(c + 1);
    c->span.line += of->line, c->span.start += of->start, c->span.end += of->start;
    for (int i = 0; i < n->nkids; i++)
        if ((c->kids[i] = n->kids[i]) && !(c->kids[i] = copy_node(n->kids[i], of))) return NULL;
    return c;
}

static dl_status add_statements(dlsh_node *root, const piece *p) {
    for (int i = 0; i < p->u->root->nkids; i++)
        if (!(root->kids[root->nkids++] = copy_node(p->u->root->kids[i], p))) return dlsh_no_memory("the text");
    return DL_OK;
}

static int lines_in(const char *text) {
    int n = 1;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static dl_status add_pieces(dlsh_buf *text) {
    dlsh_node *root = NULL;
    int line = 0, statements = 0;
    for (int i = 0; i < joined.n; i++) {
        piece *p = &joined.pieces[i];
        p->line = line, p->start = (int)text->n;
        dlsh_buf_printf(text, "%s\n", p->u->text);
        line += lines_in(p->u->text);
        statements += p->u->root->nkids;
    }
    if (text->failed || !(root = own(sizeof *root + (size_t)statements * sizeof(dlsh_node *))))
        return dlsh_no_memory("the text");
    *root = *joined.pieces[0].u->root;
    root->kids = (dlsh_node **)(root + 1), root->nkids = 0;
    root->span.end = (int)text->n;
    for (int i = 0; i < joined.n; i++) DLSH_TRY(add_statements(root, &joined.pieces[i]));
    joined.unit = (dlsh_unit){.name = dlsh_joined_name, .text = text->s, .len = text->n, .root = root};
    return DL_OK;
}

dl_status dlsh_texts_join(void) {
    int n = 0;
    while (dlsh_kept_text(n)) n++;
    joined.pieces = calloc((size_t)n + 1, sizeof *joined.pieces);
    joined.formers = calloc((size_t)n + 1, sizeof *joined.formers);
    if (!joined.pieces || !joined.formers) return dlsh_no_memory("the text");
    for (int i = n - 1; i >= 0; i--) {
        const dlsh_unit *u = dlsh_kept_text(i), *by = dlsh_is_piece(u) ? replacement_of(i) : NULL;
        if (by)
            joined.formers[joined.nformers++] = (former){u, by};
        else if (dlsh_is_piece(u))
            joined.pieces[joined.n++].u = u;
    }
    dlsh_buf text = {0};
    dl_status st = joined.n ? add_pieces(&text) : DL_OK;
    if (!joined.unit.root) dlsh_buf_free(&text);
    dlsh_names_remember(1);
    return st;
}

void dlsh_texts_part(void) {
    dlsh_names_remember(0);
    for (long i = 0; i < joined.nowned; i++) free(joined.owned[i]);
    free(joined.owned);
    free(joined.pieces);
    free(joined.formers);
    free(joined.unit.text);
    memset(&joined, 0, sizeof joined);
}

const dlsh_unit *dlsh_joined_text(void) { return joined.unit.root ? &joined.unit : NULL; }

/* ---------------------------------------------------------------- places */

static const former *former_of(const char *file) {
    for (int i = 0; file && i < joined.nformers; i++)
        if (!strcmp(joined.formers[i].u->name, file)) return &joined.formers[i];
    return NULL;
}

/* Of a piece that was run again as it was, the place in its last copy. */
dl_source dlsh_join_source(dl_source at) {
    const former *f = former_of(at.file);
    const char *name = f && !strcmp(f->by->text, f->u->text) ? f->by->name : at.file;
    for (int i = 0; at.file && i < joined.n; i++)
        if (!strcmp(joined.pieces[i].u->name, name))
            return (dl_source){dlsh_joined_name, joined.pieces[i].line + at.line};
    return at;
}

int dlsh_is_outdated(const char *file) {
    const former *f = former_of(file);
    return f && strcmp(f->by->text, f->u->text) != 0;
}

static void join_place(const char **file, int *line) {
    const dl_source at = dlsh_join_source((dl_source){*file, *line});
    *file = at.file, *line = at.line;
}

dl_status dlsh_join_row(dl_journal_row *r) {
    if (!joined.n) return DL_OK;
    join_place(&r->file, &r->line);
    r->seeded = dlsh_join_source(r->seeded);
    r->joint = dlsh_join_source(r->joint);
    for (int k = 0; k < 2; k++) {
        dl_journal_node *copy = own((size_t)(r->nnodes[k] + 1) * sizeof *copy);
        if (!copy) return dlsh_no_memory("the journal");
        for (long i = 0; i < r->nnodes[k]; i++) {
            copy[i] = r->nodes[k][i];
            join_place(&copy[i].file, &copy[i].line);
            join_place(&copy[i].layer_file, &copy[i].layer_line);
            for (int v = 0; v < copy[i].nin && v < 8; v++) {
                copy[i].in[v].made = dlsh_join_source(copy[i].in[v].made);
                copy[i].in[v].written = dlsh_join_source(copy[i].in[v].written);
            }
        }
        if (r->nnodes[k]) r->nodes[k] = copy;
    }
    return DL_OK;
}

/* Where the trainer was made that the statement of a line, train t or step t, goes on with; -1: it is none. */
static int trainer_at(const char *file, int line) {
    int at = -1;
    const dlsh_node *n = dlsh_statement_at(file, line);
    const char *by = n && n->kind == DLSH_N_COMMAND && n->num.cmd ? n->num.cmd->name : "";
    const dlsh_node *t = dlsh_is_word("train|step", by) && n->nkids ? n->kids[0] : NULL;
    if (t && t->kind == DLSH_N_ARG) t = t->kids[0];
    return t && t->kind == DLSH_N_NAME && dlsh_definition_of(file, t->text, n->span.start, &at) ? at : -1;
}

/* Do both count as one place: a piece that was typed again, or statements that go on with one trainer? */
static int is_place_of(const dl_journal_row *a, const dl_journal_row *r) {
    if (a->kind != r->kind || a->what != r->what || a->training != r->training || a->grad != r->grad) return 0;
    if (strcmp(a->file, r->file) != 0) return 0;
    if (a->line == r->line) return a->file == dlsh_joined_name;
    const int t = trainer_at(a->file, a->line);
    return t >= 0 && t == trainer_at(r->file, r->line);
}

/* The later row goes on with what the first one did, as if the place had been in a loop. */
static void go_on(dl_journal_row *first, const dl_journal_row *r) {
    dl_journal_row a = *first, sum = *r;
    sum.at = a.at, sum.first = a.first, sum.ratio[0] = a.ratio[0];
    sum.nnodes[0] = a.nnodes[0], sum.nodes[0] = a.nodes[0];
    sum.low = fmin(a.low, r->low), sum.high = fmax(a.high, r->high), sum.sum += a.sum;
    sum.ratio[2] = fmin(a.ratio[2], r->ratio[2]), sum.ratio[3] = fmax(a.ratio[3], r->ratio[3]);
    sum.count += a.count, sum.since += a.count, sum.empty += a.empty, sum.again += a.again;
    sum.looked += a.looked, sum.alike += a.alike, sum.moved += a.moved, sum.reseeded += a.reseeded;
    sum.reached += a.reached;
    const int room = (int)DLSH_COUNT(sum.curve) - a.ncurve, more = r->ncurve < room ? r->ncurve : room;
    memcpy(sum.curve, a.curve, (size_t)a.ncurve * sizeof *sum.curve);
    memcpy(sum.curve + a.ncurve, r->curve, (size_t)more * sizeof *sum.curve);
    sum.ncurve = a.ncurve + more, sum.every = a.every > r->every ? a.every : r->every;
    *first = sum;
}

int dlsh_join_rows(dl_journal_row *rows, long n, const dl_journal_row *r) {
    for (long i = 0; i < n; i++)
        if (is_place_of(&rows[i], r)) {
            if (rows[i].till < r->till) go_on(&rows[i], r);
            return rows[i].till == r->till;
        }
    return 0;
}

static const piece *piece_of(int line) {
    int i = joined.n - 1;
    while (i > 0 && joined.pieces[i].line >= line) i--;
    return &joined.pieces[i];
}

dl_source dlsh_part_source(dl_source at) {
    if (!joined.n || !at.file || strcmp(at.file, dlsh_joined_name) != 0) return at;
    const piece *p = piece_of(at.line);
    return (dl_source){p->u->name, at.line - p->line};
}

/* Puts a number of the text as a place in its piece. */
static void put_place(dlsh_buf *b, int line) {
    const dl_source at = dlsh_part_source((dl_source){dlsh_joined_name, line});
    dlsh_buf_printf(b, "%s:%d", at.file, at.line);
}

/* How many bytes at p come before a line's number: "<session>:", or of the finding's own file "line " and "lines ". */
static size_t before_number(const char *p, int bare) {
    static const char *const words[] = {"line ", "lines "};
    const size_t n = strlen(dlsh_joined_name);
    if (!strncmp(p, dlsh_joined_name, n) && p[n] == ':' && isdigit((unsigned char)p[n + 1])) return n + 1;
    for (size_t i = 0; bare && i < DLSH_COUNT(words); i++)
        if (!strncmp(p, words[i], strlen(words[i])) && isdigit((unsigned char)p[strlen(words[i])]))
            return strlen(words[i]);
    return 0;
}

/* What stands between two numbers of "lines 3, 5 and 7". */
static size_t between_numbers(const char *p) {
    static const char *const words[] = {", ", " and ", " to "};
    for (size_t i = 0; i < DLSH_COUNT(words); i++)
        if (!strncmp(p, words[i], strlen(words[i])) && isdigit((unsigned char)p[strlen(words[i])]))
            return strlen(words[i]);
    return 0;
}

/* The words with the places of pieces; `bare`: lines without a file are of the text, too. */
static void part_words(const char *p, int bare, dlsh_buf *to) {
    while (*p) {
        size_t n = before_number(p, bare);
        const int several = !strncmp(p, "lines ", 6);
        if (!n || *p == 'l') dlsh_buf_add(to, p, n ? n : 1);
        p += n ? n : 1;
        while (n) {
            char *end;
            put_place(to, (int)strtol(p, &end, 10));
            n = several ? between_numbers(end) : 0;
            dlsh_buf_add(to, end, n);
            p = end + n;
        }
    }
}

static void part_words_of(char *text, size_t size, int bare) {
    dlsh_buf b = {0};
    part_words(text, bare, &b);
    if (!b.failed) snprintf(text, size, "%s", dlsh_buf_text(&b));
    dlsh_buf_free(&b);
}

void dlsh_part_text(dlsh_buf *text) {
    dlsh_buf b = {0};
    if (!joined.n || !text->n) return;
    part_words(dlsh_buf_text(text), 0, &b);
    dlsh_buf_free(text);
    *text = b;
}

void dlsh_part_finding(dlsh_finding *f) {
    const int of_text = joined.n && f->file && !strcmp(f->file, dlsh_joined_name);
    if (!joined.n) return;
    part_words_of(f->cause, sizeof f->cause, of_text);
    part_words_of(f->evidence, sizeof f->evidence, of_text);
    if (!of_text) return;
    const dl_source at = dlsh_part_source((dl_source){f->file, f->line});
    f->file = at.file;
    if (f->line) f->line = at.line;
}

void dlsh_tensor_places(const dl_tensor *t, dl_source *maker, dl_source *writer) {
    dl_tensor_places(t, maker, writer);
    *maker = dlsh_join_source(*maker);
    *writer = dlsh_join_source(*writer);
}

dl_source dlsh_optimizer_source(const dl_optimizer *o) { return dlsh_join_source(dl_optimizer_source(o)); }

dl_source dlsh_module_source(const dl_module *m) { return dlsh_join_source(dl_module_source(m)); }

dl_status dlsh_recorded_at(long i, dl_recorded *out) {
    DLSH_TRY(dl_recording_at(i, out));
    join_place(&out->file, &out->line);
    join_place(&out->layer_file, &out->layer_line);
    return DL_OK;
}

static void join_text(char *file, size_t size, int *line) {
    const dl_source at = dlsh_join_source((dl_source){file, *line});
    if (at.file != file) snprintf(file, size, "%s", at.file);
    *line = at.line;
}

dl_status dlsh_nan_event_at(int infinite, int i, dl_nan_event *out) {
    DLSH_TRY(dl_nan_event_at(infinite, i, out));
    join_text(out->file, sizeof out->file, &out->line);
    join_text(out->layer_file, sizeof out->layer_file, &out->layer_line);
    join_text(out->seen_file, sizeof out->seen_file, &out->seen_line);
    return DL_OK;
}

/* Completion with Tab: names, fields, commands with their arguments and options, layers, files. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <readline/readline.h>

#include "commands/context.h"
#include "commands/help.h"
#include "commands/settings.h"
#include "ffi/ffi.h"
#include "front/front.h"
#include "front/scan.h"
#include "lang/parse/fn.h"

#define EXPRESSION_BREAKS " \t\n\"'@><=;|&{}()[],+-*/%!~^?:.#"
#define WORD_BREAKS " \t\n\"';{}()[]="
#define QUOTE_BREAKS "\"'"
#define QUERY_BREAKS " \t\n\"'()=<>!~,;"

static dlsh_session *session;

/* ---------------------------------------------------------------- matches */

static struct {
    char **at;
    int n, cap, next;
    const char *prefix;
    int open_ended; /* no blank after the only match */
} found;

static void offer(const char *name, const char *suffix) {
    if (strncmp(name, found.prefix, strlen(found.prefix))) return;
    char **grown = dlsh_grow(found.at, found.n, &found.cap, sizeof *grown);
    if (!grown) return dl_error_clear();
    found.at = grown;
    size_t n = strlen(name) + strlen(suffix) + 1;
    char *copy = malloc(n);
    if (!copy) return;
    snprintf(copy, n, "%s%s", name, suffix);
    found.at[found.n++] = copy;
    if (*suffix) found.open_ended = 1;
}

static char *next_match(DLSH_UNUSED const char *text, int state) {
    if (!state) found.next = 0;
    /* readline frees what it gets */
    return found.next < found.n ? strdup(found.at[found.next++]) : NULL;
}

static void forget(void) {
    for (int i = 0; i < found.n; i++) free(found.at[i]);
    found.n = 0;
    found.open_ended = 0;
}

/* Choices written "on|off". */
static void offer_choices(const char *choices) {
    for (const char *c = choices; c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL) {
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(c, "|"), c);
        offer(word, "");
    }
}

/* ---------------------------------------------------------------- sources of names */

static void offer_variables(void) {
    for (int i = 0; i < dlsh_global_count(session); i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(session, i, &v);
        if (v) offer(name, dlsh_callable(*v) ? "(" : "");
    }
}

static void offer_expression(void) {
    static const char *const words[] = {"true", "false", "none", "f32", "f64", "i64", "i32", "u8", "bool"};
    offer_variables();
    for (int i = 0; i < dlsh_command_count(session); i++) {
        const dlsh_command *row = dlsh_command_at(session, i);
        if (row->flags & DLSH_FUNCTION && !(row->flags & DLSH_HIDDEN)) offer(row->name, "(");
    }
    dl_op_info op;
    for (int i = 0; dl_op_describe(i, &op); i++)
        if (!op.internal) offer(op.name, "(");
    for (size_t i = 0; i < DLSH_COUNT(words); i++) offer(words[i], "");
    const dlsh_cname *c;
    for (int i = 0; dlsh_c_space(session) && (c = dlsh_c_next(dlsh_c_space(session), &i));)
        if (dlsh_c_is_seen(c)) offer(c->name, c->proto || c->params ? "(" : "");
}

static void offer_statement(void) {
    static const char *const words[] = {"if",    "while",    "for", "fn",  "return",
                                        "break", "continue", "try", "net", "extern"};
    for (int i = 0; i < dlsh_command_count(session); i++) {
        const dlsh_command *row = dlsh_command_at(session, i);
        if ((row->flags & DLSH_ONLY_FUNCTION) != DLSH_ONLY_FUNCTION && !(row->flags & DLSH_HIDDEN))
            offer(row->name, "");
    }
    for (size_t i = 0; i < DLSH_COUNT(words); i++) offer(words[i], "");
    offer_expression();
}

static void offer_topic(DLSH_UNUSED void *arg, const char *group, const char *name, DLSH_UNUSED const char *doc) {
    offer(name, "");
    offer(group, "");
}

static void offer_sql(const char *sql) {
    if (!dlsh_store_there()) return; /* completion must not create the file */
    dl_store *store = dlsh_store(NULL);
    dl_rows *rows = store ? dl_store_sql(store, sql) : NULL;
    while (rows && dl_rows_next(rows) > 0)
        if (dl_rows_text(rows, 0)) offer(dl_rows_text(rows, 0), "");
    dl_rows_free(rows);
    dl_error_clear();
}

static void offer_settings(void) {
    for (const dlsh_setting *row = dlsh_settings(); row->name; row++) offer(row->name, "");
}

static void offer_schedules(void) {
    const dl_kind_row *row;
    for (int i = 0; (row = dl_schedule_kind_at(i)); i++) offer(row->name, "");
    offer("lambda", "");
    offer("multiplicative", "");
}

static void offer_metrics(void) { offer_sql("select distinct key from series order by key"); }

static void offer_runs(void) {
    offer("last", "");
    offer_sql("select cast(id as text) from run where deleted_us is null union "
              "select name from run where deleted_us is null and instr(name, ' ') = 0");
}

/* What conditions, columns and orders of run lists can name. */
static void offer_run_names(void) {
    static const char columns[] =
        "id|name|status|experiment|group|device|seed|model|n_params|dataset|host|commit|script|"
        "note|error|parent|sweep|started|ended|seconds|tag";
    static const char *const statistics[] = {"last", "first", "min", "max", "best", "mean", "n"};
    offer_choices(columns);
    offer_sql("select distinct key from param union select distinct key from series");
    for (size_t i = 0; i < DLSH_COUNT(statistics); i++) offer(statistics[i], "(");
}

static void offer_sql_words(void) {
    offer_choices(
        "select|from|where|group by|order by|limit|join|on|and|or|not|in|like|between|is|null|as|distinct|count(|"
        "min(|max(|avg(|sum(|desc|asc|having|left|union|case|when|then|else|end|with");
    offer_sql("select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'");
    offer_sql("select distinct c.name from sqlite_master m, pragma_table_info(m.name) c where m.type in ('table', "
              "'view')");
}

static void offer_topics(void) { dlsh_help_topics(session, offer_topic, NULL); }

static void offer_devices(void) {
    for (int i = 0; i < dl_device_count(); i++) offer(dl_device_name(i), "");
}

static void offer_precisions(void) {
    for (int p = DL_PRECISION_F32; p <= DL_PRECISION_F16; p++) offer(dl_precision_name((dl_precision)p), "");
}

static void offer_datasets(void) {
    const dl_data_kind *kind;
    for (int i = 0; (kind = dl_data_kind_at(i)); i++) offer(kind->name, "");
}

static void offer_shown(void) {
    offer("devices", "");
    offer("memory", "");
    offer("settings", "");
    offer_expression();
}

/* Paths; a leading ~ becomes the home folder, since commands take paths as they are. */
static void offer_files(void) {
    char *name, *path = *found.prefix == '~' ? tilde_expand(found.prefix) : NULL;
    if (path) found.prefix = path;
    for (int state = 0; (name = rl_filename_completion_function(found.prefix, state)); state = 1) {
        offer(name, "");
        free(name);
    }
    rl_filename_completion_desired = 1;
    if (path) found.prefix = "";
    free(path);
}

static const struct {
    const char *kind;
    void (*offer)(void);
} kinds[] = {{"var", offer_expression},      {"metric", offer_metrics},       {"run", offer_runs},
             {"file", offer_files},          {"topic", offer_topics},         {"setting", offer_settings},
             {"device", offer_devices},      {"precision", offer_precisions}, {"show", offer_shown},
             {"statement", offer_statement}, {"dataset", offer_datasets},     {"run names", offer_run_names},
             {"filter", offer_run_names},    {"sql", offer_sql_words},        {"schedule", offer_schedules}};

static void offer_kind(const char *complete, int expression) {
    for (size_t i = 0; complete && i < DLSH_COUNT(kinds); i++)
        if (!strcmp(kinds[i].kind, complete)) {
            kinds[i].offer();
            return;
        }
    if (complete && strchr(complete, '|'))
        offer_choices(complete);
    else if (expression)
        offer_expression();
}

static size_t name_before(const char *text, size_t end) {
    while (end > 0 && (isalnum((unsigned char)text[end - 1]) || text[end - 1] == '_')) end--;
    return end;
}

/* ---------------------------------------------------------------- fields */

int dlsh_chain_value(dlsh_session *s, const char *text, size_t end, dlsh_value *out) {
    size_t from = end;
    while (from > 0 && (isalnum((unsigned char)text[from - 1]) || strchr("_.", text[from - 1]))) from--;
    char chain[256];
    if (from == end || end - from >= sizeof chain) return 0;
    memcpy(chain, text + from, end - from);
    chain[end - from] = 0;
    char *save = NULL, *name = strtok_r(chain, ".", &save);
    const dlsh_value *root = name ? dlsh_get(s, name) : NULL;
    if (!root) return 0;
    dlsh_value v = dlsh_ref(*root);
    while ((name = strtok_r(NULL, ".", &save))) {
        dlsh_value next = dlsh_void();
        dl_status status = dlsh_get_field(s, v, name, &next);
        dlsh_drop(v);
        if (status) {
            dl_error_clear();
            return 0;
        }
        v = next;
    }
    *out = v;
    return 1;
}

static void offer_fields(const char *text, size_t dot) {
    DLSH_DROPPED dlsh_value v = dlsh_void(), names = dlsh_void();
    if (!dlsh_chain_value(session, text, dot, &v)) return;
    if (!dlsh_field_names(session, v, &names) && names.type == DLSH_LIST)
        for (int i = 0; i < names.as.list->n; i++)
            if (names.as.list->items[i].type == DLSH_STR) offer(names.as.list->items[i].as.str->s, "");
    dl_error_clear();
    found.open_ended = 1;
}

/* ---------------------------------------------------------------- commands and calls */

static void offer_options(const dlsh_command *row) {
    for (const dlsh_option *o = row->options; o && o->name; o++) offer(o->name, "=");
}

/* The next word of text[*at, end); returns its length, 0 at the end. */
static size_t next_word(const char *text, size_t *at, size_t end) {
    while (*at < end && isspace((unsigned char)text[*at])) ++*at;
    size_t n = 0;
    while (*at + n < end && !isspace((unsigned char)text[*at + n])) n++;
    return n;
}

static void offer_setting_values(const char *name, size_t len) {
    for (const dlsh_setting *row = dlsh_settings(); row->name; row++)
        if (strlen(row->name) == len && !memcmp(row->name, name, len) && strchr(row->values, '|'))
            offer_choices(row->values);
}

/* Conditions, lists of columns and SQL: texts of several names. */
static int is_query(const char *kind) {
    return kind && (!strcmp(kind, "filter") || !strcmp(kind, "sql") || !strcmp(kind, "run names"));
}

/* An option's value, `name=` standing before the word, or before the list in which it stands: returns 1 when it was
 * one. */
static int offer_option_value(const dlsh_command *row, const char *text, size_t from, size_t at) {
    size_t word = at, set;
    while (word > from && !isspace((unsigned char)text[word - 1])) word--;
    for (set = word; set < at && text[set] != '=';) set++;
    const dlsh_option *o = set < at ? dlsh_command_option(row, text + word, set - word) : NULL;
    if (!o || (set + 1 < at && !is_query(o->complete))) return 0;
    if (o->kind == DLSH_OPT_BOOL)
        offer_choices("true|false");
    else
        offer_kind(o->complete, o->kind != DLSH_OPT_WORD && o->kind != DLSH_OPT_STRING);
    return 1;
}

/* The parameter that a word at text[at] is for, text[from, at) being the words so far of the command *row, which
 * becomes that of a subcommand; NULL: none is wanted. *before is the word in front. */
static const dlsh_param *parameter_at(const dlsh_command **row, const char *text, size_t from, size_t at,
                                      const char **before, size_t *before_len) {
    size_t pos = from, n;
    int given = 0;
    *before = text + from;
    *before_len = 0;
    while ((n = next_word(text, &pos, at))) {
        const dlsh_param *p = dlsh_command_param(*row, 0);
        const dlsh_command *sub = p && p->kind == DLSH_ARG_SUBCOMMAND && !given ? (*row)->subs : NULL;
        while (sub && sub->name && !(strlen(sub->name) == n && !memcmp(sub->name, text + pos, n))) sub++;
        if (sub && sub->name)
            *row = sub;
        else if (!memchr(text + pos, '=', n))
            given++;
        *before = text + pos;
        *before_len = n;
        pos += n;
    }
    return dlsh_command_param(*row, given);
}

/* Inside a command's statement: text[from, at) are its words so far. */
static void offer_argument(const dlsh_command *row, const char *text, size_t from, size_t at) {
    const char *before;
    size_t before_len;
    const dlsh_param *p = parameter_at(&row, text, from, at, &before, &before_len);
    if (offer_option_value(row, text, from, at)) return;
    offer_options(row);
    if (!p) return;
    if (p->kind == DLSH_ARG_SUBCOMMAND) {
        for (const dlsh_command *sub = row->subs; sub && sub->name; sub++) offer(sub->name, "");
        return;
    }
    if (p->complete && !strcmp(p->complete, "value"))
        offer_setting_values(before, before_len);
    else
        offer_kind(p->complete, p->kind != DLSH_ARG_WORD);
}

/* Names that may be given by keyword to the function whose ( stands at `open`. */
static void offer_keywords(const char *text, size_t open) {
    size_t from = name_before(text, open);
    if (from == open) return;
    const dlsh_command *row = dlsh_find_command(session, text + from, open - from);
    if (row && row->flags & DLSH_FUNCTION) offer_options(row);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(open - from), text + from);
    const dlsh_value *v = dlsh_get(session, name);
    for (int i = 0; v && v->type == DLSH_FN && i < v->as.fn->info->nparams; i++) offer(v->as.fn->info->names[i], "=");
    const dl_kind_row *kind;
    for (int i = 0; (kind = dl_optimizer_kind_at(i)); i++)
        for (const dl_option_row *o = strcmp(kind->name, name) ? NULL : kind->options; o && o->name; o++)
            offer(o->name, "=");
    dl_op_info op;
    if (!dl_op_describe_name(name, &op)) return;
    for (int i = 0; i < op.nargs; i++)
        if (strncmp(op.args[i].kind, "tensor", 6)) offer(op.args[i].name, "=");
}

static const dlsh_command *command_of(const char *text, size_t from, size_t at, size_t *after);

/* What may stand in the string at the cursor, as the row of its option or argument says; NULL: it does not say. */
static const char *string_kind(const char *text, const dlsh_cursor *c) {
    size_t quote = c->string - 1, after = c->statement, from = name_before(text, c->bracket), len;
    const char *word;
    const dlsh_command *row = c->open == '(' ? dlsh_find_command(session, text + from, c->bracket - from)
                              : c->open      ? NULL
                                             : command_of(text, c->statement, quote, &after);
    if (!row || !quote) return NULL;
    if (text[quote - 1] == '=') {
        from = name_before(text, quote - 1);
        const dlsh_option *o = dlsh_command_option(row, text + from, quote - 1 - from);
        return o ? o->complete : NULL;
    }
    const dlsh_param *p = !c->open                  ? parameter_at(&row, text, after, quote, &word, &len)
                          : c->bracket == quote - 1 ? dlsh_command_param(row, 0)
                                                    : NULL;
    return p ? p->complete : NULL;
}

/* The values of what stands before an operator in a condition: 1 when there is one. */
static int offer_values(const char *text, size_t start, size_t at) {
    while (at > start && isspace((unsigned char)text[at - 1])) at--;
    size_t end = at;
    while (at > start && strchr("=!~<>", text[at - 1])) at--;
    if (at == end) return 0;
    while (at > start && isspace((unsigned char)text[at - 1])) at--;
    size_t from = at;
    while (from > start && !strchr(QUERY_BREAKS, text[from - 1])) from--;
    if (at - from > 100 || memchr(text + from, '\'', at - from)) return 1;
    char name[128], sql[1000];
    snprintf(name, sizeof name, "%.*s", (int)(at - from), text + from);
    if (!strcmp(name, "status")) offer_choices("running|paused|finished|failed|killed|diverged");
    snprintf(
        sql, sizeof sql,
        "select tag from tag where '%s' = 'tag' union select value from param where key = '%s' and value not like "
        "'%% %%' union select case '%s' when 'name' then name when 'experiment' then experiment when 'device' then "
        "device when 'model' then model_name when 'dataset' then dataset when 'host' then host end from run limit 500",
        name, name, name);
    offer_sql(sql);
    return 1;
}

/* In the text of a query: values after an operator, else names and the words that join conditions. */
static void offer_query(const char *kind, const char *text, size_t start, size_t at) {
    if (!strcmp(kind, "filter")) {
        if (offer_values(text, start, at)) return;
        offer_choices("and|or|not|in|like|none");
    }
    offer_kind(kind, 0);
}

/* In a string: what its row says, else files. */
static void offer_string(const char *text, size_t at, const dlsh_cursor *c) {
    const char *kind = string_kind(text, c);
    if (is_query(kind)) return offer_query(kind, text, c->string, at);
    if (kind) offer_kind(kind, 0);
    if (!found.n) offer_files();
}

/* In a net: a kind of layer after `->`, a label or the start, else the options of the kind that stands there. */
static void offer_layers(const char *text, size_t from, size_t at) {
    for (size_t i = from; i + 1 < at; i++)
        if (text[i] == '-' && text[i + 1] == '>') from = i + 2;
    for (size_t i = from; i < at; i++)
        if (text[i] == ':') from = i + 1;
    size_t pos = from, n = next_word(text, &pos, at);
    const dl_kind_row *row;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n, text + pos);
    if (!n) {
        for (int i = 0; (row = dl_layer_kind_at(i)); i++) offer(row->name, "");
        offer_choices("repeat|residual|shortcut");
    } else if ((row = dl_layer_kind(name))) {
        for (const dl_option_row *o = row->options; o && o->name; o++) offer(o->name, "=");
    }
}

/* ---------------------------------------------------------------- deciding */

/* The row of the command that the statement text[from, at) is, with *after its first word. */
static const dlsh_command *command_of(const char *text, size_t from, size_t at, size_t *after) {
    size_t pos = from, n = next_word(text, &pos, at);
    if (!n) return NULL;
    const dlsh_command *row = dlsh_find_command(session, text + pos, n);
    *after = pos + n;
    return row && (row->flags & DLSH_ONLY_FUNCTION) != DLSH_ONLY_FUNCTION && *after < at ? row : NULL;
}

/* `time` and `show` take a statement: its command counts. */
static const dlsh_command *inner_command(const char *text, size_t at, const dlsh_command *row, size_t *after) {
    const dlsh_param *p = dlsh_command_param(row, 0);
    size_t pos = *after;
    if (!p || p->kind != DLSH_ARG_STATEMENT || !next_word(text, &pos, at)) return row;
    const dlsh_command *inner = command_of(text, *after, at, after);
    return inner ? inner : row;
}

static void offer_all(const char *text, size_t at, const dlsh_cursor *c) {
    size_t after = c->statement, pos = c->statement;
    if (at > 0 && text[at - 1] == '.') {
        offer_fields(text, at - 1);
        return;
    }
    if (c->open) {
        if (c->open == '(') offer_keywords(text, c->bracket);
        offer_expression();
        return;
    }
    if (c->net) {
        offer_layers(text, c->statement, at);
        return;
    }
    const dlsh_command *row = command_of(text, c->statement, at, &after);
    if (row) {
        row = inner_command(text, at, row, &after);
        offer_argument(row, text, after, at);
    } else if (!next_word(text, &pos, at)) {
        offer_statement();
    } else {
        offer_expression();
    }
}

/* Offers what may stand at text + from, where `prefix` is the text between there and the cursor. */
static void offer_at(const char *text, size_t from, const char *prefix) {
    dlsh_cursor c = dlsh_scan(text, from);
    forget();
    found.prefix = prefix;
    if (c.quote) {
        offer_string(text, from, &c);
    } else if (!c.comment) {
        offer_all(text, from, &c);
    }
}

/* The characters that end a word depend on where the cursor is: test/acc is one word of the command `best`, and two of
 * an expression; inside quotes a path with blanks is one word. */
static const char *breaks_at(const char *text, size_t len, const dlsh_cursor *c) {
    size_t after, word = len, name_len;
    const char *name;
    if (c->quote) return is_query(string_kind(text, c)) ? QUERY_BREAKS : QUOTE_BREAKS;
    const dlsh_command *row = c->open || c->net ? NULL : command_of(text, c->statement, len, &after);
    if (!row) return EXPRESSION_BREAKS;
    row = inner_command(text, len, row, &after);
    while (word > after && !isspace((unsigned char)text[word - 1])) word--;
    const dlsh_param *p = parameter_at(&row, text, after, word, &name, &name_len);
    const char *set = memchr(text + word, '=', len - word);
    const dlsh_option *o = set ? dlsh_command_option(row, text + word, (size_t)(set - text) - word) : NULL;
    int words = o ? o->kind == DLSH_OPT_WORD : p && (p->kind == DLSH_ARG_WORD || p->kind == DLSH_ARG_SUBCOMMAND);
    return o && is_query(o->complete) ? QUERY_BREAKS "-" : words ? WORD_BREAKS : EXPRESSION_BREAKS;
}

/* ---------------------------------------------------------------- the notebook's side */

static int is_option(const char *name) { return *name && name[strlen(name) - 1] == '='; }

/* What may be given by name where the cursor is comes before names that can stand anywhere. */
static int by_name(const void *a, const void *b) {
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    int options = is_option(y) - is_option(x);
    return options ? options : strcmp(x, y);
}

int dlsh_complete(dlsh_session *s, const char *text, size_t len, size_t *start, char *const **names) {
    session = s;
    dlsh_cursor c = dlsh_scan(text, len);
    const char *breaks = breaks_at(text, len, &c);
    size_t from = len;
    size_t least = c.quote ? c.string : 0;
    if (c.quote && !strcmp(breaks, QUOTE_BREAKS))
        from = least;
    else
        while (from > least && !strchr(breaks, text[from - 1])) from--;
    DLSH_FREED char *prefix = c.comment ? NULL : strndup(text + from, len - from);
    *start = from;
    forget();
    if (prefix) offer_at(text, from, prefix);
    if (found.n) qsort(found.at, (size_t)found.n, sizeof *found.at, by_name);
    int n = 0;
    for (int i = 0; i < found.n; i++) {
        if (n && !strcmp(found.at[i], found.at[n - 1]))
            free(found.at[i]);
        else
            found.at[n++] = found.at[i];
    }
    found.n = n;
    *names = found.at;
    return n;
}

/* ---------------------------------------------------------------- readline's side */

/* The lines of the entry above the one that is edited: brackets may be open in them. */
static const dlsh_buf *before;

static char *whole_text(size_t *len, int upto) {
    DLSH_SCOPED_BUF b = {0};
    if (before && before->n) dlsh_buf_add(&b, before->s, before->n);
    dlsh_buf_add(&b, rl_line_buffer, (size_t)upto);
    *len = b.n;
    char *text = strdup(dlsh_buf_text(&b));
    return text;
}

static char *word_breaks(void) {
    size_t len;
    char *text = whole_text(&len, rl_point);
    if (!text) return (char *)EXPRESSION_BREAKS;
    dlsh_cursor c = dlsh_scan(text, len);
    const char *breaks = breaks_at(text, len, &c);
    free(text);
    /* readline takes a whole string for one word, which the text of a query is not */
    rl_completer_quote_characters = c.quote && strcmp(breaks, QUOTE_BREAKS) ? NULL : QUOTE_BREAKS;
    return (char *)breaks; /* readline only reads it */
}

static char **attempt(const char *prefix, int start, DLSH_UNUSED int end) {
    size_t len;
    rl_attempted_completion_over = 1;
    DLSH_FREED char *text = whole_text(&len, start);
    if (!text) return NULL;
    offer_at(text, len, prefix);
    char **matches = found.n ? rl_completion_matches(prefix, next_match) : NULL;
    if (found.open_ended) rl_completion_suppress_append = 1;
    return matches;
}

void dlsh_complete_setup(dlsh_session *s, const dlsh_buf *entry) {
    session = s;
    before = entry;
    rl_attempted_completion_function = attempt;
    rl_completion_word_break_hook = word_breaks;
    rl_basic_word_break_characters = EXPRESSION_BREAKS;
    rl_completer_quote_characters = QUOTE_BREAKS;
    rl_completion_query_items = 200;
}

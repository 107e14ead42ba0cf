/* Trees as s-expressions: names bare, strings in quotes, words of commands with a leading ', operators first. */
#include <string.h>

#include "lang/command.h"

static void kids(dlsh_buf *b, const dlsh_node *n) {
    for (int i = 0; i < n->nkids; i++) {
        dlsh_buf_puts(b, " ");
        dlsh_dump(b, n->kids[i]);
    }
}

static void quoted(dlsh_buf *b, const char *s, long len) { dlsh_buf_quote(b, s, (size_t)len); }

static void head(dlsh_buf *b, const dlsh_node *n) {
    switch (n->kind) {
    case DLSH_N_BINARY:
    case DLSH_N_UNARY: dlsh_buf_puts(b, dlsh_op_text(n->op)); return;
    case DLSH_N_ASSIGN:
        dlsh_buf_puts(b, "assign");
        if (n->op) dlsh_buf_printf(b, " %s", dlsh_op_text(n->op));
        return;
    case DLSH_N_KWARG:
        dlsh_buf_printf(b, "%s ", dlsh_kind_name(n->kind));
        dlsh_buf_key(b, n->text);
        return;
    case DLSH_N_SPREAD: dlsh_buf_printf(b, "%s %s", dlsh_kind_name(n->kind), dlsh_op_text(n->op)); return;
    case DLSH_N_PARAM:
        dlsh_buf_printf(b, "%s %s%s", dlsh_kind_name(n->kind), n->op ? dlsh_op_text(n->op) : "", n->text);
        return;
    case DLSH_N_FIELD:
    case DLSH_N_OPTION:
    case DLSH_N_NET: dlsh_buf_printf(b, "%s %s", dlsh_kind_name(n->kind), n->text); return;
    case DLSH_N_FN: dlsh_buf_printf(b, n->text ? "fn %s" : "fn", n->text); return;
    case DLSH_N_COMMAND: dlsh_buf_printf(b, "command %s", n->num.cmd->name); return;
    case DLSH_N_LAYER:
        dlsh_buf_puts(b, "layer ");
        if (n->label) dlsh_buf_printf(b, "%s: ", n->label);
        dlsh_buf_puts(b, n->text);
        return;
    case DLSH_N_EXTERN:
    case DLSH_N_CBLOCK:
        dlsh_buf_printf(b, "%s ", dlsh_kind_name(n->kind));
        quoted(b, n->text, (long)strlen(n->text));
        dlsh_buf_puts(b, " ");
        quoted(b, n->label, (long)strlen(n->label));
        return;
    default: dlsh_buf_puts(b, dlsh_kind_name(n->kind));
    }
}

void dlsh_dump(dlsh_buf *b, const dlsh_node *n) {
    if (!n) {
        dlsh_buf_puts(b, "-");
        return;
    }
    switch (n->kind) {
    case DLSH_N_NONE: dlsh_buf_puts(b, "none"); return;
    case DLSH_N_BOOL: dlsh_buf_puts(b, n->num.i ? "true" : "false"); return;
    case DLSH_N_INT: dlsh_buf_printf(b, "%ld", n->num.i); return;
    case DLSH_N_FLOAT: dlsh_buf_float(b, n->num.f); return;
    case DLSH_N_IMAG:
        dlsh_buf_float(b, n->num.f);
        dlsh_buf_puts(b, "j");
        return;
    case DLSH_N_NAME: dlsh_buf_puts(b, n->text); return;
    case DLSH_N_ELLIPSIS: dlsh_buf_puts(b, "..."); return;
    case DLSH_N_STR:
        if (n->flags & DLSH_WORD)
            dlsh_buf_printf(b, "'%s", n->text);
        else
            quoted(b, n->text, n->num.i);
        return;
    default:
        dlsh_buf_puts(b, "(");
        head(b, n);
        kids(b, n);
        dlsh_buf_puts(b, n->flags & DLSH_SILENT ? ";)" : ")");
    }
}

/* Bundles: one thing in several forms, and putting several things below each other. */
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "view/sink.h"

void dlsh_bundle_free(dlsh_bundle *b) {
    dlsh_buf_free(&b->text);
    dlsh_buf_free(&b->alt);
    for (int i = 0; i < DLSH_FORMS; i++) dlsh_buf_free(&b->form[i]);
    *b = (dlsh_bundle){0};
}

const char *dlsh_form_type(int form) {
    static const char *const types[DLSH_FORMS] = {
        [DLSH_HTML] = "text/html",        [DLSH_PNG] = "image/png",          [DLSH_SVG] = "image/svg+xml",
        [DLSH_JSON] = "application/json", [DLSH_MARKDOWN] = "text/markdown", [DLSH_LATEX] = "text/latex"};
    return types[form];
}

void dlsh_html_escape(dlsh_buf *b, const char *s, size_t n) {
    static const char special[] = "&<>\"'";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    DLSH_SCOPED_BUF seen = {0};
    dlsh_buf_visible(&seen, s, n);
    for (size_t i = 0; i < seen.n; i++) {
        const char *at = seen.s[i] ? strchr(special, seen.s[i]) : NULL;
        if (at)
            dlsh_buf_puts(b, entities[at - special]);
        else
            dlsh_buf_add(b, seen.s + i, 1);
    }
}

void dlsh_base64(dlsh_buf *b, const void *data, size_t n) {
    unsigned char out[65];
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i += 48) {
        int got = EVP_EncodeBlock(out, p + i, (int)(n - i < 48 ? n - i : 48));
        dlsh_buf_add(b, (const char *)out, (size_t)got);
    }
}

/* Text with escape sequences of colours left out. */
static void put_plain(dlsh_buf *b, const dlsh_buf *text) {
    for (size_t i = 0, from = 0; i <= text->n; i++) {
        if (i < text->n && text->s[i] != '\033') continue;
        dlsh_html_escape(b, text->s + from, i - from);
        while (i < text->n && text->s[i] != 'm') i++;
        from = i + 1;
    }
}

/* The best form of b as HTML. */
static void put_html(dlsh_buf *out, const dlsh_bundle *b) {
    const dlsh_buf *markup = &b->form[b->form[DLSH_HTML].n ? DLSH_HTML : DLSH_SVG];
    if (markup->n) {
        dlsh_buf_add(out, markup->s, markup->n);
    } else if (b->form[DLSH_PNG].n) {
        dlsh_buf_puts(out, "<img src=\"data:image/png;base64,");
        dlsh_base64(out, b->form[DLSH_PNG].s, b->form[DLSH_PNG].n);
        dlsh_buf_puts(out, "\" alt=\"");
        dlsh_html_escape(out, b->alt.n ? b->alt.s : "", b->alt.n);
        dlsh_buf_puts(out, "\"/>");
    } else if (b->text.n) {
        dlsh_buf_puts(out, "<pre>");
        put_plain(out, &b->text);
        dlsh_buf_puts(out, "</pre>");
    }
}

static int pictured(const dlsh_bundle *b) { return b->form[DLSH_HTML].n || b->form[DLSH_SVG].n || b->form[DLSH_PNG].n; }

static int empty(const dlsh_bundle *b) {
    size_t n = b->text.n;
    for (int i = 0; i < DLSH_FORMS; i++) n += b->form[i].n;
    return !n;
}

void dlsh_bundle_join(dlsh_bundle *b, const dlsh_bundle *more) {
    int first = empty(b);
    if (first) {
        for (int i = 0; i < DLSH_FORMS; i++)
            if (more->form[i].n) dlsh_buf_add(&b->form[i], more->form[i].s, more->form[i].n);
        if (more->alt.n) dlsh_buf_add(&b->alt, more->alt.s, more->alt.n);
        b->width = more->width;
        b->height = more->height;
    } else {
        dlsh_buf html = {0};
        if (pictured(b) || pictured(more)) put_html(&html, b), put_html(&html, more);
        for (int i = 0; i < DLSH_FORMS; i++) dlsh_buf_free(&b->form[i]);
        b->form[DLSH_HTML] = html;
    }
    if (more->text.n) dlsh_buf_add(&b->text, more->text.s, more->text.n);
}
